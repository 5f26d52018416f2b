package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// raiseLog is the log to which the committer appends. It is used by one
// goroutine at a time.
type raiseLog struct {
	framer
	file *os.File
	end  int64 // of the last frame that is known to be on the disk
	buf  []byte
}

// syncError is a sync that failed. The kernel forgets which pages never
// reached the disk, and a second sync would succeed without them: the store
// that meets one is of no more use.
type syncError struct{ cause error }

func (e *syncError) Error() string { return "a sync failed: " + e.cause.Error() }
func (e *syncError) Unwrap() error { return e.cause }

// newLog makes the log of a generation in dir, with no frame in it. When it
// returns, the log is on the disk with its entry in the directory, so that no
// frame can be lost with it. A *syncError leaves a file behind, and so does a
// *leftError; after other errors there is none.
func newLog(dir string, generation uint64) (l *raiseLog, err error) {
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	path := filepath.Join(dir, logName(generation))
	// A file that is there already may hold marks: it is never written over.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	l = &raiseLog{framer: newFramer(generation, salt), file: file, end: int64(logHeaderSize)}
	if _, err := file.WriteAt(l.header(), 0); err != nil {
		if rerr := errors.Join(file.Close(), os.Remove(path)); rerr != nil {
			return nil, &leftError{err, rerr}
		}
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, &syncError{errors.Join(err, file.Close())}
	}
	if err := syncPath(dir); err != nil {
		return nil, &syncError{errors.Join(err, file.Close())}
	}
	return l, nil
}

// leftError is a write that failed, and whose half-made work could not be
// taken back either.
type leftError struct{ cause, undo error }

func (e *leftError) Error() string {
	return fmt.Sprintf("%v, and what was written cannot be taken back: %v", e.cause, e.undo)
}
func (e *leftError) Unwrap() []error { return []error{e.cause, e.undo} }

// append writes one frame, which beginFrame and appendEntry made in l.buf, at
// the end of the log, and syncs it. sync is what the sync itself answers with,
// given its own error; it is nil but in tests. After an error that passes (see
// passing) the log is as it was, and every other error leaves it in doubt.
func (l *raiseLog) append(sync func(error) error) error {
	l.seal(l.buf, l.end)
	if _, err := l.file.WriteAt(l.buf, l.end); err != nil {
		// What was written of it must go before the next frame comes, or it
		// would stand between two whole ones if that one is shorter.
		if terr := l.file.Truncate(l.end); terr != nil {
			return &leftError{err, terr}
		}
		return err
	}
	err := fdatasync(l.file)
	if sync != nil {
		err = sync(err)
	}
	if err != nil {
		return &syncError{err}
	}
	l.end += int64(len(l.buf))
	if cap(l.buf) > maxKeptFrame {
		l.buf = nil
	}
	return nil
}

// maxKeptFrame is the largest frame whose memory is used again, in bytes.
const maxKeptFrame = 1 << 20

func (l *raiseLog) close() error { return l.file.Close() }
