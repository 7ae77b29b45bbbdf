package app

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/version"
)

// What was found of versions before run was started counts as it did: a restart makes nothing proven.
func TestVersionsSinceARestart(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hours := func(from, to int, more codes.Version) codes.Version {
		more.From, more.To, more.Name, more.Known = noon.Add(time.Duration(from)*time.Hour), noon.Add(time.Duration(to)*time.Hour), "1.36", true
		return more
	}
	l := evidence.New()
	for at := noon; at.Before(noon.Add(4 * time.Hour)); at = at.Add(10 * time.Second) {
		l.Observe(&audit.Event{Stage: audit.StageResponseComplete, Verb: "update", Code: 200, RequestReceived: at, StageTime: at, Decision: "allow",
			User: audit.User{Username: "system:apiserver"}, UserAgent: "kube-apiserver/v1.36.3", HasObjectRef: true,
			ObjectRef: audit.ObjectRef{APIGroup: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "apiserver-0"}}, evidence.Origin{})
	}
	found := func(all []codes.Version) (moved, doubts, anyPod, against int) {
		p := &proof{ledger: l, to: noon.Add(4 * time.Hour), facts: &report.Facts{}}
		p.facts.Authorization.Versions = all
		for _, v := range p.versions(&checks.Input{Options: checks.Options{MinWindow: 4 * time.Hour}}) {
			for n, is := range map[*int]bool{&moved: v.Moved, &doubts: v.Doubts > 0, &anyPod: v.AnyPod, &against: v.Contradicted > 0} {
				if is {
					*n++
				}
			}
		}
		return moved, doubts, anyPod, against
	}
	for name, c := range map[string]struct {
		was, is []codes.Version
		want    [4]int
		n       int
	}{
		"first":     {nil, []codes.Version{hours(0, 4, codes.Version{Moved: true})}, [4]int{4}, 1},
		"restarted": {[]codes.Version{hours(0, 2, codes.Version{Moved: true, Doubts: 3})}, []codes.Version{hours(2, 4, codes.Version{})}, [4]int{2, 2}, 2},
		"in an hour": {
			[]codes.Version{hours(0, 1, codes.Version{}), hours(1, 3, codes.Version{AnyPod: true})}, []codes.Version{hours(2, 4, codes.Version{Against: 5})}, [4]int{0, 0, 2, 1}, 3,
		},
		"before anything":  {[]codes.Version{hours(0, 2, codes.Version{AnyPod: true})}, nil, [4]int{0, 0, 2}, 1},
		"nothing happened": {[]codes.Version{hours(0, 3, codes.Version{})}, []codes.Version{hours(2, 4, codes.Version{})}, [4]int{}, 1},
		"nothing judged":   {[]codes.Version{hours(0, 3, codes.Version{})}, []codes.Version{hours(2, 3, codes.Version{Basis: string(version.Nothing)})}, [4]int{}, 1},
		"long ago":         {[]codes.Version{hours(-300, -200, codes.Version{Moved: true})}, []codes.Version{hours(0, 4, codes.Version{})}, [4]int{}, 1},
	} {
		requests := int64(0) // of those that are not long ago
		for _, part := range [][]codes.Version{c.was, c.is} {
			for i := range part {
				part[i].Requests = int64(i + 7)
				if part[i].To.After(noon.Add(-48 * time.Hour)) {
					requests += part[i].Requests
				}
			}
		}
		if name == "nothing judged" {
			c.is[0].Requests, requests = 0, 7
		}
		all := since(c.was, c.is, noon.Add(-48*time.Hour))
		for _, v := range all {
			requests -= v.Requests
		}
		if requests != 0 {
			t.Errorf("%s: %d requests are lost", name, requests)
		}
		moved, doubts, anyPod, against := found(all)
		if got := [4]int{moved, doubts, anyPod, against}; got != c.want || len(all) != c.n {
			t.Errorf("%s: %v of %d, want %v of %d", name, got, len(all), c.want, c.n)
		}
	}
}
