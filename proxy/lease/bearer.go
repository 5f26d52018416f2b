package lease

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

// Bearer is the token of a file that clients have to show (RFC 6750). The file
// is looked at when a client comes, at most once in a second, and read again
// when it has changed; what cannot be used leaves the old token.
type Bearer struct {
	path string

	mu     sync.Mutex // guards what follows
	log    *zap.Logger
	sum    [sha256.Size]byte // of the token: sums are of one length, whatever is shown
	seen   os.FileInfo       // as it was before it was read
	looked time.Time
}

// NewBearer reads the file.
func NewBearer(path string) (*Bearer, error) {
	b := &Bearer{path: path, log: zap.NewNop(), looked: time.Now()}
	if err := b.read(); err != nil {
		return nil, err
	}
	return b, nil
}

// LogTo has later readings told to log.
func (b *Bearer) LogTo(log *zap.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = log
}

// allows reports whether r shows the token, once.
func (b *Bearer) allows(r *http.Request) bool {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return false
	}
	scheme, shown, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	sum, want := sha256.Sum256([]byte(shown)), b.now()
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

func (b *Bearer) now() [sha256.Size]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.looked) >= time.Second {
		b.looked = time.Now()
		info, err := os.Stat(b.path)
		if err == nil && os.SameFile(info, b.seen) && info.Size() == b.seen.Size() && info.ModTime().Equal(b.seen.ModTime()) {
			return b.sum
		}
		if err := b.read(); err != nil {
			b.log.Warn("leases.token_file: the new token cannot be used, the old one stays", zap.Error(err))
		} else {
			b.log.Info("leases.token_file: the token was read again")
		}
	}
	return b.sum
}

// read takes the file's token. The caller holds the lock.
func (b *Bearer) read() error {
	info, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New(b.path + " is no file") // a pipe would be waited for
	}
	text, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	token := strings.TrimRight(string(text), "\r\n")
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("%s must hold one line with the token, of ASCII letters, digits and signs", b.path)
	}
	b.sum, b.seen = sha256.Sum256([]byte(token)), info
	return nil
}
