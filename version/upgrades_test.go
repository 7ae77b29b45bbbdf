package version_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/version"
)

// TestUpgradesWithinAnHour replaces API servers, some of them twice and by versions that are not neighbours. Each answers by its own version, and a
// request is one that two neighbouring minors answer differently. The first requests of the minute in which a server is seen first were answered by the one before. The version of the server that answered is always in force, and it alone where the
// log shows no other one at the time.
func TestUpgradesWithinAnHour(t *testing.T) {
	list := version.Hypotheses()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 14))
		start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		const minutes = 90
		minor := nodeauthz.OldestMinor + r.IntN(nodeauthz.NewestMinor-nodeauthz.OldestMinor)
		truth, rarely := make([]int, minutes), 8+r.IntN(80)
		for m := range truth {
			if m > 3 && m < minutes-4 && truth[m-3] == minor && minor < nodeauthz.NewestMinor && (r.IntN(rarely) == 0 || m == 60) {
				minor += 1 + r.IntN(min(2, nodeauthz.NewestMinor-minor))
			}
			truth[m] = minor
		}
		a := version.NewAccumulator(list)
		for m, minor := range truth {
			a.Agent(start.Add(time.Duration(m)*time.Minute), fmt.Sprintf("kube-apiserver/v1.%d.4 (linux/amd64) kubernetes/1", minor), "system:apiserver")
		}
		for m := range truth {
			for i := range 4 {
				minor := truth[m]
				if i == 0 && m > 0 {
					minor = truth[m-1]
				}
				since := nodeauthz.OldestMinor + 1 + r.IntN(nodeauthz.NewestMinor-nodeauthz.OldestMinor)
				reason := func(minor int) string { return fmt.Sprintf("%d %t", since, minor >= since) }
				a.Observe(&version.Request{
					AuditID: fmt.Sprint(m, "-", i), Time: start.Add(time.Duration(m)*time.Minute + time.Duration(i)*13*time.Second), Shape: version.Shape{Verb: "get", Resource: fmt.Sprint(since)},
					Implied: nodeauthz.Deny, Forbidden: true, Reason: reason(minor),
				}, func(h int) nodeauthz.Answer {
					return nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: reason(list[h].Minor), Static: true}
				})
			}
		}
		for m, minor := range truth {
			f := a.InForce(start.Add(time.Duration(m) * time.Minute))
			if want := fmt.Sprintf("v1.%d.4", minor); list[f.Members[0]].Minor == minor && f.Release != want {
				t.Fatalf("seed %d, minute %d: API servers of %q, want %s", seed, m, f.Release, want)
			}
			var got []int
			for _, i := range f.Members[:f.N] {
				got = append(got, list[i].Minor)
			}
			alone := truth[max(m-1, 0)] == minor && truth[min(m+1, minutes-1)] == minor
			// Two replacements in two minutes leave three versions, of which two can be in force.
			if alone && (len(got) != 1 || got[0] != minor) || !alone && !slices.Contains(got, minor) && truth[min(m+1, minutes-1)]-truth[max(m-1, 0)] < 2 {
				t.Fatalf("seed %d, minute %d: %v in force, and an API server of 1.%d answered: %v", seed, m, got, minor, truth)
			}
		}
	}
}

// TestRelease: the patch release is that of all API servers of the minor about the time. It is also known where a flag gives the version.
func TestRelease(t *testing.T) {
	for _, given := range []bool{false, true} {
		a := version.NewAccumulator(version.Hypotheses())
		if given {
			f, err := nodeauthz.FeaturesFor("1.33")
			if err != nil {
				t.Fatal(err)
			}
			a.Given(f, 0)
		}
		start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		for m, patch := range []string{"v1.33.3", "v1.33.3", "v1.33.3", "v1.33.4", "v1.33.4", "v1.33.4-eks-1"} {
			a.Agent(start.Add(time.Duration(m)*time.Minute), "kube-apiserver/"+patch+" (linux/amd64) kubernetes/1", "system:apiserver")
			a.Agent(start.Add(time.Duration(m)*time.Minute), "kube-apiserver/v1.33.9 (linux/amd64) kubernetes/1", "system:node:n1") // anybody can claim it
			a.Agent(start.Add(time.Duration(m)*time.Minute), "kube-scheduler/v1.33.1 (linux/amd64) kubernetes/1", "system:kube-scheduler")
		}
		for m, want := range []string{"v1.33.3", "v1.33.3", "", "", "", "", "v1.33.4-eks-1", "v1.33.4-eks-1"} {
			if got := a.InForce(start.Add(time.Duration(m) * time.Minute)).Release; got != want {
				t.Errorf("given %t, minute %d: %q, want %q", given, m, got, want)
			}
		}
	}
}
