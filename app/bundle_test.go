package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

// TestVerdictsOfABundle judges the capture by the objects that were left at its end, as a backup has them: an answer is the journal's, a race, or unknown. And
// nobody may delete a binding by that.
func TestVerdictsOfABundle(t *testing.T) {
	type answer struct {
		verdict nodeauthz.Verdict
		race    bool
		request string
	}
	answers := func(state string) map[string]answer {
		t.Helper()
		in := &Input{Logs: []string{capture + "/audit.log.gz"}, State: []string{state}}
		p, err := in.prepare(&Authorization{Skew: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]answer{}
		_, _, err = p.run(t.Context(), func(*judging.Setup) {}, func(j *pipeline.Judgement) error {
			if j.IsNode {
				out[strings.Clone(j.Event.AuditID)] = answer{j.Answer.Verdict, j.Answer.Race, fmt.Sprint(j.Time, j.Node, j.Attrs.Verb, j.Attrs.Resource, j.Attrs.Subresource, j.Attrs.Namespace, j.Attrs.Name, " ", j.Reason(), j.Detail())}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	left := filepath.Join(t.TempDir(), "left.json")
	if err := os.WriteFile(left, []byte(strings.Join(leftOver(t, capture+"/journal.jsonl.gz"), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	want, got := answers(capture+"/journal.jsonl.gz"), answers(left)
	known := 0
	for id, w := range want {
		g := got[id]
		if g.verdict != nodeauthz.Unknown {
			known++
		}
		if g.verdict != w.verdict && g.verdict != nodeauthz.Unknown && w.verdict != nodeauthz.Unknown && !g.race && !w.race {
			t.Errorf("%s: %+v, by the journal %+v", id, g, w)
		}
	}
	if len(got) != len(want) || known < len(want)/2 {
		t.Errorf("%d of %d are known, %d by the journal", known, len(got), len(want))
	}
	res, err := Analyze(t.Context(), AnalyzeOptions{Input: Input{Logs: []string{capture + "/audit.log.gz"}, State: []string{left}}})
	if err != nil {
		t.Fatal(err)
	}
	partial := func(h report.Hole) bool { return h.Code == codes.KindPartial && h.Kind == codes.State }
	if r := &res.Report.Readiness; r.Ready || !slices.ContainsFunc(r.Holes, partial) {
		t.Errorf("%s: %+v", r.Verdict, r.Holes)
	}
	for _, c := range res.Report.Readiness.Checks {
		if c.Name == "state-complete" && c.State == checks.Passed.String() {
			t.Errorf("%+v", c)
		}
	}
}

// leftOver are the objects of a journal that were not deleted.
func leftOver(t *testing.T, journal string) []string {
	t.Helper()
	alive := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(gunzipped(t, journal))); d.More(); {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Object, &o); err != nil || o.Metadata.Name == "" || e.Type == "BOOKMARK" {
			continue
		}
		key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
		if alive[key] = string(e.Object); e.Type == "DELETED" {
			delete(alive, key)
		}
	}
	return slices.Sorted(maps.Values(alive))
}
