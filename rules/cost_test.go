package rules_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/rules"
)

// BenchmarkRulesAndDetectors holds the time that all rules and detectors take for a log against that of decoding it, in one run.
//
// The figure to read is of-decoding: what rules (ns-rules) and detectors (ns-observing, ns-advancing) take, over what audit.Decoder takes for
// the lines of just these requests, all their stages, as the sources have it decode (ns-decoding). That is what 'analyze' does. of-decoding-stored is
// what 'run' does instead: the rules, the form in which the detectors' requests are stored (ns-storing), reading them again and the detectors
// (ns-lanes), and what these remember, made into JSON for the store at the beginning of each minute of the log (ns-remembering).
//
// All are processor time of the whole process, the collector's included, and not the clock's: other programs then count only as far as they
// empty the caches. Decoding, what 'analyze' does and what 'run' does run many times in turn, each with the caches to itself; what judging has just
// read is read before the rules are timed. Judging itself and the Clone of events are in neither figure. On a busy machine compare several runs.
//
// The loads: what real kubelets do whose pods come and go, a sixth of which is denied; a script that tries what it can with nodes' credentials,
// two thirds of which is denied, and most of that found by several rules; and the kubelets' requests made by 5,000 nodes in turn, ten a minute
// each, where what is known of a node is never in a cache.
func BenchmarkRulesAndDetectors(b *testing.B) {
	kubelet := func(r *rules.Request) bool { return rules.Product(r.Event.UserAgent) == "hollow-kubelet" }
	b.Run("kubelets", func(b *testing.B) {
		c := logged(b)
		c.only(kubelet)
		c.benchmark(b, 20)
	})
	b.Run("script", func(b *testing.B) {
		c := logged(b)
		c.only(func(r *rules.Request) bool { return !kubelet(r) })
		c.benchmark(b, 20)
	})
	b.Run("5000nodes", func(b *testing.B) {
		c := logged(b)
		c.only(kubelet)
		c.spread(5000, 10)
		c.benchmark(b, 1)
	})
}

// logged is the bundled capture with its log.
func logged(b *testing.B) *judgedCapture {
	b.Helper()
	c := capture(b, "capture")
	z, err := gzip.NewReader(bytes.NewReader(demo.AuditLog()))
	if err != nil {
		b.Fatal(err)
	}
	if c.log, err = io.ReadAll(z); err != nil {
		b.Fatal(err)
	}
	return c
}

// lines returns the log's lines by auditID.
func (c *judgedCapture) lines() map[string][]byte {
	out := map[string][]byte{}
	for _, line := range bytes.SplitAfter(c.log, []byte("\n")) {
		(&audit.Decoder{}).Chunk(line, 1, func(ev *audit.Event) {
			id := strings.Clone(ev.AuditID)
			out[id] = append(out[id], line...)
		}, func(audit.Malformed) {})
	}
	return out
}

// only leaves what is wanted, and the lines of it.
func (c *judgedCapture) only(want func(*rules.Request) bool) {
	c.requests = slices.DeleteFunc(c.requests, func(r *rules.Request) bool { return !want(r) })
	lines := c.lines()
	c.log = nil
	for _, r := range c.requests {
		c.log = append(c.log, lines[r.Event.AuditID]...)
	}
}

// spread makes of the requests a minute of many nodes, each of which makes a few of those of one real node, in turn with all others.
func (c *judgedCapture) spread(nodes, each int) {
	lines, byNode := c.lines(), map[string][]*rules.Request{}
	for _, r := range c.requests {
		byNode[r.Node] = append(byNode[r.Node], r)
	}
	names := slices.Sorted(maps.Keys(byNode))
	begin := c.requests[0].Time.Truncate(time.Minute)
	registered := moreNodes{c.state, map[string]bool{}}
	c.log, c.requests, c.state = nil, nil, registered
	for i := range nodes * each {
		node, nth := i%nodes, i/nodes
		of := byNode[names[node%len(names)]]
		was := of[(node*each+nth)%len(of)]
		name, user := fmt.Sprintf("%s-%04d", was.Node, node), was.Event.User
		rename := strings.NewReplacer(
			was.Node, name, was.Event.AuditID, fmt.Sprintf("%s-%05d", was.Event.AuditID, i), user.CredentialID, user.CredentialID+name)
		r, attrs, ev := *was, *was.Attrs, was.Event.Clone()
		for _, s := range []*string{
			&attrs.Name, &ev.AuditID, &ev.User.Username, &ev.User.CredentialID, &ev.ObjectRef.Name, &ev.Reason, &r.Observed.Reason, &r.Answer.Reason,
		} {
			*s = rename.Replace(*s)
		}
		ev.SourceIPs = []string{fmt.Sprintf("10.%d.%d.7", node/250, node%250)}
		r.Event, r.Attrs, r.Node, r.Time = ev, &attrs, name, begin.Add(time.Duration(i)*time.Minute/time.Duration(nodes*each))
		c.requests = append(c.requests, &r)
		c.log = append(c.log, rename.Replace(string(lines[was.Event.AuditID]))...)
		registered.names[name] = true
	}
}

// moreNodes knows further nodes.
type moreNodes struct {
	rules.State
	names map[string]bool
}

func (s moreNodes) NodeRegistered(name string, _ time.Time) (registered, known bool) {
	return s.names[name], true
}

