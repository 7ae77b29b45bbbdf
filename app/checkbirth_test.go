package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// birthGuarded is the state of the check on a day, with the codes of what does not pass.
func birthGuarded(t *testing.T, d *days.Day, change ...func(*AnalyzeOptions)) (checks.Result, []string) {
	t.Helper()
	return resultOf(provenDay(t, d, change...), "birth-guarded")
}

// A day on which nodes joined and certificates were renewed passes; whatever is planted does not; and without the check nothing else sees that.
func TestBirthGuarded(t *testing.T) {
	clean := threeHours(t, 31, days.Options{Features: days.KubeadmJoin | days.Rotation, Minor: 36})
	untouched := provenDay(t, clean)
	if r, codes := resultOf(untouched, "birth-guarded"); r.State != checks.Passed || r.Seen == 0 {
		t.Fatalf("a clean day: %s, %q", r.State, codes)
	}
	want := map[string]checks.State{"birth-unread": checks.Unproven, "birth-before-join": checks.Unproven}
	before, planted := notPassing(untouched), 0
	for _, m := range days.Mutations(4) {
		if !slices.Contains(m.Confined, "birth-guarded") {
			continue
		}
		planted++
		bad, ok := m.Apply(clean)
		if !ok {
			t.Errorf("%s does not apply", m.Name)
			continue
		}
		expected := checks.Failed
		if s, is := want[m.Name]; is {
			expected = s
		}
		results := provenDay(t, bad)
		alone := slices.DeleteFunc(notPassing(results), func(name string) bool { return slices.Contains(before, name) })
		if r, codes := resultOf(results, "birth-guarded"); r.State != expected {
			t.Errorf("%s: %s, %q", m.Name, r.State, codes)
		}
		if !slices.Contains(alone, "birth-guarded") {
			t.Errorf("%s: %q stop passing", m.Name, alone)
		}
	}
	if planted < 5 {
		t.Errorf("%d mutations", planted)
	}

	f := func(name string, state checks.State, code checks.Code, d *days.Day, change ...func(*AnalyzeOptions)) {
		t.Helper()
		r, codes := birthGuarded(t, d, change...)
		if r.State != state || !slices.Contains(codes, string(code)) {
			t.Errorf("%s: %s, %q", name, r.State, codes)
		}
	}
	f("no policy", checks.Unproven, checks.CodeBirthsNotLogged, clean, func(o *AnalyzeOptions) { o.Policy = nil })
	f("a rule is off", checks.Unproven, checks.CodeRuleOff, clean, func(o *AnalyzeOptions) { o.Disable = []string{rules.BootstrapTokenMisuse} })
	bare := *clean
	bare.Events = slices.DeleteFunc(slices.Clone(clean.Events), func(e *days.Event) bool { return e.Ref != nil && e.Ref.Resource == "certificatesigningrequests" })
	f("kops or EKS: no requests", checks.Unproven, checks.CodeNoBirth, &bare)
	one := *clean
	first := ""
	one.Events = slices.DeleteFunc(slices.Clone(clean.Events), func(e *days.Event) bool {
		if e.Ref == nil || e.Ref.Resource != "certificatesigningrequests" || e.IsNode() {
			return false
		}
		if first == "" && e.Verb == "create" {
			first = e.Ref.Name
		}
		return e.Ref.Name == first
	})
	unapproved := *clean
	unapproved.Events = slices.DeleteFunc(slices.Clone(clean.Events), func(e *days.Event) bool {
		return e.Ref != nil && e.Ref.Resource == "certificatesigningrequests" && e.Ref.Subresource == "approval"
	})
	f("no approvals", checks.Unproven, checks.CodeBirthUnapproved, &unapproved)
	f("a node that joined without a request", checks.Unproven, checks.CodeBirthOutside, &one)
}

// Of what the rules find of births nothing passes as harmless: what is grave decides, and what the log may not show enough of is in doubt.
func TestBirthReasons(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	births := newBirthBook()
	births.hours[evidence.HourOf(at)] = &birthHour{Read: 3, Nodes: []string{"worker-1"}}
	f := func(rule string, reason rules.Reason, severity rules.Severity) (wrong, doubt bool) {
		key := tally.Key{Rule: rule, Node: "worker-1", Reason: reason}
		p := proof{births: births, to: at.Add(time.Minute), facts: &report.Facts{}, tally: &tally.Tally{Groups: map[tally.Key]*tally.Group{
			key: {Reason: reason, Severity: severity, Count: 1, First: at, Last: at},
		}}}
		in := &checks.Input{Options: checks.Options{MinWindow: time.Hour}}
		p.birthFindings(in)
		is := func(code checks.Code) func(checks.Item) bool {
			return func(i checks.Item) bool { return i.Code == code && i.Value == string(reason) && i.Node == "worker-1" }
		}
		return slices.ContainsFunc(in.Births.Wrong, is(checks.CodeBirthWrong)), slices.ContainsFunc(in.Births.NotKnown, is(checks.CodeBirthDoubtful))
	}
	for _, r := range rules.All() {
		ours := r.Name == rules.BootstrapImpersonation || r.Name == rules.BootstrapTokenMisuse
		for _, doc := range r.Reasons {
			low := slices.Contains([]rules.Reason{
				rules.KnownNodeAgain, rules.SecondAsked, rules.SecondApproved, rules.ApproverUnclear, rules.CertificateNoBirth,
				rules.NodeMadeElsewhere,
			}, doc.Reason)
			for _, severity := range []rules.Severity{rules.Low, rules.Medium, rules.High, rules.Critical} {
				wrong, doubt := f(r.Name, doc.Reason, severity)
				if wrong != (ours && severity >= rules.High) || doubt != (ours && (severity == rules.Medium || severity == rules.Low && low)) {
					t.Errorf("%s, %s, %s: wrong %t, in doubt %t", r.Name, doc.Reason, severity, wrong, doubt)
				}
			}
		}
	}
}

