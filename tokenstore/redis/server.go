package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// server is what a Redis tells of itself.
type server struct {
	version     string
	mode        string // standalone, sentinel, cluster
	role        string
	maxMemory   int64
	eviction    string
	aof         bool
	replicas    int
	fsync       string // "" where it may not be asked for, as the two that follow
	minReplicas string
	readOnly    string // what it will be as a replica
}

func ask(ctx context.Context, c *redis.Client) (s server, err error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return s, fmt.Errorf("INFO, without which nothing is known of its role: %w", err)
	}
	s = read(text)
	// Many who run Redis for others do not let it be asked for.
	for name, to := range map[string]*string{"appendfsync": &s.fsync, "min-replicas-to-write": &s.minReplicas, "replica-read-only": &s.readOnly} {
		if got, err := c.ConfigGet(ctx, name).Result(); err == nil {
			*to = got[name]
		}
	}
	return s, nil
}

// read reads the answer to INFO.
func read(info string) server {
	facts := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	s := server{version: facts["redis_version"], mode: facts["redis_mode"], role: facts["role"],
		eviction: facts["maxmemory_policy"], aof: facts["aof_enabled"] == "1"}
	s.maxMemory, _ = strconv.ParseInt(facts["maxmemory"], 10, 64)
	s.replicas, _ = strconv.Atoi(facts["connected_slaves"])
	return s
}

// refuse returns why nothing can be fenced over this server.
func (s server) refuse() error {
	major, _, _ := strings.Cut(s.version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("it is version %q; 7.0 or newer is needed, which refuses a script as a whole on a replica and when out of memory", s.version)
	}
	switch {
	case s.mode == "cluster":
		return errors.New("it is part of a cluster, which parts the keys of one step; use a single primary, with replicas where wanted")
	case s.mode == "sentinel":
		return errors.New("it is a sentinel; name the address at which the primary always answers (a virtual address or a TCP proxy)")
	case s.role != "master":
		return fmt.Errorf("its role is %q and not that of the primary; what it tells may be behind: name the address at which the primary always answers", s.role)
	case s.readOnly == "no":
		return errors.New("replica-read-only is off: a primary that was replaced would go on taking raises that are lost; switch it on")
	case s.maxMemory > 0 && strings.HasPrefix(s.eviction, "allkeys"):
		return fmt.Errorf("maxmemory-policy is %s: it would forget highest tokens by itself; set noeviction, or use a Redis of its own", s.eviction)
	}
	return nil
}

// risks are the settings with which more is lost than has to be.
func (s server) risks() (risks []string) {
	switch {
	case !s.aof:
		risks = append(risks, "appendonly is off: a crash loses everything since the last snapshot; switch it on")
	case s.fsync == "":
		risks = append(risks, "appendfsync cannot be read; unless it is always, a crash loses the last second or two")
	case s.fsync != "always":
		risks = append(risks, fmt.Sprintf("appendfsync is %s: a crash of the machine loses the last second or more; always loses nothing", s.fsync))
	}
	switch {
	case s.minReplicas == "":
		risks = append(risks, "min-replicas-to-write cannot be read; at 0 a primary that is cut off goes on taking raises that a failover loses")
	case s.minReplicas == "0" && s.replicas > 0:
		risks = append(risks, "min-replicas-to-write is 0: a primary that is cut off goes on taking raises that a failover loses; set 1, and min-replicas-max-lag 2 or so")
	}
	return risks
}
