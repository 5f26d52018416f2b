package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/tokenstore"
	"github.com/fenceproxy/fenceproxy/tokenstore/dump"
	"github.com/fenceproxy/fenceproxy/tokenstore/embedded"
)

func storeExport(c storeCall, e *config.Embedded) error {
	w := dump.NewWriter(c.out)
	err := embedded.Export(e.Path, longestSettle(c.cfg), w)
	if errors.Is(err, tokenstore.ErrLocked) {
		return fmt.Errorf("%s is in use: stop the proxy first: %w", e.Path, tokenstore.ErrLocked)
	}
	return exported(c, e.Path, w, err)
}

// exported tells how an export has ended. Standard output has the dump.
func exported(c storeCall, store string, w *dump.Writer, err error) error {
	if err != nil {
		return fmt.Errorf("%s is not exported, and what was written is no dump: %w", store, err)
	}
	stop := "a clean stop"
	if !w.Clean() {
		stop = "an unclean stop: a store that imports this quarantines its keys"
	}
	_, err = fmt.Fprintf(c.err, "%s: exported, %s, after %s\n", store, count(w.Keys(), "key", "keys"), stop)
	return err
}

func storeImport(c storeCall, e *config.Embedded) error {
	return withDump(c, func(r *dump.Reader) error {
		done, err := embedded.Import(embedded.Options{Path: e.Path, Create: e.Create, Logger: zap.NewNop()}, r)
		if changed := (*tokenstore.ChangedRulesError)(nil); errors.As(err, &changed) {
			return otherRules(e.Path, changed)
		}
		if err != nil {
			return notImported(e.Path, done.Keys, err)
		}
		_, err = fmt.Fprintf(c.out, "%s: imported, %s, %d of them new or higher, after %s\n", e.Path, count(done.Keys, "key", "keys"), done.Raised, stopWords(done.Clean))
		return err
	})
}

// otherRules: the marks of one of the two would count for other resources.
func otherRules(store string, changed *tokenstore.ChangedRulesError) error {
	return &exitError{exitUsage, fmt.Errorf("%s was used with other rules than the store of the dump (%v): import into a new store", store, changed.Rules)}
}

func notImported(store string, keys int64, err error) error {
	return fmt.Errorf("%s: the import has ended after %s, which stay; import the whole dump again before a proxy uses the store: %w", store, count(keys, "key", "keys"), err)
}

// withDump reads the dump of a call to its end before it is used: a dump that
// is not whole must not leave half of its tokens behind.
func withDump(c storeCall, use func(r *dump.Reader) error) error {
	file, err := openDump(c)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r, err := dump.NewReader(file)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := acceptRules(c, r.Header.Rules); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if r, err = dump.NewReader(file); err != nil {
		return err
	}
	return use(r)
}

// acceptRules refuses, before anything is changed, what the next start would.
func acceptRules(c storeCall, rules tokenstore.Rules) error {
	refused := slices.DeleteFunc(rules.Changed(c.p.fingerprints), func(name string) bool {
		return slices.Contains(c.cfg.Store.AcceptChangedRules, name)
	})
	if len(refused) > 0 {
		return &exitError{exitUsage, &tokenstore.ChangedRulesError{Rules: refused}}
	}
	return nil
}

// openDump opens the file of a call. Standard input, which can be read only
// once, is copied first.
func openDump(c storeCall) (*os.File, error) {
	if len(c.args) > 0 {
		file, err := os.Open(c.args[0])
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%s is no file; a pipe goes to standard input", c.args[0]), err, file.Close())
		}
		return file, nil
	}
	file, err := os.CreateTemp("", "fenceproxy-import-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name()) // it lives until it is closed
	if err == nil {
		_, err = io.Copy(file, c.in)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("standard input cannot be kept: %w", err), file.Close())
	}
	return file, nil
}
