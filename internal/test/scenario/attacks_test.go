package scenario_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/internal/test/scenario/analyzed"
)

// attacked holds the scenarios of one numbered point against what nodetrail says of them.
func attacked(t *testing.T, prefix string) {
	t.Helper()
	all, err := scenario.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range all {
		s := &all[i]
		if !strings.HasPrefix(s.Name, prefix) {
			continue
		}
		found++
		out, err := analyzed.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.Want, out.Verdicts, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: verdicts (-want +got):\n%s", s.Name, d)
		}
		if d := cmp.Diff(s.Report, analyzed.Summarize(out.Report)); d != "" {
			t.Errorf("%s: report (-want +got):\n%s", s.Name, d)
		}
	}
	if found == 0 {
		t.Errorf("no scenario begins with %s", prefix)
	}
}

// These are in TestScenarios, too: here each has the number of its point.

func TestAttack04HidingInRacesAndOrdinaryAnswers(t *testing.T) { attacked(t, "attacks-04-") }

func TestAttack06RightsOfOtherGroups(t *testing.T) { attacked(t, "attacks-06-") }

func TestAttack08RefusedByAdmission(t *testing.T) { attacked(t, "noderestriction-403-allow") }

func TestAttack11WindowsKubelet(t *testing.T) { attacked(t, "attacks-11-") }

func TestAttack12KubeadmJoinAndUpgrade(t *testing.T) { attacked(t, "attacks-12-") }

func TestAttack13ControlPlaneOnLoopback(t *testing.T) { attacked(t, "attacks-13-") }

func TestAttack14AgentsOfProviders(t *testing.T) { attacked(t, "attacks-14-") }
