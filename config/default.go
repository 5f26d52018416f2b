package config

import "time"

// Default returns the configuration of a file that sets nothing. It is not
// complete: upstream.url, a store, and rules have no default, and Load
// refuses a file without them.
func Default() *Config {
	return &Config{
		Listen: Listen{
			Address:       "127.0.0.1:8080",
			SocketMode:    0o660,
			HeaderTimeout: 10 * time.Second,
			IdleTimeout:   120 * time.Second,
		},
		Upstream: Upstream{
			PreserveHost:      true,
			ConnectTimeout:    5 * time.Second,
			ResponseTimeout:   60 * time.Second,
			Settle:            30 * time.Second,
			UnsettledStatuses: []int{202, 502, 504},
		},
		Admin: Admin{Address: "127.0.0.1:9901"},
		Fencing: Fencing{
			Header:          "X-Fencing-Token",
			Format:          Decimal,
			Token:           TokenRequired,
			Mode:            Enforce,
			Reads:           ReadsPass,
			DrainTimeout:    30 * time.Second,
			DiscloseHighest: true,
		},
		UnmatchedWrites: Reject,
		Limits: Limits{
			MaxBodyBuffer:    64 << 10,
			MaxBuffered:      64 << 20,
			MaxHeader:        64 << 10,
			MaxWaitingPerKey: 64,
			MaxWaiting:       4096,
		},
		Store:           Store{SessionTTL: defaultSessionTTL, Margin: defaultMargin},
		ShutdownTimeout: 100 * time.Second,
		Leases:          Leases{DefaultTTL: 30 * time.Second, MaxTTL: time.Hour, MaxHeld: 100_000},
		Tracing:         Tracing{SamplePercent: 100},
		Log:             Log{Level: LevelInfo, Format: LogAuto},
	}
}

// defaultPathPolicy lets canonical targets pass and no others.
func defaultPathPolicy() PathPolicy {
	return PathPolicy{EncodedSlash: SlashReject, Params: ParamsReject, TrailingSlash: SlashDistinct}
}

// setDefaults fills a policy of which the file names only a part.
func (p *PathPolicy) setDefaults() { *p = defaultPathPolicy() }

// setDefaults fills a store that the file names without saying more.
func (e *Embedded) setDefaults() {
	e.Path = "./fenceproxy-data"
	e.Create = true
}
