package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/session"
)

// maxPart is how many records are read or written in one step.
const maxPart = session.MaxImport / 2

// withShared opens the engine of a call for a while.
func withShared(c storeCall, e engine, do func(b session.Movable) error) error {
	ctx, cancel := context.WithTimeout(c.ctx, openTimeout)
	defer cancel()
	b, err := e.open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", e.setting, err)
	}
	return errors.Join(do(b), b.Close())
}

// inTime gives one call of an engine its time.
func inTime(c storeCall, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.ctx, openTimeout)
	defer cancel()
	return do(ctx)
}

// eachPage calls do with all records, in the order of the keys.
func eachPage(c storeCall, b session.Movable, do func(page []tokenstore.Listed) error) error {
	for after, more := tokenstore.Key(""), true; more; {
		var page []tokenstore.Listed
		err := inTime(c, func(ctx context.Context) (err error) {
			page, after, err = b.List(ctx, "", after, maxPart)
			return err
		})
		if err != nil {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		more = after != ""
	}
	return nil
}

// verifyShared reads every record. That none is lost is the engine's promise.
func verifyShared(c storeCall, e engine) error {
	return withShared(c, e, func(b session.Movable) error {
		keys, damaged := 0, 0
		err := eachPage(c, b, func(page []tokenstore.Listed) error {
			for _, l := range page {
				keys++
				if l.Damaged != nil {
					damaged++
					fmt.Fprintln(c.out, l.Damaged)
				}
			}
			return nil
		})
		if err == nil {
			var leases int
			leases, err = verifyLeases(c, b)
			damaged += leases
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: after %s: %w", e.setting, count(keys, "key", "keys"), err)
		case damaged > 0:
			return fmt.Errorf("%s: %d of %d records are damaged, and their keys fail closed: something else writes to this store, keep it out; restore nothing older, since that would forget tokens", e.setting, damaged, keys)
		}
		_, err = fmt.Fprintf(c.out, "%s: sound, %s\n", e.setting, count(keys, "key", "keys"))
		return err
	})
}

func exportShared(c storeCall, e engine) error {
	w := dump.NewWriter(c.out)
	err := withShared(c, e, func(b session.Movable) error {
		h, err := unused(c, b)
		if err != nil {
			return err
		}
		if !h.Clean {
			h.Settle = max(c.cfg.Store.Linger, longestSettle(c.cfg))
		}
		h.ExportedAt = time.Now()
		if err := w.Begin(h); err != nil {
			return err
		}
		err = eachPage(c, b, func(page []tokenstore.Listed) error {
			for _, l := range page {
				if l.Damaged != nil {
					return l.Damaged
				}
				if err := w.Add(dump.Record{Key: l.Key, Record: l.Record}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := exportLeases(c, b, w); err != nil {
			return err
		}
		if err := stillUnused(c, b, h.Clean); err != nil {
			return err
		}
		return w.End()
	})
	return exported(c, e.setting, w, err)
}

// unused reads what a store says of itself, and refuses one that proxies use.
func unused(c storeCall, b session.Backend) (h dump.Header, err error) {
	var alive int
	err = inTime(c, func(ctx context.Context) error {
		h, alive, err = session.ReadHeader(ctx, b)
		return err
	})
	if err == nil && alive > 0 {
		err = fmt.Errorf("%s this store and must be stopped first; one that was killed counts until session_ttl (%v) is over", count(alive, "proxy uses", "proxies use"), c.cfg.Store.SessionTTL)
	}
	return h, err
}

// stillUnused refuses what was done while a proxy started: it may have raised
// what was read already.
func stillUnused(c storeCall, b session.Backend, clean bool) error {
	h, err := unused(c, b)
	if err == nil && h.Clean != clean {
		err = errors.New("a proxy has used this store meanwhile: stop it, and begin again")
	}
	return err
}

func importShared(c storeCall, e engine) error {
	return withDump(c, func(r *dump.Reader) error {
		return withShared(c, e, func(b session.Movable) error {
			h, err := unused(c, b)
			if err == nil && !h.Clean {
				err = errors.New("proxies have left writes behind in this store that may still be on their way: start one proxy on it, wait until linger is over, and stop it; then import")
			}
			if err == nil {
				err = fit(c, r.Header)
			}
			if err == nil {
				err = inTime(c, func(ctx context.Context) error { return session.ImportHeader(ctx, b, r.Header) })
			}
			if changed := (*tokenstore.ChangedRulesError)(nil); errors.As(err, &changed) {
				return otherRules(e.setting, changed)
			}
			if err != nil {
				return fmt.Errorf("%s: nothing was imported: %w", e.setting, err)
			}
			keys, err := importRecords(c, b, r)
			if err != nil {
				return notImported(e.setting, keys, err)
			}
			stop := "a clean stop"
			if !r.Header.Clean {
				stop = "an unclean stop: proxies quarantine its keys for session_ttl and linger"
			}
			_, err = fmt.Fprintf(c.out, "%s: imported, %s, after %s\n", e.setting, count(keys, "key", "keys"), stop)
			return err
		})
	})
}

// fit refuses the dump of an unclean stop whose quarantine a shared store
// cannot keep.
func fit(c storeCall, h dump.Header) error {
	linger := max(c.cfg.Store.Linger, longestSettle(c.cfg))
	switch {
	case h.Clean:
		return nil
	case h.Unordered:
		return errors.New("the dump comes from an unclean stop, and writes may be on their way to keys of which it has no record (token: optional, mode: observe, or changed rules): start the old store's proxy once more, stop it, and export again")
	case h.Settle > linger:
		return fmt.Errorf("the dump comes from an unclean stop, and its writes may be applied for %v, but linger is %v: set store.linger to %v at least", h.Settle, linger, h.Settle)
	}
	return nil
}

// importRecords takes the records of a dump in.
func importRecords(c storeCall, b session.Movable, r *dump.Reader) (keys int64, err error) {
	quarantine := session.NewQuarantine(b, c.cfg.Store.SessionTTL)
	for {
		part, end := nextPart(r)
		if end != nil && !errors.Is(end, io.EOF) {
			return keys, end
		}
		if len(part) > 0 {
			err := inTime(c, func(ctx context.Context) error {
				if r.Header.Clean {
					return b.Import(ctx, part)
				}
				return quarantine.Add(ctx, part)
			})
			if stale := (*tokenstore.StaleError)(nil); errors.As(err, &stale) {
				return keys, fmt.Errorf("key %s has a record in this store already, and the dump comes from an unclean stop: its writes that may be on their way cannot be put below that record; import into a new store, or start the old store's proxy once more, stop it, and export again", stale.Key)
			}
			if err != nil {
				return keys, err
			}
			keys += int64(len(part))
		}
		if end == nil {
			continue
		}
		if err := importLeases(c, b, r); err != nil {
			return keys, err
		}
		if r.Header.Clean {
			err = stillUnused(c, b, true)
		}
		return keys, err
	}
}

// nextPart returns the next records of a dump, at most what an engine takes.
func nextPart(r *dump.Reader) (part []dump.Record, end error) {
	for len(part) < maxPart {
		rec, err := r.Next()
		if err != nil {
			return part, err
		}
		part = append(part, rec)
	}
	return part, nil
}
