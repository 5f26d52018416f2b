package gate

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

func benchGate(b *testing.B) *Gate {
	g, err := New(&disk{records: map[tokenstore.Key]tokenstore.Record{}}, Options{Settle: time.Second, MaxWaiting: 4096, MaxWaitingPerKey: 64})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// BenchmarkGate is one write with the token that its key has already: in and
// out, alone.
func BenchmarkGate(b *testing.B) {
	g := benchGate(b)
	var t Ticket
	ctx, key := context.Background(), tokenstore.Key("account:1234567890")
	b.ReportAllocs()
	for b.Loop() {
		err := g.Enter(ctx, Request{Claims: []Claim{{Key: key, Token: tokenstore.Token{Major: 7}}}, DrainTimeout: time.Second, Settle: time.Second}, &t)
		if err != nil {
			b.Fatal(err)
		}
		t.Settle()
	}
}

// BenchmarkGateParallel is the same over 4,096 keys from all CPUs.
func BenchmarkGateParallel(b *testing.B) {
	g := benchGate(b)
	keys := make([]tokenstore.Key, 4096)
	for i := range keys {
		keys[i] = tokenstore.Key("account:" + strconv.Itoa(i))
	}
	b.ReportAllocs()
	var start atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		var t Ticket
		for i := int(start.Add(1009)); pb.Next(); i++ {
			err := g.Enter(context.Background(), Request{Claims: []Claim{{Key: keys[i%len(keys)], Token: tokenstore.Token{Major: 7}}}, DrainTimeout: time.Second}, &t)
			if err != nil {
				b.Fatal(err)
			}
			t.Settle()
		}
	})
}
