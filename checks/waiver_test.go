package checks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

var today = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func waiver(check string, s Scope) Waiver {
	return Waiver{Check: check, Scope: s, Owner: "platform", Reason: "known", Expires: today.AddDate(0, 0, 1)}
}

// For each case that is unproven and that somebody can answer for, the waivers that are printed make it waived, and the answer says how many there are; a
// check that failed stays failed.
func TestPrintedWaiversCoverWhatIsUnproven(t *testing.T) {
	for i, c := range cases() {
		if i%effort.Of(1, 4) != 0 {
			continue
		}
		in := clean()
		c.change(in)
		before := Run(in)
		text, err := WaiverText(WaiversFor(before, "platform", "known", today.AddDate(0, 0, 1)))
		if err != nil {
			t.Fatal(err)
		}
		waivers, err := ParseWaivers([]byte(text))
		if err != nil {
			t.Fatalf("%s, %s: %v:\n%s", c.check, c.name, err, text)
		}
		after, applied := Apply(before, waivers, today)
		for _, a := range applied {
			if len(a.Covers) == 0 {
				t.Errorf("%s, %s: a waiver covers nothing: %+v", c.check, c.name, a.Waiver)
			}
		}
		for i := range after {
			want := before[i].State
			if want == Unproven && !slices.ContainsFunc(before[i].Evidence, func(x Item) bool { return x.State == Unproven && !x.waivable() }) {
				want = Waived
			}
			if after[i].State != want {
				t.Errorf("%s, %s: %s is %s, want %s: %+v with %s", c.check, c.name, after[i].Check, after[i].State, want, after[i].Evidence, text)
			}
		}
		if check, base := betterThanItsBase(after); check != "" {
			t.Errorf("%s, %s: %s is settled and rests on %s, which is not", c.check, c.name, check, base)
		}
		if v := Conclude(Ready, after, applied); len(waivers) > 0 && v.Answer == AnswerReadyWaived && (v.Waivers == 0 || v.Good(false)) {
			t.Errorf("%s, %s: %+v", c.check, c.name, v)
		}
	}
}

// betterThanItsBase names a check that is passed or waived, and one that it rests on that is neither.
func betterThanItsBase(results []Result) (check, base string) {
	open := func(name string) bool { s := StateIn(results, name); return s != Passed && s != Waived }
	for _, c := range All() {
		for _, b := range c.RestsOn {
			if open(b) && !open(c.Name) {
				return c.Name, b
			}
		}
	}
	return "", ""
}

// A waiver of a check that rests on others covers nothing of what nobody can answer for in those.
//
// Seen to fail where the failure of agreement was one more unproven item of no-excess-use, with a waiver to paste.
func TestNoWaiverCoversWhatRestsOnAFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		of   Result
		want State
	}{
		{"passed", Result{State: Passed, Evidence: []Item{{State: Passed}}}, Passed},
		{"unproven", Result{Evidence: []Item{{Code: "x"}, {State: Passed}}}, Waived},
		{"unproven, of a node", Result{Evidence: []Item{{Code: "x", Node: "n"}}}, Waived},
		{"failed", Result{State: Failed, Evidence: []Item{{State: Failed, Code: "x"}}}, Unproven},
		{"failed and unproven", Result{State: Failed, Evidence: []Item{{State: Failed, Code: "x"}, {Code: "y"}}}, Unproven},
		{"failed by an item alone", Result{Evidence: []Item{{State: Failed, Code: "x"}}}, Unproven},
		{"failed without an item", Result{State: Failed}, Unproven},
		{"nothing was seen", Result{Evidence: []Item{{Code: "x"}, {Code: CodeNothingSeen}}}, Unproven},
		{"no log", Result{Evidence: []Item{{Code: CodeNoLog}}}, Unproven},
		{"without an item", Result{}, Unproven},
		{"rests on a failure", Result{Evidence: []Item{{Code: CodeRestsOnUnwaivable}}}, Unproven},
	} {
		c.of.Check = "base"
		all := []Result{c.of, {Check: "no-excess-use", State: Passed}}
		all[1].restOn([]string{"base"}, all)
		after, _ := Apply(all, []Waiver{waiver("no-excess-use", Scope{})}, today)
		printed := slices.ContainsFunc(WaiversFor(all, "a", "b", today), func(w Waiver) bool { return w.Check == "no-excess-use" })
		if after[1].State != c.want || printed != (c.want == Waived) {
			t.Errorf("%s: %s, want %s; a waiver is printed: %t", c.name, after[1].State, c.want, printed)
		}
	}
	in := clean()
	in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Request: "get secrets", Object: "shop/db", AuditID: "x", At: at(14, 0, 0)}}
	results := Run(in)
	after, applied := Apply(results, append(WaiversFor(results, "a", "b", today), waiver("no-excess-use", Scope{})), today)
	if v := Conclude(Confined, after, applied); v.Answer != AnswerNotEnough || !slices.Equal(v.Unproven, []string{"no-excess-use"}) || len(WaiversFor(results, "a", "b", today)) > 0 {
		t.Errorf("%+v", v)
	}
}

