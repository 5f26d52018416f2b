package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/proxy/guard"
)

// Audit writes a line of JSON for every change that an operator asked for: one
// when it begins, without which it is not made, and one when it has ended. Those
// that were refused before they began have the second alone. What became of a
// lease has a line, too.
//
// A file that was moved away, as by logrotate, is made anew at the next line.
type Audit struct {
	path string // "" for a writer that stays

	mu    sync.Mutex // guards what follows
	out   io.Writer
	file  *os.File
	stuck bool // the last line waited in vain
}

// NewAudit writes to out, such as Lines.
func NewAudit(out io.Writer) *Audit { return &Audit{out: out} }

// OpenAudit appends to a file, which is made where there is none, for its owner
// alone to read.
func OpenAudit(path string) (*Audit, error) {
	a := &Audit{path: path}
	return a, a.open()
}

// pipePatience is how long a line waits for whoever reads the other end, where
// the file is a pipe; stuckPatience the same of one behind a line that waited in
// vain. Grants are told of before they are answered, and all of them would wait
// for one another.
const (
	pipePatience  = 2 * time.Second
	stuckPatience = 10 * time.Millisecond
)

// open does not wait for a reader of a pipe, nor do the writes that follow wait
// for ever.
func (a *Audit) open() error {
	f, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s is a pipe that nobody reads: start its reader first", a.path)
	}
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return errors.Join(fmt.Errorf("%s cannot be appended to", a.path), err, f.Close())
	}
	if a.file != nil {
		_ = a.file.Close()
	}
	a.file, a.out = f, &Lines{out: f, cut: endsWithinLine(a.path)}
	return nil
}

// endsWithinLine reports whether the last line of a file was cut, as one of a
// life that ended on a full disk. What cannot be read, such as a pipe, was not.
func endsWithinLine(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Close closes the file.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// AuditLine is one line.
type AuditLine struct {
	Time   time.Time `json:"time"`
	Audit  string    `json:"audit"`  // what is done: raise, settle, forget, forget-many, import
	Result string    `json:"result"` // begun, done, refused, failed
	ID     string    `json:"id"`     // the same on the lines of one change
	Who    Who       `json:"who"`
	Key    string    `json:"key,omitempty"`
	Rule   string    `json:"rule,omitempty"`
	Asked  any       `json:"asked,omitempty"` // beside the key
	Before *Snapshot `json:"before,omitempty"`
	After  *Snapshot `json:"after,omitempty"`
	Report any       `json:"report,omitempty"` // what was done, beside the record
	Reason string    `json:"reason"`
	Detail string    `json:"detail,omitempty"` // why it was refused, or has failed
}

// Who asked.
type Who struct {
	Peer        string `json:"peer"`                  // address
	Certificate string `json:"certificate,omitempty"` // the client's, by its subject
	Bearer      bool   `json:"bearer,omitempty"`      // knew the token
}

// Snapshot is the record of a key at a moment.
type Snapshot struct {
	Highest  string     `json:"highest,omitempty"` // none: no record
	Holder   string     `json:"holder,omitempty"`
	RaisedAt *time.Time `json:"raised_at,omitempty"`
}

// The results of a change.
const (
	resultBegun   = "begun"
	resultDone    = "done"
	resultRefused = "refused" // nothing was changed
	resultFailed  = "failed"  // what was changed is in after, where that is known
)

// Write writes a line, in one piece.
func (a *Audit) Write(l AuditLine) error {
	l.Time = time.Now().UTC()
	return a.write(l)
}

func (a *Audit) write(l any) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path != "" && !a.current() {
		if err := a.open(); err != nil {
			return err
		}
	}
	if a.file != nil {
		patience := pipePatience
		if a.stuck {
			patience = stuckPatience
		}
		_ = a.file.SetWriteDeadline(time.Now().Add(patience)) // a disk has none
	}
	_, err = a.out.Write(append(b, '\n'))
	if a.stuck = errors.Is(err, os.ErrDeadlineExceeded); a.stuck {
		err = fmt.Errorf("%s is a pipe whose reader takes nothing: see to its reader", a.path)
	}
	return err
}

// ended writes the last line of a change. That it began was told, where anything
// was changed; the log has the rest.
func (a *api) ended(l AuditLine) {
	if err := a.Audit.Write(l); err != nil {
		a.Log.Error("the audit line about the end of a change cannot be written", zap.Error(err), zap.Any("line", l))
	}
}

// current reports whether the file is still the one of that name.
func (a *Audit) current() bool {
	here, err := a.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(a.path)
	return err == nil && os.SameFile(here, named)
}

// whoIs tells who sent a request that was let in.
func whoIs(r *http.Request, token *guard.Token) Who {
	w := Who{Peer: r.RemoteAddr, Bearer: token != nil}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		w.Certificate = r.TLS.PeerCertificates[0].Subject.String()
	}
	return w
}
