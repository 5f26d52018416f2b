package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"
)

// DefaultPrefix stands where Options has none.
const DefaultPrefix = "fenceproxy:"

// Options say where the store is.
type Options struct {
	// URL is redis://[user:password@]host[:port][/db], rediss:// for TLS, or
	// unix://[user:password@]/path[?db=N].
	URL string
	// Prefix stands in front of every name in Redis: DefaultPrefix.
	Prefix string
	// Logger; nil drops the lines.
	Logger *zap.Logger
}

func (o *Options) fill() {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// longest is how long a call waits that has no deadline of its own.
const longest = 30 * time.Second

func init() { logging.Disable() } // it would write to standard error, beside our own lines

// client makes a client of size connections, as the promises of
// session.Backend need it.
func (o *Options) client(size int) (*redis.Client, error) {
	c, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w (redis://user:password@host:6379/0 would be right)", secretless(err))
	}
	c.MaxRetries = -1 // a call whose result is not known is never made again
	c.ContextTimeoutEnabled = true
	c.DialTimeout, c.DialerRetries = 3*time.Second, 1
	c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = longest, longest, longest
	c.PoolSize = size
	// What is not needed, and asks the server for more than the scripts do.
	c.Protocol, c.PipelinePoolSize = 2, -1
	c.DisableIdentity = true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(c), nil
}

// secretless takes the URL, which may hold a password, out of an error.
func secretless(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		if strings.Contains(u.Err.Error(), "userinfo") || strings.Contains(u.Err.Error(), "invalid port") {
			return errors.New("it cannot be read; bytes of the password that are not letters or digits are written %XX")
		}
		return u.Err
	}
	return err
}
