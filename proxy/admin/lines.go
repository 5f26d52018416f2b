package admin

import (
	"io"
	"sync"
)

// Lines is a writer of whole lines, each by one call of Write. A disk that fills
// up takes the beginning of one; the next then begins on a line of its own, or
// it would be lost with the one that was cut.
type Lines struct {
	mu  sync.Mutex // guards what follows
	out io.Writer
	cut bool // out ends within a line
}

// NewLines writes to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Write writes a line, which ends with a newline.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		if _, err := l.out.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		l.cut = false
	}
	n, err := l.out.Write(line)
	l.cut = n > 0 && n < len(line)
	return n, err
}
