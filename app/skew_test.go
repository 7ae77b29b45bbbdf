package app

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

// TestSkewAuto holds the report of the capture with the skew that is measured in it against that with a second.
func TestSkewAuto(t *testing.T) {
	analyzed := func(a Authorization) *report.Report {
		t.Helper()
		res, err := Analyze(t.Context(), AnalyzeOptions{Authorization: a, Input: Input{Logs: []string{capture + "/audit.log.gz"}, State: []string{capture + "/journal.jsonl.gz"}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Report
	}
	races := func(r *report.Report) float64 {
		return float64(r.Verdicts.Races.Allow+r.Verdicts.Races.Deny) / float64(r.Verdicts.Allow+r.Verdicts.Deny+r.Verdicts.Unknown)
	}
	wide, r := analyzed(Authorization{Skew: time.Second}), analyzed(Authorization{SkewAuto: true})
	g, s := &r.Agreement, r.Authorization.Skew
	if s == nil || s.Milliseconds < 50 || s.Milliseconds > 150 || s.Milliseconds%50 != 0 || s.Objects < 3 {
		t.Fatalf("skew %+v", s)
	}
	t.Logf("%s; races %.3f and with a second %.3f, agreement %+v and with a second %+v", s.Words(), races(r), races(wide), g.Compared, wide.Agreement.Compared)
	if g.Agree != g.Compared || wide.Agreement.Agree != wide.Agreement.Compared || g.Compared <= wide.Agreement.Compared {
		t.Errorf("outside races %d of %d agree, and %d of %d with a second", g.Agree, g.Compared, wide.Agreement.Agree, wide.Agreement.Compared)
	}
	if all := g.Compared + g.Races.Compared; all != wide.Agreement.Compared+wide.Agreement.Races.Compared || g.Agree+g.Races.Agree != wide.Agreement.Agree+wide.Agreement.Races.Agree {
		t.Errorf("agreement %+v, and with a second %+v", g, wide.Agreement)
	}
	if races(r) > 0.27 || races(r) >= races(wide) {
		t.Errorf("races %.3f, and with a second %.3f", races(r), races(wide))
	}
	if wide.Authorization.Skew != nil {
		t.Error("a skew that was given is said to be measured")
	}
}

// TestRaceDistances holds that the entries of a judgement bring what a skew is measured by, so that a running service reports it: the same requests
// that the meter looks at, with the same distances.
func TestRaceDistances(t *testing.T) {
	in := &Input{Logs: []string{capture + "/audit.log.gz"}, State: []string{capture + "/journal.jsonl.gz"}}
	p, err := in.prepare(&Authorization{Skew: mostSkew})
	if err != nil {
		t.Fatal(err)
	}
	m, entries := newSkewMeter(), newSkewMeter()
	_, _, err = p.run(t.Context(), func(s *judging.Setup) { s.Judge.Tallies = true }, func(j *pipeline.Judgement) error {
		m.add(j)
		if e := j.Entry; e.HasDistance {
			if a := j.Attrs; !e.Race || e.Verdict == e.Observed {
				t.Errorf("%s %s %s/%s has a distance: %+v", a.Verb, a.Resource, a.Namespace, a.Name, e)
			}
			entries.note(skewObjectOf(j), e.Distance)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal := func(a, b *time.Duration) bool { return *a == *b }
	if len(m.furthest) < 3 || !maps.EqualFunc(m.furthest, entries.furthest, equal) {
		t.Errorf("distances %v, the meter has %v", entries.furthest, m.furthest)
	}
	for o := range m.furthest {
		if strings.Contains(o.name, "XX") {
			t.Errorf("%+v is of memory that was used again", o)
		}
	}
}

// TestSkewQuantile holds how distances make a skew: one object of few decides nothing, and it stays within its bounds.
func TestSkewQuantile(t *testing.T) {
	for _, c := range []struct {
		n, far int   // objects at 20 ms, and at 730 ms
		want   int64 // ms
	}{{0, 0, 50}, {0, 1, 50}, {0, 2, 750}, {5, 0, 50}, {5, 1, 50}, {5, 2, 750}, {198, 2, 50}, {197, 3, 750}, {990, 10, 50}, {990, 12, 750}} {
		m := newSkewMeter()
		for i := range c.n + c.far {
			d := 20 * time.Millisecond
			if i >= c.n {
				d = 730 * time.Millisecond
			}
			m.note(skewObject{name: fmt.Sprint(i)}, d)
		}
		if got := m.skew(); got.Milliseconds() != c.want {
			t.Errorf("%d near and %d far: %s, want %d ms", c.n, c.far, got, c.want)
		}
	}
	m := newSkewMeter()
	m.note(skewObject{name: "a"}, 999*time.Millisecond)
	m.note(skewObject{name: "b"}, 5*time.Second)
	if got := m.skew(); got != time.Second {
		t.Errorf("%s", got)
	}
}

// TestSkewAutoReadsTwice refuses what can be read only once.
func TestSkewAutoReadsTwice(t *testing.T) {
	auto := Authorization{SkewAuto: true}
	for _, in := range []Input{{Logs: []string{"-"}}, {Logs: []string{"a"}, State: []string{"-"}}, {Logs: []string{"a"}, Loaded: cluster.NewState()}} {
		for _, err := range []error{
			(&AnalyzeOptions{Authorization: auto, Input: in}).Validate(), (&WhatIfOptions{ChangeOptions: ChangeOptions{Authorization: auto, Input: in}}).Validate(),
			(&SuggestOptions{ChangeOptions: ChangeOptions{Authorization: auto, Input: in}}).Validate(),
			(&ReachOptions{Authorization: auto, Input: in, Node: "n"}).Validate(), (&ExplainOptions{Authorization: auto, Input: in, AuditID: "a"}).Validate(),
		} {
			if !errors.Is(err, ErrSkewTwice) {
				t.Errorf("%v: %v", in.Logs, err)
			}
		}
	}
	var option *OptionError
	if err := (&ExplainOptions{Authorization: auto, Finding: "x"}).Validate(); !errors.As(err, &option) {
		t.Errorf("%v", err)
	}
}
