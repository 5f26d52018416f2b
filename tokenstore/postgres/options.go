package postgres

import (
	"fmt"
	"regexp"

	"go.uber.org/zap"
)

// Options say where the store is.
type Options struct {
	// URL of the database, as libpq has it: several hosts, sslmode and so on. The
	// tables are in the first schema of its search_path. pool_max_conns in it is
	// how many connections one proxy may have for its writes: 16, and there are
	// up to 5 more for what must not wait for these.
	URL string
	// TablePrefix begins the names of all tables and functions: fenceproxy_.
	TablePrefix string
	// Logger; nil drops the lines.
	Logger *zap.Logger
}

// prefixForm keeps names within PostgreSQL's 63 bytes, and free of quotes.
var prefixForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (o *Options) fill() error {
	if o.TablePrefix == "" {
		o.TablePrefix = "fenceproxy_"
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.URL == "" {
		return fmt.Errorf("store.postgres.url is empty; name the database, like postgres://fenceproxy@db.example/fenceproxy")
	}
	if !prefixForm.MatchString(o.TablePrefix) {
		return fmt.Errorf("store.postgres.table_prefix %q: it must be 1 to 40 of a-z, 0-9 and _, and begin with no digit", o.TablePrefix)
	}
	return nil
}
