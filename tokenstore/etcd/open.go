package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/tokenstore"
)

// formatValue marks a store of this version.
const formatValue = "fenceproxy 1"

// The oldest version of etcd that is known to do what is asked here.
const oldestMajor, oldestMinor = 3, 4

// Init makes a store where there is none. One that is there already is left as
// it is; anything else under the prefix is tokenstore.ErrForeign.
func Init(ctx context.Context, o Options) error {
	b, err := connect(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(b.init(ctx), b.Close())
}

func (b *Backend) init(ctx context.Context) error {
	// Over the whole prefix the comparison holds only where there is no key.
	empty := clientv3.Compare(clientv3.CreateRevision(string(b.keys)), "=", 0).WithPrefix()
	resp, err := b.txn(ctx, []clientv3.Cmp{empty},
		[]clientv3.Op{clientv3.OpPut(b.keys.format(), formatValue)},
		[]clientv3.Op{clientv3.OpGet(b.keys.format())})
	if err != nil {
		return fmt.Errorf("the store cannot be made under %s: %w", b.keys, explain(err))
	}
	if resp.Succeeded {
		return nil
	}
	return b.checkFormat(resp.Responses[0].GetResponseRange().Kvs)
}

// Open connects to a store that Init has made. It fails where there is none
// (tokenstore.ErrMissing), where it is not one that this program knows
// (tokenstore.ErrForeign), where etcd is too old, and where it cannot be
// written.
func Open(ctx context.Context, o Options) (*Backend, error) {
	b, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := b.check(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// connect makes a backend and looks at the cluster, not at the store.
func connect(ctx context.Context, o Options) (*Backend, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	b, err := newBackend(&o)
	if err != nil {
		return nil, err
	}
	if err := b.checkCluster(ctx, o.Endpoints); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// checkCluster asks all endpoints for their version. One that answers is
// enough: the others may be down.
func (b *Backend) checkCluster(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	type answer struct {
		endpoint, version string
		err               error
	}
	answers := make(chan answer, len(endpoints))
	for _, ep := range endpoints {
		go func() {
			version, err := b.version(ctx, ep)
			answers <- answer{ep, version, err}
		}()
	}
	var failed error
	ok := 0
	for range endpoints {
		a := <-answers
		switch {
		case a.err != nil:
			failed = errors.Join(failed, fmt.Errorf("etcd at %s: %w", a.endpoint, a.err))
		case tooOld(a.version):
			return fmt.Errorf("etcd at %s has version %s; %d.%d or newer is needed", a.endpoint, a.version, oldestMajor, oldestMinor)
		default:
			ok++
			time.AfterFunc(time.Second, cancel) // the others are waited for no longer
		}
	}
	if ok == 0 {
		return tokenstore.Unavailable(failed)
	}
	if failed != nil {
		b.log.Warn("some endpoints of etcd do not answer", zap.Error(failed))
	}
	return nil
}

// version asks one endpoint. It connects by itself first: the client would say
// of what does not work only that time was up.
func (b *Backend) version(ctx context.Context, endpoint string) (string, error) {
	_, host, _ := strings.Cut(endpoint, "://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimSuffix(host, "/"))
	if err != nil {
		return "", err
	}
	_ = conn.Close()
	st, err := b.client.Status(ctx, endpoint)
	if err != nil {
		return "", err
	}
	return st.Version, nil
}

// tooOld reports whether a version is below the oldest, or no version.
func tooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return errors.Join(err, err2) != nil || major < oldestMajor || major == oldestMajor && minor < oldestMinor
}

// check looks at the marker and writes, in one step, so that a cluster without
// a quorum, without space, or without permission is found now.
func (b *Backend) check(ctx context.Context) error {
	resp, err := b.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.Value(b.keys.format()), "=", formatValue)},
		[]clientv3.Op{clientv3.OpPut(b.keys.opened(), time.Now().UTC().Format(time.RFC3339))},
		[]clientv3.Op{clientv3.OpGet(b.keys.format()), clientv3.OpGet(string(b.keys), clientv3.WithPrefix(), clientv3.WithCountOnly())})
	if err != nil {
		return fmt.Errorf("the store under %s cannot be written: %w", b.keys, explain(err))
	}
	if resp.Succeeded {
		// What comes later than this is heard of by the watch.
		b.heard.advance(resp.Header.Revision)
		return nil
	}
	if resp.Responses[1].GetResponseRange().Count == 0 {
		return fmt.Errorf("%w: etcd has no key under %s; make it with fenceproxy store init, or correct the prefix", tokenstore.ErrMissing, b.keys)
	}
	return b.checkFormat(resp.Responses[0].GetResponseRange().Kvs)
}
