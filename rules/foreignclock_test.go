package rules

import (
	"strings"
	"testing"
	"time"
)

// A pod cannot be moved: one of the same name that is elsewhere is another one. What a node writes of it is excused by wrong clocks only where the UID, or the
// pods' ends, say that it was of a pod of the node.
//
// Seen to fail with any pod of the name within ten minutes as an excuse.
func TestForeignWriteByClock(t *testing.T) {
	rule := foreignNodeWrite()
	const (
		through = "critical: %s by node worker-1 went through: NodeRestriction is not in force"
		failed  = "high: %s by node worker-1 passed authorization and failed with code 409"
		unclear = "low: %s by node worker-1 went through, and the log does not show whether it was of the pod on another node or of one of the same name that was on the node within ten minutes"
	)
	at := request().Time
	sec := func(s int) time.Time { return at.Add(time.Duration(s) * time.Second) }
	before := func(end int) stay { return stay{node: "worker-1", uid: "mine", Begin: sec(-3600), End: sec(end)} }
	after := func(begin, end int) stay {
		return stay{node: "worker-1", uid: "mine", Begin: sec(begin), End: sec(end)}
	}
	nameless := func(end int) stay { return stay{node: "worker-1", Begin: sec(-3600), End: sec(end)} }
	other := func(begin, end int) stay {
		return stay{node: "worker-2", uid: "other", Begin: sec(begin), End: sec(end)}
	}
	for _, c := range []struct {
		name, does, body string
		code             int32
		stays            []stay
		want             string
	}{
		{"drawn here", "delete pods shop/db-0", "", 200, []stay{other(-7000, 5), after(6, 9000)}, through},
		{"evicted and drawn here", "create pods/eviction shop/db-0", "", 201, []stay{other(-7000, 5), after(6, 9000)}, through},
		{"drawn here, and gone again", "delete pods shop/db-0", "", 200, []stay{other(-7000, 5), after(6, 90)}, through},
		{"deleted by its UID", "delete pods shop/db-0", `{"preconditions":{"uid":"other"}}`, 200, []stay{before(-2), other(-1, 9000)}, through},
		{"evicted by its UID", "create pods/eviction shop/db-0", `{"deleteOptions":{"preconditions":{"uid":"other"}}}`, 201, []stay{before(-2), other(-1, 9000)}, through},
		{"the status, by its UID", "patch pods/status shop/db-0", `{"metadata":{"uid":"other"}}`, 200, []stay{before(-2), other(-1, 9000)}, through},
		{"a third pod's UID", "patch pods/status shop/db-0", `{"metadata":{"uid":"third"}}`, 200, []stay{before(-2), other(-1, 9000)}, through},
		{"a UID in other letters", "patch pods/status shop/db-0", `{"Metadata":{"uid":"mine"}}`, 200, []stay{before(-300), other(-299, 9000)}, unclear},
		{"its own UID, and then none", "patch pods/status shop/db-0", `{"metadata":{"uid":"mine"},"metadata":{"labels":{}},"status":{}}`, 200, []stay{before(-900), other(-899, 9000)}, through},
		{"its own UID, and then nothing", "patch pods/status shop/db-0", `{"metadata":{"uid":"mine"},"metadata":null}`, 200, []stay{before(-300), other(-299, 9000)}, unclear},
		{"its own UID under a directive", "patch pods/status shop/db-0", `{"metadata":{"uid":"mine","$patch":"delete"}}`, 200, []stay{before(-300), other(-299, 9000)}, unclear},
		{"the other's UID, and nobody knows its own", "delete pods shop/db-0", `{"preconditions":{"uid":"other"}}`, 200, []stay{nameless(-3), other(-2, 9000)}, through},
		{"none was here", "patch pods/status shop/db-0", "", 200, []stay{before(-900), other(-899, 9000)}, through},

		{"its own, by the UID", "patch pods/status shop/db-0", `{"metadata":{"uid":"mine"}}`, 200, []stay{before(-300), other(-299, 9000)}, ""},
		{"its own deleted, by the UID", "delete pods shop/db-0", `{"preconditions":{"uid":"mine"}}`, 200, []stay{before(-300), other(-299, 30)}, ""},
		{"made again elsewhere just now", "delete pods shop/db-0", "", 200, []stay{before(-3), other(-2, 9000)}, ""},
		{"the status just now", "patch pods/status shop/db-0", "", 200, []stay{before(-3), other(-2, 9000)}, ""},
		{"it came just now", "patch pods/status shop/db-0", "", 200, []stay{other(-9000, 1), after(2, 9000)}, ""},
		{"no such pod", "delete pods shop/db-0", "", 404, []stay{other(-9000, 10), after(300, 9000)}, ""},

		{"minutes apart", "delete pods shop/db-0", "", 200, []stay{before(-300), other(-299, 9000)}, unclear},
		{"the status minutes apart", "patch pods/status shop/db-0", "", 200, []stay{before(-300), other(-299, 9000)}, unclear},
		{"refused, by the UID of its own of long ago", "delete pods shop/db-0", `{"preconditions":{"uid":"mine"}}`, 409, []stay{before(-2000), other(-1999, 9000)}, ""},
		{"refused, and its own was here long ago", "delete pods shop/db-0", "", 409, []stay{before(-2000), other(-1999, 9000)}, ""},
		{"refused, by the UID of the other", "delete pods shop/db-0", `{"preconditions":{"uid":"other"}}`, 409, []stay{before(-2), other(-1, 9000)}, failed},
		{"refused, by the UID of none", "delete pods shop/db-0", `{"preconditions":{"uid":"third"}}`, 409, []stay{before(-2), other(-1, 9000)}, failed},
		{"refused, and none was here", "delete pods shop/db-0", "", 409, []stay{other(-9000, 9000)}, failed},
		{"a status that is refused", "patch pods/status shop/db-0", `{"metadata":{"uid":"mine"}}`, 409, []stay{before(-2000), other(-1999, 9000)}, failed},

		{"one that lives on", "delete pods shop/db-0", "", 200, []stay{other(-9000, 290), after(300, 9000)}, unclear},
	} {
		w := &world{pods: map[string]string{"shop/db-0": "worker-2"}, stays: map[string][]stay{"shop/db-0": c.stays}}
		r := request(does(c.does), byRBAC(c.code))
		r.Event.RequestObject = []byte(c.body)
		want := strings.ReplaceAll(c.want, "%s", c.does)
		if got := check(t, rule, w, nil, r); got != want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
		if got := PassedByClock(r, w); got != (c.want != through && c.want != failed) {
			t.Errorf("%s: passed by clock is %t", c.name, got)
		}
	}
}
