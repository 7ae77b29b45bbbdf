package pipeline

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// crowded is a log of eight nodes that has to be looked at as a whole: all nodes together are denied far more than usual, three come from one address, two
// swap theirs, and one certificate is used by two.
func crowded() []logLine {
	var lines []logLine
	add := func(second, node int, edit func(*audit.Event)) {
		at := epoch.Add(time.Duration(second)*time.Second + time.Duration(len(lines)%1000)*time.Millisecond)
		name := fmt.Sprintf("node-%d", node)
		from, cert := node, node
		switch {
		case second > 80*60 && node <= 3:
			from = 99
		case second > 30*60 && second < 36*60 && node == 2 && second%40 < 20:
			from = 77
		case second > 40*60 && node == 5:
			from = 6
		case second > 40*60 && node == 6:
			from = 5
		}
		if node == 7 && second > 50*60 && second%40 == 0 {
			cert = 8
		}
		ev := audit.Event{
			AuditID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(lines)), Stage: audit.StageResponseComplete, Verb: "update", HasObjectRef: true,
			RequestURI: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + name,
			ObjectRef:  audit.ObjectRef{Resource: "leases", Namespace: "kube-node-lease", Name: name, APIGroup: "coordination.k8s.io", APIVersion: "v1"},
			User: audit.User{
				Username: "system:node:" + name, Groups: []string{"system:nodes"}, CredentialID: fmt.Sprintf("X509SHA256=%064x", cert),
			},
			SourceIPs: []string{fmt.Sprintf("10.0.0.%d", from)}, UserAgent: "kubelet/v1",
			RequestReceived: at, StageTime: at.Add(time.Millisecond), Decision: "allow", Code: 200,
		}
		if edit != nil {
			edit(&ev)
		}
		lines = append(lines, logLine{events: []audit.Event{ev}, counts: audit.Counts{Read: 1}})
	}
	for second := range 100 * 60 {
		for node := 1; node <= 8; node++ {
			if (second+3*node)%20 == 0 {
				add(second, node, nil)
			}
			storm := second > 70*60 && second < 73*60 && second%2 == 0
			if search := node == 4 && second > 20*60 && second%90 == 0; storm || search {
				add(second, node, func(ev *audit.Event) {
					name := fmt.Sprintf("s-%d", second%11)
					ev.Verb, ev.RequestURI = "get", "/api/v1/namespaces/shop/secrets/"+name
					ev.ObjectRef = audit.ObjectRef{Resource: "secrets", Namespace: "shop", Name: name, APIVersion: "v1"}
					ev.Decision, ev.Code = "forbid", 403
					ev.Reason = "no relationship found between node '" + ev.User.Username[len("system:node:"):] + "' and this object"
				})
			}
		}
	}
	return lines
}

// found are the groups of what several requests show, as text.
func found(sum *tally.Tally) map[string]string {
	out := map[string]string{}
	for k, g := range sum.Groups {
		if i := slices.IndexFunc(rules.All(), func(r *rules.Rule) bool { return r.Name == k.Rule }); rules.All()[i].NewDetector != nil {
			out[fmt.Sprintf("%+v", k)] = fmt.Sprint(g.Count, g.Severity, g.Reason, g.Allowed, g.First.UTC(), g.Last.UTC())
		}
	}
	return out
}

// silence waits until one of the engines has taken in what is stored, and lets the clock run on, so that it judges that.
func (h *harness) silence(later *atomic.Int64, engines ...*Engine) {
	h.t.Helper()
	one := func(is func(o *overTime) bool) func() bool {
		return func() bool {
			yes := false
			for _, e := range engines {
				if err := e.Do(h.t.Context(), func() { yes = yes || e.over.lanes != nil && is(e.over) }); err != nil {
					h.t.Fatal(err)
				}
			}
			return yes
		}
	}
	h.until(one(func(o *overTime) bool {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		return !slices.ContainsFunc(h.store.rows, func(row tally.ObservationRow) bool {
			return !slices.ContainsFunc(o.taken, func(t takenRow) bool { return t.RowID == row.RowID })
		})
	}))
	later.Store(int64(time.Hour))
	h.until(one(func(o *overTime) bool { return o.lanes.Held() == 0 }))
}

// until waits for what must come.
func (h *harness) until(is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("it did not come")
		}
	}
}
