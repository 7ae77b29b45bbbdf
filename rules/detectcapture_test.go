package rules_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/captured"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// judgedCapture is a real capture's state with its judged requests.
type judgedCapture struct {
	state    rules.State
	requests []*rules.Request
}

func capture(t testing.TB, name string) *judgedCapture {
	t.Helper()
	from := captured.Open(t, name, "auto")
	c := &judgedCapture{state: from.Judge.State}
	from.Replay(func(j *pipeline.Judgement) {
		r, attrs := j.Request, *j.Attrs
		r.Event, r.Attrs, r.Node = j.Event.Clone(), &attrs, strings.Clone(j.Node)
		for _, s := range []*string{&attrs.Namespace, &attrs.Name, &attrs.Verb, &attrs.Path} {
			*s = strings.Clone(*s)
		}
		c.requests = append(c.requests, &r)
	})
	return c
}

func detect(c *judgedCapture, all []*rules.Rule, want func(*rules.Request) bool) (out []*rules.Detection) {
	d := rules.NewDetectors(all, rules.DetectorOptions{})
	for _, r := range c.requests {
		if want(r) {
			d.Observe(r, c.state)
		}
	}
	d.Flush(c.state, func(f *rules.Detection) { out = append(out, f) })
	return out
}

// What real kubelets did leads to no detection that is worth waking anybody; what the script did with the nodes' certificates, to get at
// secrets all over the cluster, is an enumeration on each node that it used.
func TestDetectorsOnCaptures(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		c := capture(t, name)
		kubelet := func(r *rules.Request) bool { return rules.Product(r.Event.UserAgent) == "hollow-kubelet" }
		n := 0
		for _, r := range c.requests {
			if kubelet(r) {
				n++
			}
		}
		if n < 100 {
			t.Errorf("%s: only %d requests of kubelets", name, n)
		}
		for _, f := range detect(c, rules.All(), kubelet) {
			if f.Severity >= rules.High {
				t.Errorf("%s: a kubelet's own requests: %s %s: %s", name, f.Severity, f.Rule, f.Message)
			}
		}
		// Who got secrets that no pod led to, by the single requests.
		reached := map[string]map[string]bool{}
		for _, r := range c.requests {
			if !kubelet(r) && r.NodeDenies() && r.Attrs.Resource == "secrets" && r.Attrs.Verb == "get" && r.Attrs.Subresource == "" {
				if reached[r.Node] == nil {
					reached[r.Node] = map[string]bool{}
				}
				reached[r.Node][r.Attrs.Namespace+"/"+r.Attrs.Name] = true
			}
		}
		var want, got []string
		for node, objects := range reached {
			if len(objects) >= 5 {
				want = append(want, node)
			}
		}
		for _, f := range detect(c, rules.All(), func(r *rules.Request) bool { return !kubelet(r) }) {
			switch f.Rule {
			case "secret-enumeration":
				if !slices.Contains(got, f.Subject) {
					got = append(got, f.Subject)
				}
			case "node-deny-spike", "persistent-node-deny":
				t.Errorf("%s: in little more than a minute: %s: %s", name, f.Rule, f.Message)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || len(want) < 5 {
			t.Errorf("%s: enumerations by %q, want %q", name, got, want)
		}
	}
}

// BenchmarkRulesAndDetectors holds the time that all rules and detectors take for a log against that of decoding it: for the requests of real
// kubelets, and for those of a script of which two thirds are denied.
func BenchmarkRulesAndDetectors(b *testing.B) {
	z, err := gzip.NewReader(bytes.NewReader(demo.AuditLog()))
	if err != nil {
		b.Fatal(err)
	}
	whole, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name    string
		kubelet bool
	}{{"kubelets", true}, {"script", false}} {
		b.Run(x.name, func(b *testing.B) {
			c := capture(b, "capture")
			c.requests = slices.DeleteFunc(c.requests, func(r *rules.Request) bool {
				return (rules.Product(r.Event.UserAgent) == "hollow-kubelet") != x.kubelet
			})
			var log []byte
			for _, line := range bytes.SplitAfter(whole, []byte("\n")) {
				if bytes.Contains(line, []byte(`"username":"system:node:`)) && bytes.Contains(line, []byte(`"userAgent":"hollow-kubelet`)) == x.kubelet {
					log = append(log, line...)
				}
			}
			c.benchmark(b, log)
		})
	}
}

func (c *judgedCapture) benchmark(b *testing.B, log []byte) {
	all, memory := rules.All(), rules.NewMemory()
	d := rules.NewDetectors(all, rules.DetectorOptions{})
	span := c.requests[len(c.requests)-1].Time.Sub(c.requests[0].Time).Truncate(time.Minute) + 2*time.Minute
	var decoding, checking, detecting time.Duration
	decoder := &audit.Decoder{}
	const rounds = 20 // of each in turn: in a run they have a processor's caches for themselves, too
	for b.Loop() {
		begin := time.Now()
		for range rounds {
			decoder.Chunk(log, 1, func(*audit.Event) {}, func(m audit.Malformed) { b.Fatal(m) })
		}
		decoding += time.Since(begin)
		for range rounds {
			for block := range slices.Chunk(c.requests, 128) {
				touched := 0
				for _, r := range block { // as the judge just did
					touched += touch(r)
				}
				begin := time.Now()
				for _, r := range block {
					for _, rule := range all {
						if rule.Check == nil {
							continue
						}
						rule.Check(r, c.state, memory)
					}
				}
				checked := time.Now()
				for _, r := range block {
					d.Observe(r, c.state)
				}
				d.Advance(time.Time{}, c.state, func(*rules.Detection) {})
				detecting += time.Since(checked)
				checking += checked.Sub(begin)
				if touched == 0 {
					b.Fatal("nothing in it")
				}
			}
			for _, r := range c.requests { // the next round is a little later
				r.Time = r.Time.Add(span)
			}
			d.Changes(c.requests[0].Time, true)
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N*rounds*len(c.requests)) }
	b.ReportMetric(per(decoding), "ns-decoding/request")
	b.ReportMetric(per(checking), "ns-rules/request")
	b.ReportMetric(per(detecting), "ns-detectors/request")
	b.ReportMetric(float64(checking+detecting)/float64(decoding), "of-decoding")
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
	for _, s := range append(r.Event.User.Groups, r.Event.SourceIPs...) {
		n += len(s) + int(s[0])
	}
	return n
}