func TestApply(t *testing.T) {
	hours := func(from, to int) *Hours { return &Hours{at(from, 0, 0), at(to, 0, 0)} }
	items := func() []Item {
		return []Item{
			{Code: "a", Node: "n1", Request: "watch pods", From: at(13, 0, 0), To: at(16, 0, 0)},
			{Code: "b", Server: "s1", Line: "f:1"},
			{Code: "c"},
			{Code: "d", State: Passed},
		}
	}
	for name, c := range map[string]struct {
		w    Scope
		want []string // the items in the end, with their hours
	}{
		"nothing":              {Scope{}, []string{"a unproven 13-16", "b unproven", "c waived", "d passed"}},
		"a node":               {Scope{Nodes: []string{"n0", "n1"}}, []string{"a waived 13-16", "b unproven", "c unproven", "d passed"}},
		"another node":         {Scope{Nodes: []string{"n2"}}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
		"a node's request":     {Scope{Nodes: []string{"n1"}, Requests: []string{"watch pods"}}, []string{"a waived 13-16", "b unproven", "c unproven", "d passed"}},
		"a node's other":       {Scope{Nodes: []string{"n1"}, Requests: []string{"get pods"}}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
		"a server":             {Scope{Servers: []string{"s1"}}, []string{"a unproven 13-16", "b waived", "c unproven", "d passed"}},
		"a line":               {Scope{Lines: []string{"f:1"}}, []string{"a unproven 13-16", "b waived", "c unproven", "d passed"}},
		"another line":         {Scope{Lines: []string{"f:10"}}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
		"hours":                {Scope{Hours: hours(13, 16)}, []string{"a waived 13-16", "b unproven", "c unproven", "d passed"}},
		"more hours":           {Scope{Hours: hours(0, 23)}, []string{"a waived 13-16", "b unproven", "c unproven", "d passed"}},
		"the first hour":       {Scope{Hours: hours(12, 14)}, []string{"a waived 13-14", "a unproven 14-16", "b unproven", "c unproven", "d passed"}},
		"the last hour":        {Scope{Hours: hours(15, 17)}, []string{"a waived 15-16", "a unproven 13-15", "b unproven", "c unproven", "d passed"}},
		"the hour between":     {Scope{Hours: hours(14, 15)}, []string{"a waived 14-15", "a unproven 13-14", "a unproven 15-16", "b unproven", "c unproven", "d passed"}},
		"hours before":         {Scope{Hours: hours(10, 13)}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
		"hours after":          {Scope{Hours: hours(16, 17)}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
		"a node's hours":       {Scope{Nodes: []string{"n1"}, Hours: hours(13, 16)}, []string{"a waived 13-16", "b unproven", "c unproven", "d passed"}},
		"another node's hours": {Scope{Nodes: []string{"n2"}, Hours: hours(13, 16)}, []string{"a unproven 13-16", "b unproven", "c unproven", "d passed"}},
	} {
		before := []Result{{Check: "reads-logged", Evidence: items(), Next: Next{Code: "x"}}, {Check: "rules-on", Evidence: items()}}
		after, applied := Apply(before, []Waiver{waiver("reads-logged", c.w)}, today)
		var got []string
		covers := 0
		for _, x := range after[0].Evidence {
			s := fmt.Sprintf("%s %s", x.Code, x.State)
			if !x.From.IsZero() {
				s += fmt.Sprintf(" %d-%d", x.From.Hour(), x.To.Hour())
			}
			if x.State == Waived {
				covers++
			}
			got = append(got, s)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if after[0].State != Unproven || after[0].Next.Code == "" || len(applied[0].Covers) != covers {
			t.Errorf("%s: %s, next %q, covers %+v", name, after[0].State, after[0].Next.Code, applied[0].Covers)
		}
		if diff := cmp.Diff(items(), before[0].Evidence); diff != "" {
			t.Errorf("%s changed what it was given:\n%s", name, diff)
		}
		if diff := cmp.Diff(items(), after[1].Evidence); diff != "" {
			t.Errorf("%s changed another check:\n%s", name, diff)
		}
	}
}

// Only what is unproven can be waived, by a waiver that is not expired, and together several cover what none does alone.
func TestWhatAWaiverCannotDo(t *testing.T) {
	failed := []Result{{Check: "agreement", State: Failed, Evidence: []Item{{State: Failed, Code: "x"}, {Code: "y"}}}}
	after, applied := Apply(failed, []Waiver{waiver("agreement", Scope{})}, today)
	if after[0].State != Failed || after[0].Evidence[0].State != Failed || len(applied[0].Covers) != 1 {
		t.Errorf("%+v, %+v", after, applied)
	}
	bare := []Result{{Check: "agreement"}}
	if after, _ := Apply(bare, []Waiver{waiver("agreement", Scope{})}, today); after[0].State != Unproven {
		t.Error("a result without items is waived")
	}
	unproven := func() []Result {
		return []Result{{Check: "agreement", Evidence: []Item{{Code: "y", From: at(13, 0, 0), To: at(15, 0, 0)}}, Next: Next{Code: "n"}}}
	}
	one, two := waiver("agreement", Scope{Hours: &Hours{at(13, 0, 0), at(14, 0, 0)}}), waiver("agreement", Scope{Hours: &Hours{at(14, 0, 0), at(15, 0, 0)}})
	after, applied = Apply(unproven(), []Waiver{one, two}, today)
	if after[0].State != Waived || after[0].Next.Code != "" || len(applied[0].Covers) != 1 || len(applied[1].Covers) != 1 {
		t.Errorf("%+v, %+v", after, applied)
	}
	two.Expires = today.AddDate(0, 0, -1)
	after, applied = Apply(unproven(), []Waiver{one, two}, today)
	if after[0].State != Unproven || !applied[1].Expired || applied[1].Covers != nil {
		t.Errorf("an expired waiver: %+v, %+v", after, applied)
	}
	two.Expires = today.Truncate(24 * time.Hour)
	if two.Expired(today) || two.Expired(two.Expires.Add(24*time.Hour-1)) || !two.Expired(two.Expires.Add(24*time.Hour)) {
		t.Error("it does not hold until the end of its last day")
	}
	for _, code := range []Code{CodeNoLog, CodeNothingSeen, CodeNotLookedAt} {
		if after, _ := Apply([]Result{{Check: "agreement", Evidence: []Item{{Code: code}}}}, []Waiver{waiver("agreement", Scope{})}, today); after[0].State != Unproven {
			t.Errorf("%s is waived", code)
		}
	}
}

func TestParseWaivers(t *testing.T) {
	got, err := ParseWaivers([]byte(waiverExample))
	if err != nil || len(got) != 1 || got[0].Check != "reads-logged" || got[0].Scope.Hours.From.Hour() != 14 || got[0].Expires.Year() != 2026 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseWaivers(nil); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	const good = "waivers:\n- {check: agreement, owner: a, reason: b, expires: 2026-12-31}\n"
	for name, c := range map[string]struct{ text, want string }{
		"an unknown key":   {strings.Replace(good, "owner", "ownr", 1), "ownr"},
		"an unknown scope": {strings.Replace(good, "owner", "scope: {node: a}, owner", 1), "node"},
		"an unknown check": {strings.Replace(good, "agreement", "agreements", 1), `line 2: waiver 1: there is no check "agreements"`},
		"no owner":         {strings.Replace(good, "owner: a,", "", 1), "waiver 1: it has no owner"},
		"no reason":        {strings.Replace(good, "reason: b,", "", 1), "waiver 1: it has no reason"},
		"no date":          {strings.Replace(good, ", expires: 2026-12-31", "", 1), "waiver 1: it has no expiry date (expires)"},
		"no real date":     {strings.Replace(good, "2026-12-31", "soon", 1), "soon"},
		"the second":       {good + strings.Replace(strings.TrimPrefix(good, "waivers:\n"), "owner: a, ", "\n  ", 1), "line 3: waiver 2: it has no owner"},
		"no hours":         {strings.Replace(good, "owner", "scope: {hours: {from: 2026-01-01T10:00:00Z, to: 2026-01-01T10:00:00Z}}, owner", 1), "its hours end before they begin"},
		"two documents":    {good + "---\n" + good, "more than one document"},
		"a key twice":      {strings.Replace(good, "owner: a", "owner: a, owner: b", 1), "already"},
		"too many":         {"waivers:\n" + strings.Repeat("- {check: agreement, owner: a, reason: b, expires: 2026-12-31}\n", MaxWaivers+1), "more than 1000"},
		"too long":         {strings.Repeat("#", MaxWaiverBytes+1), "more than 1048576 bytes"},
		"no list":          {"waivers: 7\n", "line 1: waivers is not a list"},
	} {
		if _, err := ParseWaivers([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseWaivers(f *testing.F) {
	f.Add([]byte(waiverExample))
	f.Add([]byte("waivers:\n- {check: agreement, owner: a, reason: b, expires: 2026-12-31}\n---\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		waivers, err := ParseWaivers(b)
		if err != nil {
			return
		}
		text, err := WaiverText(waivers)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseWaivers([]byte(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		in := clean()
		in.Ledger = nil
		one, _ := Apply(Run(in), waivers, today)
		two, _ := Apply(Run(in), again, today)
		if a, b := Conclude(Ready, one, nil), Conclude(Ready, two, nil); a.Answer != b.Answer || a.Good(true) {
			t.Errorf("%q, and read again %q", a.Answer, b.Answer)
		}
	})
}
