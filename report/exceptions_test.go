package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

var lastDay = time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)

func exceptionSet(t *testing.T, all ...exceptions.Exception) *exceptions.Set {
	t.Helper()
	for i := range all {
		all[i].Owner, all[i].Reason, all[i].Expires = "team-network", "it moves in January", lastDay
	}
	s, err := exceptions.New(all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// captureTally is what a capture adds up to.
func captureTally(t *testing.T) *tally.Tally {
	t.Helper()
	b := NewBuilder()
	c := captured.Open(t, "capture", "auto")
	c.Setup.Judge.Rules = rules.All()
	c.Replay(func(j *pipeline.Judgement) { b.Add(j) })
	return b.Tally()
}

// An exception hides its findings from --fail-on, and changes nothing else of the report; when it has expired they are back, with a finding that says so.
func TestExceptions(t *testing.T) {
	counts := captureTally(t)
	plain := Make(counts, Facts{Cluster: "prod", Now: lastDay})
	set := exceptionSet(t, exceptions.Exception{Rule: rules.ExcessAccess, Match: `finding.userAgent == "calico-node"`},
		exceptions.Exception{Rule: rules.NodeIdentity, Match: `finding.node == "nobody"`})
	with := Make(counts, Facts{Cluster: "prod", Now: lastDay, Exceptions: set})

	hidden := 0
	for i := range with.Findings {
		f := &with.Findings[i]
		if f.Excepted != (f.Rule == rules.ExcessAccess && f.UserAgent == "calico-node") {
			t.Errorf("%s of %s: excepted %t", f.Rule, f.UserAgent, f.Excepted)
		}
		if f.Excepted {
			hidden++
			f.Excepted = false
		}
	}
	all, _ := plain.Failing(rules.Low)
	if n, _ := Make(counts, Facts{Now: lastDay, Exceptions: set}).Failing(rules.Low); n != all-hidden || hidden == 0 {
		t.Errorf("%d fail, want %d less %d", n, all, hidden)
	}
	if e := with.Exceptions; len(e) != 2 || e[0].Findings != hidden || e[0].Requests == 0 || e[1].Findings != 0 || !strings.Contains(e[1].Say(), "matches nothing") {
		t.Errorf("%+v", with.Exceptions)
	}
	with.Exceptions = plain.Exceptions
	var a, b bytes.Buffer
	if err := plain.WriteJSON(&a); err != nil {
		t.Fatal(err)
	}
	if err := with.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.String(), b.String()); diff != "" {
		t.Errorf("the report is another one (-without +with):\n%s", diff)
	}

	expired := Make(counts, Facts{Cluster: "prod", Now: lastDay.AddDate(0, 0, 1), Exceptions: set})
	if n, _ := expired.Failing(rules.Low); n != all+1 {
		t.Errorf("%d fail after it has expired, want all %d and one more", n, all)
	}
	told := 0
	for i := range expired.Findings {
		if f := &expired.Findings[i]; f.Rule == ExceptionExpired {
			told++
			if f.Severity != "medium" || !strings.Contains(f.Message, "team-network") || !strings.Contains(f.Message, "2026-12-31") {
				t.Errorf("%+v", f)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d findings say so: the other one matches nothing", told)
	}
	var text strings.Builder
	if err := (Text{}).Write(&text, expired); err != nil || !strings.Contains(text.String(), "expired, matches ") || !strings.Contains(text.String(), "matches nothing") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// A report against itself has nothing new, against one without a finding that finding, against one of a lower severity the worse one.
func TestBaseline(t *testing.T) {
	counts := captureTally(t)
	var file bytes.Buffer
	if err := Make(counts, Facts{}).WriteJSON(&file); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		read := func() *Report {
			before, err := ReadBaseline(bytes.NewReader(file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			return before
		}
		now, before := Make(counts, Facts{}), read()
		now.Compare(before)
		if n, _ := now.Failing(rules.Low); n != 0 || now.Baseline.New != 0 || now.Baseline.Still != len(now.Findings) || len(now.Baseline.Gone) != 0 {
			t.Fatalf("against itself %d fail: %+v", n, now.Baseline)
		}
		at := i * len(before.Findings) / 5
		missing := before.Findings[at]
		before.Findings = append(before.Findings[:at:at], before.Findings[at+1:]...)
		now = Make(counts, Facts{})
		now.Compare(before)
		if n, worst := now.Failing(rules.Low); n != 1 || worst.String() != missing.Severity || !now.Findings[at].New {
			t.Errorf("without %s of %s: %d fail", missing.Rule, missing.Node, n)
		}
		before = read()
		before.Findings[at].Severity = "none"
		extra := before.Findings[0]
		extra.Name = "gone"
		before.Findings = append(before.Findings, extra)
		now = Make(counts, Facts{})
		now.Compare(before)
		if n, _ := now.Failing(rules.Low); n != 1 || len(now.Baseline.Gone) != 1 || now.Baseline.Gone[0].Name != "gone" {
			t.Errorf("with %s of a lower severity before: %d fail, gone %+v", missing.Rule, n, now.Baseline.Gone)
		}
	}
	for _, text := range []string{"", "{}", "[]", `{"findings": []}`, `{"findings": 3}`, "findings: []"} {
		if _, err := ReadBaseline(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "not a report as JSON") || strings.Contains(err.Error(), " Go ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
