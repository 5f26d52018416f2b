package upstream

import (
	"context"
	"io"
	"testing"
)

// frozen is a body whose client goes on while the proxy stands still: its second
// part is there when the leave to send is over, and before anybody has heard.
func frozen(r *Request, length int64) {
	parts, over := 0, false
	r.Body, r.Length, r.Interrupt = readFunc(func(p []byte) (int, error) {
		if parts++; parts == 1 {
			return copy(p, hello), nil
		}
		over = true
		return copy(p, hello), io.EOF
	}), length, func() {}
	r.MaySend = func() bool { return !over }
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestLeaveEndsInUpload: R5 holds of the last byte as of the first.
func TestLeaveEndsInUpload(t *testing.T) {
	for one, length := range map[string]int64{hello: int64(2 * len(hello)), "5\r\nhello\r\n": -1} {
		t.Run(one, func(t *testing.T) {
			got := make(chan int64, 1)
			u, _, done := listen(t, func(w *wire) {
				w.head()
				n, _ := io.Copy(io.Discard, w.br)
				got <- n
			})
			r := put()
			frozen(r, length)
			res := exchangeOnce(t, context.Background(), u, r)
			if res.outcome != unsettled(ReasonCanceled) {
				t.Errorf("%v (%v)", res.outcome, res.err)
			}
			if n := <-got; n > int64(len(one)) {
				t.Errorf("%d bytes of the body came, want its first part alone", n)
			}
			done()
		})
	}
}

func TestH2LeaveEndsInUpload(t *testing.T) {
	got := make(chan bool, 1)
	u, _, done := listenH2(t, nil, func(w *h2wire) {
		w.head()
		w.body(len(hello))
		_, more := w.frame().(interface{ Data() []byte })
		got <- more
	})
	r := put()
	frozen(r, -1)
	if res := exchangeOnce(t, context.Background(), u, r); res.outcome != unsettled(ReasonCanceled) {
		t.Errorf("%v (%v)", res.outcome, res.err)
	}
	if <-got {
		t.Error("the second part came")
	}
	done()
}
