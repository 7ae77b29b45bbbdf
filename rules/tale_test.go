package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// tale is a log that is made up: requests in the order of their times.
type tale struct {
	requests []*Request
	options  DetectorOptions
}

// one adds a request of a node.
func (p *tale) one(second int, name string, changes ...with) {
	r := request(append([]with{node(name), code(200), when(second)}, changes...)...)
	r.Event.AuditID = fmt.Sprintf("%s-%d-%d", name, second, len(p.requests))
	r.Event.Stage = audit.StageResponseComplete
	p.requests = append(p.requests, r)
}

func lease(name string) with {
	return func(r *Request) {
		does("update leases.coordination.k8s.io kube-node-lease/" + name)(r)
		r.Observed.Decision = "allow"
	}
}

// kubelets lets n nodes renew their leases every so many seconds, each at its own second, unless silent says otherwise.
func (p *tale) kubelets(n, from, to, every int, silent func(node, second int) bool, changes ...with) {
	for s := from; s < to; s++ {
		for i := 1; i <= n; i++ {
			if (s+i*3)%every == 0 && (silent == nil || !silent(i, s)) {
				name := fmt.Sprintf("worker-%d", i)
				p.one(s, name, append([]with{lease(name)}, changes...)...)
			}
		}
	}
}

// pod is what a kubelet does when a pod starts on it.
func (p *tale) pod(second int, node, pod string, reads bool) {
	if reads {
		p.one(second+1, node, does("list secrets shop/db"))
	}
	p.one(second+3, node, does("patch pods/status "+pod))
	p.one(second+9, node, does("patch pods/status "+pod))
}

func (p *tale) sort() {
	slices.SortStableFunc(p.requests, func(a, b *Request) int { return a.Time.Compare(b.Time) })
}

// run plays the log to the detectors of one rule. The order is shuffled within the lateness if mix is set, time advances after so many
// requests, and the detectors are stored and made anew in the middle if again is set.
func (p *tale) run(t *testing.T, rule *Rule, s State, mix *rand.Rand, every int, again bool) []string {
	t.Helper()
	all := slices.Clone(p.requests)
	if mix != nil {
		type dated struct {
			r  *Request
			at time.Time
		}
		var late []dated
		for _, r := range all {
			late = append(late, dated{r, r.Time.Add(time.Duration(mix.Int64N(int64(100 * time.Second))))})
		}
		slices.SortStableFunc(late, func(a, b dated) int { return a.at.Compare(b.at) })
		for i := range late {
			all[i] = late[i].r
		}
	}
	d := NewDetectors([]*Rule{rule}, p.options)
	var out []string
	found := func(f *Detection) {
		if f.Rule != rule.Name || f.Severity == None || f.Severity > rule.Severity || !reasonOfRule(rule, f.Reason) || f.Time.IsZero() || len(f.AuditIDs) > 5 {
			t.Errorf("detection %+v", f)
		}
		line := fmt.Sprintf("%s %s: %s", strings.TrimPrefix(f.Time.Format("15:04:05"), "06:"), f.Severity, sayDetection(f))
		if f.Phase != "" {
			line = f.Phase + " " + line
		}
		out = append(out, line)
	}
	kept := map[string]Remembered{}
	keep := func() {
		for _, r := range d.Changes() {
			kept[r.Kind+"\x00"+r.Key] = r
		}
	}
	for i, r := range all {
		observeLent(d, r, s)
		if i%every == 0 {
			d.Advance(time.Time{}, s, found)
			if again {
				keep()
			}
		}
		if again && i == len(all)/2 {
			keep()
			d = NewDetectors([]*Rule{rule}, p.options)
			var entries []Remembered
			for _, r := range kept {
				entries = append(entries, r)
			}
			if err := d.Restore(entries); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.Flush(s, found)
	if n := d.Late(); n > 0 {
		t.Errorf("%d requests came too late", n)
	}
	return out
}

// detects plays a log in several ways, all of which must find the same, and returns what is found.
func (p *tale) detects(t *testing.T, rule *Rule, s State) []string {
	t.Helper()
	p.sort()
	want := p.run(t, rule, s, nil, 1, false)
	for seed := range uint64(3) {
		mix := rand.New(rand.NewPCG(seed, 1))
		if diff := cmp.Diff(want, p.run(t, rule, s, mix, 1+int(seed)*37, false)); diff != "" {
			t.Fatalf("in another order (-in order +shuffled):\n%s", diff)
		}
	}
	return want
}

const (
	minute = 60
	hour   = 60 * minute
)

func within(from, to int) func(node, second int) bool {
	return func(_, s int) bool { return s >= from && s < to }
}

func nodesWithin(from, to int, nodes ...int) func(node, second int) bool {
	return func(n, s int) bool { return s >= from && s < to && slices.Contains(nodes, n) }
}

func cluster(n int) *world {
	w := &world{pods: map[string]string{}, fresh: map[string]string{}, gone: map[string]int{}, created: map[string]int{}}
	for i := 1; i <= n; i++ {
		w.nodes = append(w.nodes, fmt.Sprintf("worker-%d", i))
	}
	return w
}

// bound binds a pod to a node at a second, with a secret that the node did not need before.
func (w *world) bound(pod, node string, second int) {
	w.pods[pod], w.fresh[pod] = node, fmt.Sprintf("shop/db %d", second)
}

// unanswered is denied by Node, and nothing tells whether RBAC let it through.
func unanswered(r *Request) {
	r.Answer.Verdict, r.Event.Code, r.Event.Stage, r.Open = nodeauthz.Deny, 0, audit.StageRequestReceived, true
	r.Observed = Observed{}
}
