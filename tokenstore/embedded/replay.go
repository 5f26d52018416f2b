package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// replay is what the logs of a store say that no process uses, and what is to
// be done with them before the next log is begun.
type replay struct {
	records map[tokenstore.Key]raised
	leases  leaseState
	added   int64  // keys that the file has no record of, less those that were forgotten
	last    uint64 // the last generation, folded or not
	bytes   int64  // length of the logs that are not folded

	old  []uint64 // folded already: to be removed
	torn int64    // where the log of last is to be cut; 0 where it is whole
	void uint64   // a log that was being made at a crash, to be removed; 0 for none
}

// readLogs reads all logs in dir that are not folded, oldest first, and changes
// nothing. clean says that the store carries the marker of a clean stop, which
// leaves no raise in a log.
//
// Whatever a crash cannot have left behind is damage, and the store is not
// opened: marks that were told of may be lost. Such errors wrap ErrDamaged.
func readLogs(dir string, state logState, clean bool) (replay, error) {
	r := replay{records: map[tokenstore.Key]raised{}, leases: leaseState{changed: map[tokenstore.Key]tokenstore.Lease{}}, last: state.folded}
	all, err := listLogs(dir)
	if err != nil {
		return r, err
	}
	for i, g := range all {
		if g <= state.folded {
			r.old = append(r.old, g)
			continue
		}
		if g != r.last+1 {
			break
		}
		if err := r.read(dir, g, state, clean, i == len(all)-1); err != nil {
			return r, err
		}
	}
	// Each log was on the disk before the next one was begun, and before the
	// file came to speak of it.
	if n := len(all); r.last < state.begun || (n > 0 && r.void == 0 && r.last < all[n-1]) {
		return r, damaged(filepath.Join(dir, logName(r.last+1)), "this log is missing")
	}
	return r, nil
}

// usualEntry is about the length of a record in a log, in bytes.
const usualEntry = 64

// read reads one log.
func (r *replay) read(dir string, g uint64, state logState, clean, last bool) error {
	path := filepath.Join(dir, logName(g))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if len(r.records) == 0 {
		// Growing a map to its size takes longer than filling it.
		r.records = make(map[tokenstore.Key]raised, size/usualEntry)
	}
	end, err := scanLog(f, size, g, r.take)
	switch {
	case errors.Is(err, errLogHeader) && last && size <= int64(logHeaderSize) && g > state.begun:
		// The header is on the disk before the first frame is written.
		r.void = g
		return nil
	case errors.Is(err, tokenstore.ErrForeign):
		return fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return damaged(path, err.Error())
	case clean && size > int64(logHeaderSize):
		return damaged(path, "it holds raises, and the store was stopped cleanly, which leaves none")
	case end < size && !last:
		return damaged(path, fmt.Sprintf("the frame at byte %d is incomplete or damaged, and a later log was begun", end))
	case end < size:
		r.torn = end
	}
	r.last, r.bytes = g, r.bytes+end
	return nil
}

// take takes one record in. Later ones count, and a record only grows until it
// is forgotten: one that does not was never written by a store (rule 6).
func (r *replay) take(e entry) error {
	if e.lease {
		return r.takeLease(e)
	}
	rec, err := e.record()
	if err != nil {
		return err
	}
	key := tokenstore.Key(e.key)
	old, seen := r.records[key]
	switch {
	case seen && old.gone && !e.added:
		return fmt.Errorf("key %s was forgotten, and goes on as if it had not been", key)
	case seen && !old.gone && !e.gone && !grows(old.rec, rec):
		return fmt.Errorf("the record of key %s goes back from token %s to %s", key, old.rec.Highest, rec.Highest)
	case seen && !old.gone && e.added:
		return fmt.Errorf("key %s is called new twice", key)
	case e.added:
		r.added++
	case e.gone:
		r.added--
	}
	if !seen {
		old.added = e.added
	}
	r.records[key] = raised{rec: rec, added: old.added, gone: e.gone}
	return nil
}

// takeLease takes one change of a lease in. Later ones count, and every token
// does, also of a lease that was ended.
func (r *replay) takeLease(e entry) error {
	l, err := decodeLease(e.key, e.sealed)
	if err != nil {
		return damagedLease(e.key, err)
	}
	r.leases.changed[tokenstore.Key(e.key)] = l
	r.leases.granted = max(r.leases.granted, l.Token.Major)
	return nil
}

// empty reports whether no log has anything to be folded.
func (r *replay) empty() bool { return len(r.records)+len(r.leases.changed) == 0 }

// grows reports whether a record may have become next in one step.
func grows(rec, next tokenstore.Record) bool {
	c := next.Highest.Compare(rec.Highest)
	return c > 0 || c == 0 && (next.Clear || !rec.Clear) && (rec.Holder == "" || next.Holder == rec.Holder)
}

// repair readies the logs for the next one: what a crash left half-made is
// removed, and what was read is brought to the disk. sync is as for
// raiseLog.append.
func (r *replay) repair(dir string, sync func(error) error) error {
	if r.void != 0 {
		if err := removeLogs(dir, []uint64{r.void}); err != nil {
			return err
		}
	}
	if r.bytes == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, logName(r.last)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if r.torn > 0 {
		// Else a whole log would be missing its end as soon as the next one
		// is begun, which is damage.
		if err := f.Truncate(r.torn); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	// A killed process may have left its last frame in the kernel's memory
	// alone. It was read from there, and is told of from now on: it must
	// outlive a power cut (story A2).
	err = f.Sync()
	if sync != nil {
		err = sync(err)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// It may have been killed before it synced the directory, too. The next log
	// must not be there without this one.
	return syncPath(dir)
}
