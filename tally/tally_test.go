package tally

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// random is an entry whose strings alias buf, as those of an event do.
func random(rnd *rand.Rand, buf []byte) *Entry {
	at := 0
	alias := func(format string, args ...any) string {
		n := copy(buf[at:], fmt.Sprintf(format, args...))
		s := unsafe.String(&buf[at], n)
		at += n
		return s
	}
	verdicts := []nodeauthz.Verdict{nodeauthz.Allow, nodeauthz.Deny, nodeauthz.Unknown}
	observed := []nodeauthz.Verdict{nodeauthz.Allow, nodeauthz.Deny, nodeauthz.NotNode}
	e := &Entry{
		Time: time.Unix(int64(1+rnd.IntN(1000)), 0).UTC(), IsNode: rnd.IntN(10) > 0, Node: alias("n%d", rnd.IntN(5)),
		Verdict: verdicts[rnd.IntN(3)], Observed: observed[rnd.IntN(3)], Race: rnd.IntN(3) == 0,
	}
	if e.IsNode && rnd.IntN(3) == 0 {
		e.Ambient = &AmbientKey{Binding: rbac.BindingRef{Name: alias("b%d", rnd.IntN(4))}, Verb: "get", Resource: alias("r%d", rnd.IntN(9))}
	}
	if e.IsNode && rnd.IntN(3) == 0 {
		e.Admission = &AdmissionKey{Outcome: rules.OutcomeUnknown, Missing: alias("m%d", rnd.IntN(3)), Verb: alias("v%d", rnd.IntN(3)), Resource: alias("w%d", rnd.IntN(4))}
	}
	if e.IsNode && !e.Race && e.Verdict != e.Observed && e.Verdict != nodeauthz.Unknown && e.Observed != nodeauthz.NotNode {
		e.Disagreement = &Disagreement{AuditID: alias("d%d", rnd.IntN(1000)), Node: e.Node}
	}
	for range rnd.IntN(3) {
		e.Findings = append(e.Findings, Finding{
			Key: Key{Rule: rules.ExcessAccess, Node: e.Node, Name: alias("s%d", rnd.IntN(6))}, Severity: rules.Severity(1 + rnd.IntN(4)),
			Params: codes.Params{codes.Text(codes.ParamMessage, "m")}, AuditID: alias("a%d", rnd.IntN(1000)),
		})
	}
	return e
}

// What is added may be overwritten afterwards, and sums do not depend on how entries were put together.
func TestMergeIsAdd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	whole, parts := New(), []*Tally{New(), New(), New()}
	buf := make([]byte, 1024)
	for range 2000 {
		e := random(rnd, buf)
		owned := e.Own()
		whole.Add(e)
		for i := range buf {
			buf[i] = 'X'
		}
		parts[rnd.IntN(3)].Add(&owned)
	}
	sum := New()
	for _, p := range parts {
		sum.Merge(p)
	}
	loose := cmp.Options{
		cmpopts.IgnoreUnexported(Tally{}), cmpopts.IgnoreFields(Group{}, "AuditIDs"), cmpopts.IgnoreFields(Tally{}, "Disagreements"),
	}
	if diff := cmp.Diff(whole, sum, loose); diff != "" {
		t.Errorf("-whole +merged:\n%s", diff)
	}
	for _, s := range []*Tally{whole, sum} {
		if text := fmt.Sprint(s.Ambient, s.Admission, s.Disagreements, s.Nodes); strings.Contains(text, "X") {
			t.Error("a string aliases the event's memory")
		}
	}
	if len(whole.Disagreements) == 0 || len(whole.Disagreements) != len(sum.Disagreements) || len(whole.Ambient) < 30 || len(whole.Admission) != 36 {
		t.Errorf("%d and %d disagreements, %d of any authenticated user", len(whole.Disagreements), len(sum.Disagreements), len(whole.Ambient))
	}
}

