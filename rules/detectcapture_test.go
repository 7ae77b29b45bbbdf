package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// judgedCapture is a real capture's state with its judged requests.
type judgedCapture struct {
	state    rules.State
	requests []*rules.Request
	log      []byte // benchmarks have it
}

func capture(t testing.TB, name string) *judgedCapture {
	t.Helper()
	from := captured.Open(t, name, "auto")
	c := &judgedCapture{state: from.Judge.State}
	from.Replay(func(j *pipeline.Judgement) {
		r := j.Request
		r.Event, r.Node = j.Event.Clone(), strings.Clone(j.Node)
		r.Attrs = new(audit.Attributes).Of(r.Event, j.Authorizer().Features().AuthorizeWithSelectors)
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
				t.Errorf("%s: a kubelet's own requests: %s %s: %s", name, f.Severity, f.Rule, said(f))
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
				t.Errorf("%s: in little more than a minute: %s: %s", name, f.Rule, said(f))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || len(want) < 5 {
			t.Errorf("%s: enumerations by %q, want %q", name, got, want)
		}
	}
}
