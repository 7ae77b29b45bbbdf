package judging

import (
	"testing"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Which audiences nodes may ask for depends on a gate of the minor whose gates the API server has, unless the user gave the gate.
func TestAnyAudience(t *testing.T) {
	const gate = "ServiceAccountNodeAudienceRestriction"
	for name, c := range map[string]struct {
		version  string
		emulated int
		gates    map[string]bool
		want     bool
	}{
		"before the gate":       {"1.31", 0, nil, true},
		"off by default":        {"1.32", 0, nil, true},
		"turned on":             {"1.32", 0, map[string]bool{gate: true}, false},
		"on by default":         {"1.33", 0, nil, false},
		"turned off":            {"1.33", 0, map[string]bool{gate: false}, true},
		"another one is given":  {"1.36", 0, map[string]bool{"PodCertificateRequest": true}, false},
		"it emulates a version": {"1.34", 32, nil, true},
	} {
		f, err := nodeauthz.FeaturesFor(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if c.emulated != 0 {
			f.Emulated = c.emulated
		}
		s := New(cluster.NewState(), Options{Features: f, Versions: &Versions{Gates: c.gates}})
		if got := s.AnyAudience(f); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
