package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/wire"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
)

// export writes all records in the form of `fenceproxy store export`. The dump of
// a running proxy says that writes may be on their way, to keys too that it has
// not: a store that takes it in is quarantined.
func (a *api) export(w http.ResponseWriter, r *http.Request) {
	_, refusal := query(r)
	lister, ok := a.Store.(tokenstore.Lister)
	if refusal == nil && !ok {
		refusal = wire.NewRefusal(wire.AdminNotSupported, "this store cannot list its keys")
	}
	if refusal != nil {
		refusal.Write(w)
		return
	}
	header := a.Header()
	header.Clean, header.Unordered, header.ExportedAt = false, true, time.Now()
	if refusal := a.count(r.Context(), &header); refusal != nil {
		refusal.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	d := dump.NewWriter(w)
	err := d.Begin(header)
	for after := tokenstore.Key(""); err == nil; {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		var page []tokenstore.Listed
		page, after, err = lister.List(ctx, "", after, tokenstore.MaxPage)
		cancel()
		for i := 0; i < len(page) && err == nil; i++ {
			if page[i].Damaged != nil {
				err = page[i].Damaged
				break
			}
			err = d.Add(dump.Record{Key: page[i].Key, Record: page[i].Record})
		}
		if err == nil && after == "" {
			err = d.End()
			break
		}
	}
	if err != nil {
		// Its last line is missing, and the connection breaks: nobody takes it
		// for whole.
		panic(http.ErrAbortHandler)
	}
}

// count puts the counter of leases into the header. Without it a store that takes
// the dump in would grant tokens again that their holders still have.
func (a *api) count(ctx context.Context, header *dump.Header) *wire.Refusal {
	counting, ok := a.Store.(tokenstore.Counting)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	if header.Granted, err = counting.RaiseGranted(ctx, 0); err != nil {
		return refusalOfRead(err, tokenstore.Decimal)
	}
	return nil
}

const (
	maxImport     = 16 << 30 // bytes
	importTimeout = 30 * time.Second
)

// importDump raises what a dump has, and keeps what is higher here. It is read
// to its end before anything is raised: a token that was damaged on its way
// would lock its key for ever.
func (a *api) importDump(w http.ResponseWriter, r *http.Request) {
	c := a.newChange(w, r, "import")
	q, refusal := query(r, "reason")
	if !c.accept(refusal) || !c.because(q.Get("reason")) {
		return
	}
	file, err := a.spool(w, r)
	if err != nil {
		c.accept(malformed(err.Error()))
		return
	}
	defer func() { _ = file.Close() }()
	if err := a.importable(file); err != nil {
		c.accept(refusalOf(err, tokenstore.Composite))
		return
	}
	if !c.begin() {
		return
	}
	report, err := a.raiseAll(r.Context(), file)
	if err != nil {
		refusal := refusalOf(err, tokenstore.Composite)
		refusal.Detail = fmt.Sprintf("%d keys were raised before this, which stay; import the dump again: %s", report.Raised, refusal.Detail)
		err = refusal
	}
	c.end(err, report)
}

// spool keeps a dump in a file that nobody sees.
func (a *api) spool(w http.ResponseWriter, r *http.Request) (*os.File, error) {
	file, err := os.CreateTemp("", "fenceproxy-import-*")
	if err != nil {
		return nil, fmt.Errorf("the dump cannot be kept until it was read whole: %w", err)
	}
	if err = os.Remove(file.Name()); err == nil { // it lives until it is closed
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a dump may be long
		_, err = io.Copy(file, http.MaxBytesReader(w, r.Body, maxImport))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the dump did not come in whole: %w", err), file.Close())
	}
	return file, nil
}

// importable reads the whole dump, and refuses what must not be raised.
func (a *api) importable(file *os.File) error {
	r, err := rewind(file)
	if err != nil {
		return malformed(err.Error())
	}
	here := a.Header()
	if changed := r.Header.Rules.Changed(here.Rules); len(changed) > 0 {
		return malformed((&tokenstore.ChangedRulesError{Rules: changed}).Error())
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return malformed(err.Error())
		}
		owners := a.owners(rec.Key)
		if len(owners) == 0 {
			continue // of a rule that has gone: it stands in nobody's way
		}
		t := rec.Highest
		if !slices.ContainsFunc(owners, func(r *Rule) bool { return t.Epoch <= r.Epoch && (r.Format == tokenstore.Composite || t.Minor == 0) }) {
			return malformed(fmt.Sprintf("key %s has the token %s in the dump, which is none of rule %s: its epoch is above the rule's, or its format another", rec.Key, tokenstore.Composite.Print(t), owners[0].Name))
		}
	}
}

func rewind(file *os.File) (*dump.Reader, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return dump.NewReader(file)
}

// raiseAll raises the keys of a dump that was found whole, many at once, so that
// they share a sync.
func (a *api) raiseAll(ctx context.Context, file *os.File) (report wire.ImportReport, err error) {
	r, err := rewind(file)
	if err != nil {
		return report, err
	}
	if counting, ok := a.Store.(tokenstore.Counting); ok && r.Header.Granted > 0 {
		if _, err := counting.RaiseGranted(ctx, r.Header.Granted); err != nil {
			return report, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var raised, kept atomic.Int64
	var wg sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for ctx.Err() == nil {
		rec, nerr := r.Next()
		if nerr != nil {
			if !errors.Is(nerr, io.EOF) {
				cancel(nerr)
			}
			break
		}
		report.Keys++
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			done, err := a.raiseOne(ctx, rec)
			switch {
			case err != nil:
				cancel(err)
			case done:
				raised.Add(1)
			default:
				kept.Add(1)
			}
		})
	}
	wg.Wait()
	report.Raised, report.Kept = int(raised.Load()), int(kept.Load())
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	return report, nil
}

// raiseOne reports whether the key had a lower token, or none, or this one without
// a holder.
func (a *api) raiseOne(ctx context.Context, rec dump.Record) (bool, error) {
	now, ok, err := a.load(ctx, rec.Key)
	named := now.Highest == rec.Highest && now.Holder == "" && rec.Holder != ""
	if err != nil || ok && !now.Highest.Less(rec.Highest) && !named {
		return false, err
	}
	err = a.Gate.Record(ctx, a.claim(rec.Key, rec.Highest, rec.Holder), importTimeout)
	stale, collision := (*gate.StaleError)(nil), (*tokenstore.CollisionError)(nil)
	if errors.As(err, &stale) || errors.As(err, &collision) {
		return false, nil // raised here meanwhile
	}
	return err == nil, err
}
