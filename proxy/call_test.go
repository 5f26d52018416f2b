package proxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

// message is a gRPC message of n bytes.
func message(n int) string {
	return "\x00" + string([]byte{0, 0, byte(n >> 8), byte(n)}) + strings.Repeat("m", n)
}

// TestCallBody: whatever the pieces in which a call comes, it is read as it is,
// and the end of one with a single message comes with its last byte.
func TestCallBody(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "half a prefix": "\x00\x00", "an empty message": message(0), "one message": message(300),
		"half a message": message(300)[:100], "three": message(1) + message(0) + message(9),
	} {
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			b := &callBody{body: r}
			got, err := io.ReadAll(b)
			if err != nil || string(got) != text {
				t.Errorf("%s, %s: %q, %v; want %q", name, how, got, err, text)
			}
		}
	}
	b := &callBody{body: strings.NewReader(message(3))}
	if n, err := b.Read(make([]byte, 100)); n != 8 || err != io.EOF {
		t.Errorf("one message: %d, %v; want it with its end", n, err)
	}
	b = &callBody{body: io.MultiReader(strings.NewReader(message(3)), iotest.ErrReader(errors.New("broken")))}
	if got, err := io.ReadAll(b); len(got) != 8 || err == nil || err.Error() != "broken" {
		t.Errorf("a call that breaks off: %d bytes, %v", len(got), err)
	}
}

// A client that waits after its first message holds up nothing but that for a
// moment.
func TestCallBodyPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b := &callBody{body: pr}
		go io.WriteString(pw, message(3))
		p := make([]byte, 100)
		if n, err := b.Read(p); n != 8 || err != nil {
			t.Errorf("the first: %d, %v", n, err)
		}
		go func() {
			_, _ = io.WriteString(pw, message(5))
			_ = pw.Close()
		}()
		if got, err := io.ReadAll(b); string(got) != message(5) || err != nil {
			t.Errorf("what comes later: %q, %v", got, err)
		}
	})
}
