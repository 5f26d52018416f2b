package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// minToken is the shortest token, in bytes: shorter ones are guessed.
	minToken = 16
	maxToken = 4096
	// lookAgain is how often the file is looked at, at most.
	lookAgain = time.Second
)

// Token is the bearer token of a file. The file is looked at when somebody
// comes, at most once a second, and read again when it has changed; where it
// cannot be used any more the old token stays, and the log says so.
type Token struct {
	path    string
	exposed bool
	log     *zap.Logger

	mu     sync.Mutex // guards what follows
	sum    [sha256.Size]byte
	seen   os.FileInfo // nil after a failure that was told
	looked time.Time
}

// ReadToken reads the token of a file: its first and only line.
func ReadToken(path string) (*Token, error) {
	t := &Token{path: path, log: zap.NewNop(), looked: time.Now()}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	t.seen, t.exposed = info, info.Mode().Perm()&0o004 != 0
	t.sum, err = readSum(path)
	return t, err
}

// Exposed reports whether every user of the machine could read the file when it
// was read first. That a group can is often meant: so a proxy with a user of its
// own reads what it must not change.
func (t *Token) Exposed() bool { return t.exposed }

// Tell makes log hear of every reading from now on. It is to be called before
// the token is used.
func (t *Token) Tell(log *zap.Logger) { t.log = log }

func readSum(path string) (sum [sha256.Size]byte, err error) {
	text, err := ReadSecret(path)
	if err != nil {
		return sum, err
	}
	return sha256.Sum256([]byte(text)), nil
}

// ReadSecret returns the token that a file holds.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New(path + " is no file") // a pipe would be waited for
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	switch {
	case len(text) < minToken || len(text) > maxToken:
		return "", fmt.Errorf("%s holds a token of %d bytes; it must have %d to %d, as `openssl rand -hex 32` makes it", path, len(text), minToken, maxToken)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s must hold one token, on one line, of printable ASCII without spaces", path)
	}
	return text, nil
}

// In reports whether a request carries the token, in exactly one Authorization
// header. How long it takes says nothing of how much of it was right.
func (t *Token) In(r *http.Request) bool {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, given, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum, now := sha256.Sum256([]byte(given)), t.now()
	return subtle.ConstantTimeCompare(sum[:], now[:]) == 1
}

// now is the sum of the token for a request that comes now.
func (t *Token) now() [sha256.Size]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) >= lookAgain {
		t.looked = time.Now()
		t.look()
	}
	return t.sum
}

func (t *Token) look() {
	info, err := os.Stat(t.path)
	if err == nil && t.seen != nil && os.SameFile(info, t.seen) && info.Size() == t.seen.Size() && info.ModTime().Equal(t.seen.ModTime()) {
		return
	}
	var sum [sha256.Size]byte
	if err == nil {
		sum, err = readSum(t.path)
	}
	if err != nil {
		if t.seen != nil {
			t.log.Warn("the new token file cannot be used, the old token stays", zap.Error(err))
		}
		t.seen = nil
		return
	}
	t.sum, t.seen = sum, info
	t.log.Info("the token file was read again", zap.String("path", t.path))
}
