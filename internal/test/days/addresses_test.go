package days

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// Where addresses change hands, or say nothing, no finding by them is above medium: neither where a control plane's address moves to another node, nor behind a gateway of many.
func TestAddressesThatSayNothing(t *testing.T) {
	for seed := range effort.Of(uint64(24), 2) {
		base := clean(t, 191+seed%3, Options{Span: 3 * time.Hour, Nodes: 4 + int(seed%3)*4, Minor: 34 + int(seed%4), Features: Deployments})
		for _, name := range []string{"holder-vip-moves", "many-gateways"} {
			m, _ := Named(name, seed)
			if name == "many-gateways" { // few nodes behind one may be findings
				m = Mutation{Name: name, Seed: seed, apply: manyGateways}
			}
			d, ok := m.Apply(base)
			if !ok {
				t.Fatalf("%s does not apply", name)
			}
			r := analyze(t, d)
			for i := range r.Findings {
				if f := &r.Findings[i]; f.Rule == rules.CredentialMisuse && (f.Severity == rules.High.String() || f.Severity == rules.Critical.String()) {
					t.Errorf("seed %d, %s, %s: %s at %s: %s", seed, name, d.Applied[0].What, f.Severity, f.First, f.Message)
				}
			}
		}
	}
}

// What a front proxy that authenticates nodes forwards is nobody else's. What one API server forwards to another is not reported for the header that it adds: its
// own address is what the rule looks at.
func TestForwardedByOthersThanClients(t *testing.T) {
	for seed := range effort.Of(uint64(8), 2) {
		base := clean(t, 197+seed%2, Options{Span: 3 * time.Hour, Nodes: 4, Minor: 35 + int(seed%2), Features: Deployments})
		for name, change := range map[string]func(e *Event){
			"front proxy": func(e *Event) {
				u := *e.User
				e.User, u.CredentialID = &u, ""
				e.SourceIPs = slices.Concat(e.SourceIPs, []string{"10.0.3.1"})
			},
			"API server": func(e *Event) {
				if e.Server == 0 && e.Verb == "watch" {
					e.SourceIPs = slices.Concat(e.SourceIPs, []string{"10.0.0.2"})
				}
			},
		} {
			m := Mutation{Name: name, Seed: seed, apply: func(m *mutator) string { return some(m.change((*Event).IsNode, change), name) }}
			d, _ := m.Apply(base)
			r := analyze(t, d)
			for i := range r.Findings {
				if f := &r.Findings[i]; f.Reason == rules.Forwarded || name == "front proxy" && f.Rule == rules.CredentialMisuse {
					t.Errorf("seed %d, %s: %s at %s: %s", seed, name, f.Severity, f.First, f.Message)
				}
			}
		}
	}
}
