package days

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// Where addresses change hands, or say nothing, no finding by them is above medium: neither where a control plane's address moves to another node, nor behind a gateway of many.
func TestAddressesThatSayNothing(t *testing.T) {
	for seed := range effort.Of(uint64(24), 6) {
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
