package days

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// throughNetworks calls f with days on which kubelets come through networks of all kinds.
func throughNetworks(t *testing.T, f func(seed uint64, kind string, d *Day, did string)) {
	t.Helper()
	seeds := effort.Of(uint64(8), 1)
	if text := os.Getenv("NODETRAIL_NETWORKS"); text != "" { // for the night
		if _, err := fmt.Sscan(text, &seeds); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		opts := Options{Span: 3 * time.Hour, Nodes: 2 + int(seed%7)*2, Minor: 34 + int(seed%4), Servers: 1 + int(seed%3), Features: Deployments}
		plain := clean(t, 301+seed%4, opts)
		opts.Features |= DualStack
		dual := clean(t, 301+seed%4, opts)
		for _, kind := range slices.Sorted(maps.Keys(networks())) {
			if kind == "balancers" && opts.Nodes < 10 {
				continue // docs/rules/node-credential-misuse.md says that few nodes behind several addresses may be findings
			}
			d := plain.copyOf()
			if kind == "families" {
				d = dual.copyOf()
			}
			m := &mutator{newRand(seed, 77), d}
			n := m.through(kind)
			f(seed, kind, d, fmt.Sprintf("%d nodes, Leases apart: %t, %s", opts.Nodes, n.apart, strings.Join(n.did, "; ")))
		}
	}
}

// Whatever is between kubelets and API servers, connections that fail over, move and come back are nobody's theft.
func TestNetworksAreQuiet(t *testing.T) {
	throughNetworks(t, func(seed uint64, kind string, d *Day, did string) {
		r := analyze(t, d)
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Severity == rules.High.String() || f.Severity == rules.Critical.String() {
				t.Errorf("seed %d, %s: %s %s at %s: %s (%s)", seed, kind, f.Severity, f.Reason, f.First, f.Message, did)
			}
		}
	})
}

// Whatever is between kubelets and API servers, a secret that somebody takes from elsewhere, or from another node's own address, is found.
func TestTheftThroughNetworks(t *testing.T) {
	stolen := map[string]int{}
	throughNetworks(t, func(seed uint64, kind string, d *Day, did string) {
		for _, how := range []string{"from elsewhere", "while the kubelet is silent", "from another node's address", "with other credentials"} {
			day := d.copyOf()
			m := &mutator{newRand(seed, 78), day}
			m.bind()
			a := &attack{mutator: m, theft: &Theft{Node: m.node(), At: m.moment(), Address: "198.51.100.7"}, id: uuid(m.Rand)}
			a.like = m.like(a.theft.Node, a.theft.At)
			theft := a.ofPod(m.IntN(2) == 0)
			if theft == nil {
				continue
			}
			if how == "from another node's address" {
				other := m.NodeNames[m.IntN(len(m.NodeNames))]
				l := m.like(other, a.theft.At)
				if l == nil || other == a.theft.Node || !slices.Contains(addressesOf(day, other, l.Received), l.SourceIPs[0]) {
					continue
				}
				a.theft.Address = l.SourceIPs[0]
				theft.SourceIPs = []string{a.theft.Address}
			}
			theft.AuditID, theft.UserAgent = a.id, a.like.UserAgent
			if how == "with other credentials" && theft.Received.Before(day.From.Add(20*minute)) {
				continue // where the log begins, the nodes may have come from there all along
			}
			if m.add(theft); how == "with other credentials" {
				a.others(theft)
				a.renew(theft)
				m.add(a.new...)
			}
			if how == "while the kubelet is silent" {
				from := theft.Received.Add(-time.Duration(1+m.IntN(8)) * minute)
				if from.Before(day.From.Add(10 * minute)) {
					continue // the log does not show where the kubelet was
				}
				m.drop(func(e *Event) bool { return e != theft && nodeOf(e.User) == a.theft.Node && e.Received.After(from) })
			}
			stolen[how]++
			least := rules.Critical
			if kind == "balancers" {
				least = rules.Medium // nothing tells that there is no further address
			}
			if !slices.ContainsFunc(analyze(t, day).Findings, func(f report.Finding) bool {
				severity, _ := rules.ParseSeverity(f.Severity)
				return severity >= least && f.Reason == rules.SecretTaken && f.Node == a.theft.Node && f.Namespace == a.theft.Namespace && f.Name == a.theft.Secret &&
					f.Params.Text(rules.ParamAddress) == a.theft.Address
			}) {
				t.Errorf("seed %d, %s, %s: not found: %+v (%s)", seed, kind, how, *a.theft, did)
			}
		}
	})
	if len(stolen) != 4 {
		t.Errorf("thefts: %v", stolen)
	}
}

// addressesOf are the addresses that a Node has at a time.
func addressesOf(d *Day, node string, at time.Time) (out []string) {
	for _, e := range d.State {
		if e.Kind != "Node" || e.Name != node || e.Object == nil || e.At.After(at) {
			continue
		}
		out = nil
		status, _ := e.Object["status"].(map[string]any)
		all, _ := status["addresses"].([]map[string]any)
		for _, a := range all {
			out = append(out, fmt.Sprint(a["address"]))
		}
	}
	return out
}
