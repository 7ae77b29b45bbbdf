package days

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
)

// A node makes refused requests with names of 200 characters for ten minutes, a million of them with NODETRAIL_ATTACKS, as make attack sets it. The reads of
// the node itself and of the others that were allowed keep their own groups, there are few alerts, and the memory is bounded.
func TestAttack02FloodOfLongNames(t *testing.T) {
	n := effort.Of(60_000, 20_000)
	if os.Getenv("NODETRAIL_ATTACKS") != "" {
		n = 1_000_000
	}
	begin := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	all := tally.New()
	all.Bound(tally.MaxGroups)
	var found []sinks.Finding
	g := sinks.NewGrouper(sinks.GrouperOptions{MaxGroups: 20_000}, func(f []sinks.Finding) { found = append(found, f...) })
	var thefts []tally.Key
	add := func(i int, node, name string, allowed bool) {
		f := tally.Finding{
			Key:    tally.Key{Rule: "out-of-scope-secret-read", Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: name},
			Reason: rules.ReadRefused, Severity: rules.Low, Allowed: allowed,
		}
		if allowed {
			f.Reason, f.Severity = rules.ReadSucceeded, rules.Critical
			thefts = append(thefts, f.Key)
		}
		e := tally.Entry{
			Time: begin.Add(time.Duration(i) * 10 * time.Minute / time.Duration(n)), IsNode: true, Node: node, Verdict: nodeauthz.Deny, Findings: []tally.Finding{f},
		}
		binary.BigEndian.PutUint64(e.ID[:], uint64(len(thefts)*n+i))
		all.Add(&e)
		g.Add([]tally.Entry{e})
	}
	for i := range n {
		add(i, "worker-1", fmt.Sprint(strings.Repeat("x", 190), i), false)
		if i%(n/10) == n/20 {
			add(i, fmt.Sprint("worker-", 2+i%3), fmt.Sprint("db-", i), true)
			add(i, "worker-1", fmt.Sprint("root-", i), true)
		}
	}
	g.Close()
	for _, k := range thefts {
		if g := all.Groups[k]; g == nil || g.Wide || !g.Allowed || g.Count != 1 {
			t.Errorf("the read of %s by %s is in no group of its own: %+v", k.Name, k.Node, g)
		}
	}
	for _, byIncident := range []bool{false, true} {
		alerts := alerted(t, begin.Add(10*time.Minute), found, byIncident)
		text := fmt.Sprint(alerts)
		if len(alerts) > 50 || !strings.Contains(text, "root-") || !strings.Contains(text, "db-") {
			t.Errorf("by incident %t: %d alerts, which name the node's own read %t, others' %t", byIncident, len(alerts), strings.Contains(text, "root-"), strings.Contains(text, "db-"))
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 500<<20 {
		t.Errorf("%d bytes are in use", m.HeapAlloc)
	}
	runtime.KeepAlive(all)
}
