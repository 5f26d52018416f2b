package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is what an upstream may say.
func frames(write func(w *http2.Framer, head func(...string) []byte)) []byte {
	var out, block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	write(http2.NewFramer(&out, nil), func(pairs ...string) []byte {
		block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		return bytes.Clone(block.Bytes())
	})
	return out.Bytes()
}

// FuzzH2Answer plays any bytes as an upstream's. Whatever they are, a Send comes
// back, nothing panics, and only an answer in full settles.
func FuzzH2Answer(f *testing.F) {
	for _, write := range []func(*http2.Framer, func(...string) []byte){
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "200", "content-length", "2"), EndHeaders: true})
			w.WriteData(1, true, []byte("ok"))
		},
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "103"), EndHeaders: true})
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "200"), EndHeaders: true})
			w.WriteDataPadded(1, false, []byte("ok"), make([]byte, 9))
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head("x-sum", "1"), EndHeaders: true, EndStream: true})
		},
		func(w *http2.Framer, _ func(...string) []byte) {
			w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
			w.WritePing(false, [8]byte{1})
			w.WriteWindowUpdate(0, 1<<31-1)
			w.WriteWindowUpdate(1, 1<<31-1)
		},
		func(w *http2.Framer, _ func(...string) []byte) { w.WriteGoAway(0, http2.ErrCodeNo, nil) },
		func(w *http2.Framer, _ func(...string) []byte) { w.WriteRSTStream(1, http2.ErrCodeRefusedStream) },
		func(w *http2.Framer, _ func(...string) []byte) { w.WriteRSTStream(1, http2.ErrCodeNo) },
		// An answer that is not in full.
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "200"), EndHeaders: true})
			w.WriteData(1, false, []byte("ok"))
		},
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "500", "content-length", "3"), EndHeaders: true})
			w.WriteData(1, true, []byte("ok"))
		},
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "200"), EndHeaders: true})
			w.WriteRSTStream(1, http2.ErrCodeNo)
		},
		func(w *http2.Framer, head func(...string) []byte) {
			w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(":status", "200"), EndHeaders: true})
			w.WriteGoAway(1, http2.ErrCodeNo, nil)
		},
	} {
		f.Add(frames(write), false)
		f.Add(frames(write), true)
	}
	f.Fuzz(func(t *testing.T, said []byte, upload bool) {
		u := newH2(t, "127.0.0.1:9")
		ours, theirs := net.Pipe()
		u.dial = func(context.Context) (net.Conn, error) { return ours, nil }
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			fr := http2.NewFramer(theirs, theirs)
			io.ReadFull(theirs, make([]byte, len(http2.ClientPreface)))
			go fr.WriteSettings()
			for { // until the head
				h, err := fr.ReadFrame()
				if err != nil || h.Header().Type == http2.FrameHeaders {
					break
				}
			}
			go func() { theirs.Write(said); theirs.Close() }()
			io.Copy(io.Discard, theirs)
		}()
		r := put()
		if upload {
			large(r)
		}
		r.Timeout = 5 * time.Second
		res := exchangeOnce(t, context.Background(), u, r)
		if res.outcome == settled && (res.status == 0 || res.err != nil || !endsStream(said)) {
			t.Errorf("settled without an answer in full: %d, %v", res.status, res.err)
		}
		u.Close()
		ours.Close()
		<-heard
	})
}

// endsStream reports whether a HEADERS or DATA frame of the first stream has the
// flag END_STREAM.
func endsStream(said []byte) bool {
	for len(said) >= 9 {
		kind, flags, id := http2.FrameType(said[3]), http2.Flags(said[4]), binary.BigEndian.Uint32(said[5:])<<1>>1
		if id == 1 && (kind == http2.FrameHeaders || kind == http2.FrameData) && flags.Has(http2.FlagDataEndStream) {
			return true
		}
		said = said[min(9+int(binary.BigEndian.Uint32(said)>>8), len(said)):]
	}
	return false
}
