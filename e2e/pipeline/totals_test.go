package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/trail"
)

// overTime are the rules that look at many requests together, whenever they come: run looks at each minute when it is over by the clock of the log in
// its own partitions, analyze in the log's order and at its end. So what they find may differ, and is not compared.
var overTime = []string{"node-deny-spike", "persistent-node-deny", "secret-enumeration", "audit-coverage-gap"}

// totals are the numbers of a report by what they count, all that have to be equal.
func totals(r *trail.Report) map[string]int64 {
	all := map[string]int64{
		"judged": r.Events.Judged, "allow": r.Verdicts.Allow, "deny": r.Verdicts.Deny, "unknown": r.Verdicts.Unknown,
		"races, allow": r.Verdicts.Races.Allow, "races, deny": r.Verdicts.Races.Deny,
		"compared": r.Agreement.Compared, "agree": r.Agreement.Agree, "disagreements": int64(len(r.Agreement.Disagree)) + r.Agreement.DisagreeMore,
		"races compared": r.Agreement.Races.Compared, "races agree": r.Agreement.Races.Agree,
		"reasons compared": r.Agreement.Reasons.Compared, "reasons equal": r.Agreement.Reasons.Equal,
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		all["requests of "+n.Name], all["denials of "+n.Name], all["needs RBAC, of "+n.Name] = n.Requests, n.Deny, n.Excess
	}
	for i := range r.Ambient {
		a := &r.Ambient[i]
		all[fmt.Sprintf("access of any authenticated user by %v, %s %s", a.Binding, a.Verb, a.Resource)] += a.Count
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if slices.Contains(overTime, f.Rule) {
			continue
		}
		what := strings.Join([]string{"findings of", f.Rule, f.Severity, f.Node, f.Verb, f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name, f.UserAgent,
			fmt.Sprint(f.Allowed), f.Message}, " ")
		if f.Binding != nil {
			what += fmt.Sprint(" ", *f.Binding)
		}
		all[what] += f.Count
		all["first and last of "+what] += f.First.UnixMicro() + f.Last.UnixMicro()
	}
	return all
}

// compare holds the store's report against analyze's and returns how many totals are equal.
func compare(t *testing.T, analyze, store *trail.Report) int {
	t.Helper()
	want, got := totals(analyze), totals(store)
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	equal, shown := 0, 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if want[key] == got[key] {
			equal++
			continue
		}
		if shown++; shown <= 30 {
			t.Errorf("%s: analyze has %d, the store %d", strings.ToValidUTF8(key, "?"), want[key], got[key])
		}
	}
	if shown > 30 {
		t.Errorf("and %d more", shown-30)
	}
	return equal
}

// overTimeCounts counts the findings that are not compared, in both.
func overTimeCounts(analyze, store *trail.Report) map[string][2]int64 {
	all := map[string][2]int64{}
	for _, rule := range overTime {
		all[rule] = [2]int64{countOf(analyze, rule), countOf(store, rule)}
	}
	return all
}

func countOf(r *trail.Report, rule string) int64 {
	n := int64(0)
	for i := range r.Findings {
		if r.Findings[i].Rule == rule {
			n += r.Findings[i].Count
		}
	}
	return n
}
