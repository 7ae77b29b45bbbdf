package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/receiver"
)

const (
	probeNamespace = "vault"
	probeSecret    = "root-of-all"
	cluster        = "e2e"
)

// probes are requests of nodes that nobody has heard of before, one each, so that each is a finding and an alert of its own. They continue all the time,
// and go through the partitions in turn.
type probes struct {
	from   source
	to     *receiver.Receiver
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	made   []madeProbe
	failed error
}

type madeProbe struct {
	node string
	at   time.Time
}

// every is how often one is made.
const every = 250 * time.Millisecond

func startProbes(t *testing.T, from source, to *receiver.Receiver) *probes {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &probes{from: from, to: to, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for n := 0; ; n++ {
			if err := p.make(ctx, nodeOf(n)); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	return p
}

func (p *probes) make(ctx context.Context, node string) error {
	at, err := p.from.probe(context.WithoutCancel(ctx), node)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = fmt.Errorf("the probe of %s: %w", node, err)
		return p.failed
	}
	p.made = append(p.made, madeProbe{node, at})
	return nil
}

// nodeOf is the name of the nth probe's node, which is a key of partition n modulo their number.
func nodeOf(n int) string {
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	for try := 0; ; try++ {
		name := fmt.Sprintf("probe-%d-%d", n, try)
		if (kafkago.Murmur2Balancer{}).Balance(kafkago.Message{Key: []byte(name)}, all...) == n%partitions {
			return name
		}
	}
}

// count is how many were made so far.
func (p *probes) count() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.made), p.failed
}

// wait waits until n more were made.
func (p *probes) wait(t *testing.T, n int) (first int) {
	t.Helper()
	first, err := p.count()
	plane.Check(t, err)
	plane.Check(t, plane.Eventually(work.Context(), fmt.Sprintf("%d probes are made", n), func() error {
		now, err := p.count()
		if err != nil {
			return plane.Fatal(err)
		}
		if now < first+n {
			return errors.New("it is not yet so")
		}
		return nil
	}))
	return first
}

func (p *probes) nodes(from, to int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for i := range p.made[from:to] {
		names = append(names, p.made[from+i].node)
	}
	return names
}

// goOn waits until requests that are made from now on have their alerts, in every partition.
func (p *probes) goOn(t *testing.T, what string, alive func() error) {
	t.Helper()
	first := p.wait(t, partitions)
	plane.Check(t, p.alerted(what, first, first+partitions, alive))
}

// alerted waits for the alerts of some.
func (p *probes) alerted(what string, from, to int, alive func() error) error {
	nodes := p.nodes(from, to)
	return plane.Eventually(work.Context(), what, func() error {
		if err := alive(); err != nil {
			return plane.Fatal(err)
		}
		return p.missing(nodes)
	})
}

// came is when the alerts of probes came first, by node.
func (p *probes) came() map[string]time.Time {
	first := map[string]time.Time{}
	all := p.to.All()
	for i := range all {
		l := all[i].Labels
		if all[i].Status != "firing" || l["alertname"] != "OutOfScopeSecretRead" || l["namespace"] != probeNamespace || l["cluster"] != cluster {
			continue
		}
		if _, known := first[l["node"]]; !known {
			first[l["node"]] = all[i].At
		}
	}
	return first
}

// missing is nil if alerts of all these nodes have come.
func (p *probes) missing(nodes []string) error {
	came, n := p.came(), 0
	one := ""
	for _, node := range nodes {
		if _, ok := came[node]; !ok {
			n, one = n+1, node
		}
	}
	if n > 0 {
		return fmt.Errorf("no alert of %d of %d nodes, such as %s", n, len(nodes), one)
	}
	return nil
}

// latencies are those of the probes from one to before another.
func (p *probes) latencies(from, to int) []time.Duration {
	came := p.came()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	for _, m := range p.made[from:to] {
		all = append(all, came[m.node].Sub(m.at))
	}
	return all
}

// stop ends them and returns how many there were.
func (p *probes) stop(t *testing.T) int {
	t.Helper()
	p.cancel()
	<-p.ended
	n, err := p.count()
	plane.Check(t, err)
	return n
}
