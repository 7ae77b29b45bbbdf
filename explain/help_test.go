package explain

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/test/golden"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// check holds what was written against testdata/name.
func check(t *testing.T, name string, got []byte) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", name), string(got))
}

// played is a scenario whose log was read.
type played struct {
	*Explainer
	state *cluster.State
	mode  *pipeline.Mode
	all   []judged
}

type judged struct {
	verdict scenario.Verdict
	fate    report.Fate
	hasFate bool
	*Explanation
}

// play judges a scenario as analyze does and explains each request of a node.
func play(t *testing.T, s *scenario.Scenario) *played {
	t.Helper()
	state, err := s.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	mode, err := pipeline.ParseMode(s.Flags.Mode)
	if err != nil {
		t.Fatal(err)
	}
	setup := judging.New(state, judging.Options{Features: s.Flags.Features, Skew: s.Flags.Skew, Mode: mode})
	out := &played{state: state, mode: mode}
	explainer := func() *Explainer {
		o := Options{Node: setup.Auth, Graph: state.Graph, RBAC: state.RBAC}
		if order := mode.String(); order != "" {
			o.Authorizers = strings.Split(order, ",")
		}
		return New(o)
	}
	inputs, err := file.Expand([]string{"-"}, bytes.NewReader(s.Log))
	if err != nil {
		t.Fatal(err)
	}
	logs := judging.Logs{Inputs: inputs, Bodies: s.Flags.StateFromAudit}
	_, _, err = logs.Judge(t.Context(), func() (*judging.Setup, error) { return setup, nil }, func(j *pipeline.Judgement) error {
		w := report.WhatIf{RBAC: state.RBAC, Change: state.RBAC.Change(rbac.Grant.ForNodes, nil), Mode: mode}
		one := judged{verdict: scenario.VerdictOf(j), Explanation: explainer().Event(j), hasFate: report.ConcernsNodes(j)}
		if one.hasFate {
			one.fate = w.Of(j)
		}
		out.all = append(out.all, one)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out.Explainer = explainer()
	return out
}

// parse reads a scenario without its expectations.
func parse(t *testing.T, body string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("here.txtar", []byte("A scenario of a test.\n\n"+body+"-- want --\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shop is the cluster of most tests.
func shop(t *testing.T) *played {
	t.Helper()
	text, err := os.ReadFile("testdata/shop.txt")
	if err != nil {
		t.Fatal(err)
	}
	return play(t, parse(t, string(text)))
}

// clockAt is a time of the scenarios' day.
func clockAt(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, "2026-11-21T"+s+"Z")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// ask explains a request such as "worker-1 get secrets shop/db".
func (p *played) ask(t *testing.T, text, at string) *Explanation {
	t.Helper()
	w := strings.Fields(text)
	r := Request{Node: w[0], Verb: w[1]}
	if strings.HasPrefix(w[2], "/") {
		r.Path = w[2]
		return p.Request(r.Attributes(), clockAt(t, at))
	}
	resource, sub, _ := strings.Cut(w[2], "/")
	r.Resource, r.APIGroup, _ = strings.Cut(resource, ".")
	r.Subresource = sub
	if len(w) > 3 {
		var ok bool
		if r.Namespace, r.Name, ok = strings.Cut(w[3], "/"); !ok {
			r.Namespace, r.Name = "", w[3]
		}
	}
	if len(w) > 4 {
		r.FieldSelector = w[4]
	}
	return p.Request(r.Attributes(), clockAt(t, at))
}

func written(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