// What was not read is in doubt, and so is each Node that came in the window for which nobody requested a certificate, in it or in the hour before.
func TestBirthsByHour(t *testing.T) {
	to := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	first := evidence.HourOf(to.Add(-3 * time.Hour))
	node := func(name string, from time.Time) checks.Node {
		return checks.Node{Name: name, Lives: []checks.Span{{From: from}}}
	}
	virtual := node("virtual", to.Add(-time.Hour))
	virtual.Virtual = true
	for _, c := range []struct {
		name  string
		hours map[evidence.Hour]*birthHour
		nodes []checks.Node
		want  []checks.Code
	}{
		{"none", nil, nil, []checks.Code{checks.CodeNoBirth}},
		{"read", map[evidence.Hour]*birthHour{first: {Read: 3, Nodes: []string{"a"}}}, nil, nil},
		{"not read", map[evidence.Hour]*birthHour{first + 2: {Read: 3, Unread: 1, Nodes: []string{"a"}}}, nil, []checks.Code{checks.CodeBirthUnread}},
		{"not read before", map[evidence.Hour]*birthHour{first - 1: {Unread: 1, Nodes: []string{"a"}}}, nil, nil},
		{"requested before", map[evidence.Hour]*birthHour{first - 1: {Nodes: []string{"a"}, before: []string{"a"}}}, []checks.Node{node("a", to.Add(-170*time.Minute))}, nil},
		{"approved long before", map[evidence.Hour]*birthHour{first - 9: {Approved: []string{"csr"}}, first: {Signed: []string{"csr"}, Nodes: []string{"a"}}}, nil, nil},
		{"not approved", map[evidence.Hour]*birthHour{first: {Signed: []string{"csr"}, Nodes: []string{"a"}}}, nil, []checks.Code{checks.CodeBirthUnapproved}},
		{"of another", map[evidence.Hour]*birthHour{first: {Nodes: []string{"a"}}}, []checks.Node{node("b", to.Add(-time.Hour))}, []checks.Code{checks.CodeBirthOutside}},
		{"of one from before", map[evidence.Hour]*birthHour{first: {Nodes: []string{"a"}}}, []checks.Node{node("b", to.Add(-4*time.Hour))}, nil},
		{"of one from later", map[evidence.Hour]*birthHour{first: {Nodes: []string{"a"}}}, []checks.Node{node("b", to.Add(time.Hour))}, nil},
		{"of a virtual one", map[evidence.Hour]*birthHour{first: {Nodes: []string{"a"}}}, []checks.Node{virtual}, nil},
	} {
		p, out := proof{births: &birthBook{hours: c.hours}, tally: &tally.Tally{}, to: to}, checks.Findings{}
		p.birthsByHour(&checks.Input{Options: checks.Options{MinWindow: 3 * time.Hour}, Nodes: c.nodes}, &out)
		var got []checks.Code
		for i := range out.NotKnown {
			got = append(got, out.NotKnown[i].Code)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// notPassing are the checks that do not pass.
func notPassing(results []checks.Result) (out []string) {
	for i := range results {
		if results[i].State != checks.Passed {
			out = append(out, results[i].Check)
		}
	}
	return out
}

// What is stored by several analyzers is what one of them would have seen.
func TestBirthBookStored(t *testing.T) {
	ev := &audit.Event{Verb: "create", ObjectRef: audit.ObjectRef{Resource: "certificatesigningrequests", APIGroup: "certificates.k8s.io"}, RequestReceived: time.Unix(1, 0)}
	stored := map[string]tally.Remembered{}
	for n := range 3 {
		b := newBirthBook()
		for range n + 1 {
			b.add(&pipeline.Judgement{Request: rules.Request{Event: ev, Time: time.Unix(int64(3600*n), 0), Allowed: true}})
			for _, r := range b.changes(fmt.Sprint("book ", n)) {
				stored[r.Key] = r
			}
		}
		if again := b.changes("x"); len(again) > 0 {
			t.Errorf("nothing changed: %v", again)
		}
	}
	var all []tally.Remembered
	for _, r := range stored {
		all = append(all, r)
	}
	one := newBirthBook()
	x := one.hour(time.Unix(0, 0))
	x.Asked, x.Issued, x.Made, x.Nodes = []birthAsk{{Key: "k"}}, []birthIssue{{ID: "1"}}, []birthMade{{Node: "a"}}, []string{"a"}
	all = append(all, one.changes("book 9")...)
	all = append(all, tally.Remembered{Key: "1 old", Value: []byte(`{"nodes":["b"]}`)})
	b := birthsOf(append(all, tally.Remembered{Key: "x"}, tally.Remembered{Key: "7 a", Value: []byte("x")}))
	if x := b.hours[0]; len(x.Asked) != 1 || len(x.Issued) != 1 || len(x.Made) != 1 || len(x.before) != 0 {
		t.Errorf("got %+v", x)
	}
	if x := b.hours[1]; !slices.Equal(x.before, []string{"b"}) {
		t.Errorf("of a program that kept less: %+v", x)
	}
	for n := range 3 {
		if x := b.hours[evidence.Hour(n)]; x == nil || x.Unread != int64(n+1) || x.Read != 0 {
			t.Errorf("hour %d: %+v", n, x)
		}
	}
}