// Names without end take bounded memory, and nothing is lost from the counts.
func TestBounds(t *testing.T) {
	s := New()
	s.Bound(100)
	const n = 3000
	for i := range n {
		node := fmt.Sprintf("n%d", i)
		s.Add(&Entry{
			IsNode: true, Node: node, Verdict: nodeauthz.Deny, Observed: nodeauthz.Allow, Disagreement: &Disagreement{},
			Ambient:  &AmbientKey{Resource: node},
			Findings: []Finding{{Key: Key{Rule: rules.ExcessAccess, Node: node, Name: strings.Repeat("x", 1<<12)}, Severity: rules.High, Params: codes.Params{codes.Text(codes.ParamMessage, "m")}}},
		})
	}
	requests, findings, ambient := int64(0), int64(0), int64(0)
	for _, c := range s.Nodes {
		requests += c.Requests
	}
	for k, g := range s.Groups {
		findings += g.Count
		if len(k.Name) > MaxText {
			t.Errorf("a name of %d bytes", len(k.Name))
		}
	}
	for _, c := range s.Ambient {
		ambient += c
	}
	if requests != n || findings != n || ambient != n || s.Sums.DisagreeMore+int64(len(s.Disagreements)) != n {
		t.Errorf("%d requests, %d findings, %d of any authenticated user, %d+%d disagreements", requests, findings, ambient, len(s.Disagreements), s.Sums.DisagreeMore)
	}
	if len(s.Nodes) > 101 || len(s.Groups) > 202 || len(s.Ambient) > MaxAmbient {
		t.Errorf("%d nodes, %d groups, %d of any authenticated user", len(s.Nodes), len(s.Groups), len(s.Ambient))
	}
}

func TestIDOf(t *testing.T) {
	const uuid = "01234567-89ab-cdef-0123-456789abcdef"
	if IDOf(uuid) != IDOf([]byte(uuid)) {
		t.Error("text and bytes differ")
	}
	seen := map[ID]string{}
	for _, s := range []string{uuid, strings.ToUpper(uuid), "", "x", uuid + "0", strings.ReplaceAll(uuid, "-", ""), strings.Replace(uuid, "0", "g", 1)} {
		if other, twice := seen[IDOf(s)]; twice {
			t.Errorf("%q and %q are one", s, other)
		}
		seen[IDOf(s)] = s
	}
}

// The trend is of what is not low, by the day, whether it comes one by one or by the hour from a store.
func TestTrend(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	excess, other := Key{Rule: rules.ExcessAccess}, Key{Rule: "other"}
	add := func(to *Tally, k Key, at time.Time, s rules.Severity) {
		to.Add(&Entry{Time: at, Findings: []Finding{{Key: k, Severity: s}}})
	}
	one, two := New(), New()
	for i, at := range []time.Time{day, day.Add(23 * time.Hour), day.Add(-time.Second), day.Add(24 * time.Hour)} {
		to := one
		if i > 1 {
			to = two
		}
		add(to, excess, at, rules.High)
		add(to, excess, at, rules.Low)
		add(to, other, at, rules.High)
	}
	one.Merge(two)
	one.MergeGroup(excess, &Group{Count: 5, Low: 2, First: day, Last: day})
	d := DayOf(day)
	if diff := cmp.Diff([]Day{{d - 1, 1}, {d, 5}, {d + 1, 1}}, one.Groups[excess].Days); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if one.Groups[other].Days != nil {
		t.Error("another rule has a trend")
	}
	for i := range int64(MaxDays + 5) {
		one.Groups[excess].onDay(d+i, 1)
	}
	if got := one.Groups[excess].Days; len(got) != MaxDays || got[0].Day != d+5 {
		t.Errorf("%d days from %d on", len(got), got[0].Day-d)
	}
	if DayOf(time.Unix(-1, 0)) != -1 || DayOf(time.Unix(0, 0)) != 0 {
		t.Error("days before 1970")
	}
}