// PodNode has the cost of the look-up alone: the pods are on the real nodes.
func (s moreNodes) PodNode(namespace, name string, t time.Time) (node string, ok bool) {
	s.State.PodNode(namespace, name, t)
	return "", false
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cost is where the time goes.
type cost struct{ decoding, checking, observing, advancing, storing, lanes, remembering time.Duration }

func (c *judgedCapture) benchmark(b *testing.B, rounds int) {
	all, memory := rules.All(), rules.NewMemory()
	d := rules.NewDetectors(all, rules.DetectorOptions{})
	lanes := rules.NewLanes(rules.NewDetectors(all, rules.DetectorOptions{}))
	decoder := &audit.Decoder{Want: audit.Want{State: true}}
	span := c.requests[len(c.requests)-1].Time.Sub(c.requests[0].Time).Truncate(time.Minute) + 2*time.Minute
	later := func() { // for the next round
		for _, r := range c.requests {
			r.Time = r.Time.Add(span)
			r.Forget()
		}
	}
	analyze := func(sum *cost) { c.analyzed(b, sum, all, memory, d); later() }
	run := func(sum *cost) { c.stored(b, sum, lanes); later() }
	var sum cost
	analyze(&sum) // from here on the nodes are known
	run(&sum)
	sum = cost{}
	for b.Loop() {
		at := cpu()
		for range rounds {
			decoder.Chunk(c.log, 1, func(*audit.Event) {}, func(m audit.Malformed) { b.Fatal(m) })
		}
		sum.decoding += cpu() - at
		for range rounds {
			analyze(&sum)
		}
		for range rounds {
			run(&sum)
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*rounds*len(c.requests)) }
	b.ReportMetric(per(sum.decoding), "ns-decoding/request")
	b.ReportMetric(per(sum.checking), "ns-rules/request")
	b.ReportMetric(per(sum.observing), "ns-observing/request")
	b.ReportMetric(per(sum.advancing), "ns-advancing/request")
	b.ReportMetric(per(sum.storing), "ns-storing/request")
	b.ReportMetric(per(sum.lanes), "ns-lanes/request")
	b.ReportMetric(per(sum.remembering), "ns-remembering/request")
	b.ReportMetric(float64(sum.checking+sum.observing+sum.advancing)/float64(sum.decoding), "of-decoding")
	b.ReportMetric(float64(sum.checking+sum.storing+sum.lanes+sum.remembering)/float64(sum.decoding), "of-decoding-stored")
}

// laps adds processor time to one cost after the other, less what it takes to look at it.
type laps struct{ at time.Duration }

func (l *laps) begin() { l.at = cpu() }

func (l *laps) end(of *time.Duration) {
	was := l.at
	l.at = cpu()
	*of += max(0, l.at-was-looking())
}

// looking is how long a look at the processor time takes at the least.
var looking = sync.OnceValue(func() time.Duration {
	least := time.Hour
	for range 100 {
		begin := cpu()
		for range 100 {
			cpu()
		}
		least = min(least, (cpu()-begin)/101)
	}
	return least
})

// batches gives the requests in batches, each of them read as the judge just did.
func (c *judgedCapture) batches(b *testing.B, one func([]*rules.Request)) {
	for block := range slices.Chunk(c.requests, 256) {
		touched := 0
		for _, r := range block {
			touched += touch(r)
		}
		if touched == 0 {
			b.Fatal("nothing in it")
		}
		one(block)
	}
}

// analyzed gives all requests to the rules and the detectors.
func (c *judgedCapture) analyzed(b *testing.B, sum *cost, all []*rules.Rule, memory *rules.Memory, d *rules.Detectors) {
	var t laps
	var f rules.Finding
	c.batches(b, func(block []*rules.Request) {
		t.begin()
		for _, r := range block {
			for _, rule := range all {
				if rule.Check != nil {
					rule.Check(r, c.state, memory, &f)
				}
			}
		}
		t.end(&sum.checking)
		for _, r := range block {
			d.Observe(r, c.state)
		}
		t.end(&sum.observing)
		d.Advance(time.Time{}, c.state, func(*rules.Detection) {})
		t.end(&sum.advancing)
	})
}

// stored gives all requests to the detectors by way of the store, a batch in each commit.
func (c *judgedCapture) stored(b *testing.B, sum *cost, lanes *rules.Lanes) {
	var t laps
	var one []byte
	var commit rules.Observations
	c.batches(b, func(block []*rules.Request) {
		for _, r := range block {
			r.Client() // as the rules have asked
		}
		t.begin()
		commit.Reset()
		commit.Lane("lane", time.Time{})
		for _, r := range block {
			if rules.Observes(r) {
				one = rules.AppendObservation(one[:0], r, time.Time{})
				commit.Add(one)
			}
		}
		body := slices.Clone(commit.Bytes()) // as the store does
		t.end(&sum.storing)
		if _, err := lanes.Take(body); err != nil {
			b.Fatal(err)
		}
		lanes.Advance(time.Time{}, time.Time{}, time.Hour, c.state, func(*rules.Detection) {}, func() {
			t.end(&sum.lanes)
			lanes.Changes()
			t.end(&sum.remembering)
		})
		t.end(&sum.lanes)
	})
}

// touch reads what judging a request reads.
func touch(r *rules.Request) int {
	n := 0
	for _, s := range []string{
		r.Node, r.Attrs.Verb, r.Attrs.APIGroup, r.Attrs.Resource, r.Attrs.Subresource, r.Attrs.Namespace, r.Attrs.Name, r.Event.UserAgent,
		r.Event.User.Username, r.Event.User.CredentialID, r.Event.AuditID, r.Observed.Reason, r.Answer.Reason,
	} {
		for i := 0; i < len(s); i += 64 {
			n += int(s[i])
		}
	}
	for _, all := range [][]string{r.Event.User.Groups, r.Event.SourceIPs} {
		for _, s := range all {
			n += len(s) + int(s[0])
		}
	}
	return n
}
