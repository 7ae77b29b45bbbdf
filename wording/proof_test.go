package wording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/internal/test/scenario/analyzed"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// mute says the same of everything.
type mute struct{}

func (mute) Finding(*tally.Key, *tally.Group) string { return "x" }
func (mute) Identity(rules.Reason) string            { return "x" }
func (mute) Check(*checks.Item) string               { return "x" }
func (mute) Next(*checks.Next) string                { return "x" }
func (mute) Say(codes.Code, codes.Params) string     { return "x" }

// cases are the captures and the corpus, judged: the entries and the facts that reports are made of.
func cases(t *testing.T) map[string]*analyzed.Outcome {
	t.Helper()
	out := map[string]*analyzed.Outcome{}
	for _, name := range []string{"capture", "capture-rbac-only"} {
		c := captured.Open(t, name, "auto")
		c.Judge.Rules = rules.All()
		detectors := rules.NewDetectors(c.Judge.Rules, rules.DetectorOptions{})
		o := &analyzed.Outcome{}
		var of pipeline.Entries
		res := c.Replay(func(j *pipeline.Judgement) {
			o.Entries = append(o.Entries, of.Of(j).Own())
			detectors.Observe(&j.Request, c.Judge.State)
		})
		detectors.Flush(c.Judge.State, func(d *rules.Detection) { o.Entries = append(o.Entries, pipeline.DetectionEntry(d, c.Judge.State)) })
		o.Facts = report.Facts{
			HasState: true, Events: report.Events{Read: res.Counts.Read, Malformed: 1}, Gaps: c.State.Gaps(res.First, res.Last.Add(time.Hour)),
			Authorization: report.Authorization{Mode: c.Judge.Mode.String(), Inferred: c.Judge.Mode.Inferred()},
			Nodes:         append(c.State.Nodes.Names(res.Last), "unseen"), MinWindow: 24 * time.Hour, Disabled: []string{rules.NodeIdentity},
		}
		out[name] = o
	}
	all, err := scenario.Load(scenario.Corpus())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(all); i += effort.Of(1, 10) {
		o, err := analyzed.Run(context.Background(), &all[i])
		if err != nil {
			t.Fatal(err)
		}
		out[all[i].Name] = o
	}
	return out
}

// sentences are the keys of a report's JSON whose values are for people.
var sentences = []string{"message", "what", "warnings", "blockers", "next"}

// without takes the sentences out of a JSON value, and gives each to see.
func without(v any, inIdentity bool, see func(key, s string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			if slices.Contains(sentences, key) || inIdentity && key == "reason" {
				switch of := of.(type) {
				case string:
					see(key, of)
				case []any:
					for _, s := range of {
						see(key, s.(string))
					}
				}
				delete(v, key)
				continue
			}
			without(of, key == "identities", see)
		}
	case []any:
		for _, of := range v {
			without(of, inIdentity, see)
		}
	}
}

func asJSON(t *testing.T, r *report.Report, see func(key, s string)) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	without(v, false, see)
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// No sentence decides anything: whatever the words are, readiness with its gaps, the plan with its commands, the groups with their IDs, and all else
// in a report and in what is sent stay as they are; and no sentence is stored or counted by.
func TestNothingDependsOnWords(t *testing.T) {
	muted := regexp.MustCompile(`^x( x)*$`)
	for name, o := range cases(t) {
		o.Entries = append(o.Entries, everyReason()...)
		sum := tally.New()
		for i := range o.Entries {
			o.Entries[i].ID = tally.IDOf(strconv.Itoa(i))
			sum.Add(&o.Entries[i])
		}
		said := map[string]bool{}
		english, silent := o.Facts, o.Facts
		silent.Words = mute{}
		want := asJSON(t, report.Make(sum, english), func(_, s string) { said[s] = true })
		got := asJSON(t, report.Make(sum, silent), func(key, s string) {
			if !muted.MatchString(s) {
				t.Errorf("%s: the %s %q is not from the words", name, key, s)
			}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the report (-English +mute):\n%s", name, diff)
		}
		for k, g := range sum.Groups {
			a, b := sinks.FromGroup("c", &k, g, wording.English{}), sinks.FromGroup("c", &k, g, mute{})
			if b.Message != "x" || a.Message == "x" || a.ID != sinks.ID("c", &k) {
				t.Errorf("%s: messages %q and %q of %s", name, a.Message, b.Message, a.ID)
			}
			said[a.Message] = true
			if a.Message = "x"; !cmp.Equal(a, b) {
				t.Errorf("%s: what is sent: %s", name, cmp.Diff(a, b))
			}
		}
		isStored(t, name, o, sum, said)
	}
}

// everyReason has a finding of each reason of every rule, as of the log's end.
func everyReason() []tally.Entry {
	var out []tally.Entry
	for _, r := range rules.All() {
		for _, d := range r.Reasons {
			e := pipeline.DetectionEntry(&rules.Detection{
				Finding: rules.Finding{Rule: r.Name, Reason: d.Reason, Severity: r.Severity, Subject: "worker-1"}, Verb: "get", Resource: "secrets", Namespace: "shop", Name: string(d.Reason),
				Time: time.Date(2026, 11, 21, 6, 4, 30, 0, time.UTC),
			}, nil)
			out = append(out, e)
		}
	}
	return out
}

// isStored stores the entries and looks for the sentences in the file and among the labels of metrics.
func isStored(t *testing.T, name string, o *analyzed.Outcome, sum *tally.Tally, said map[string]bool) {
	t.Helper()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "s.db")
	s, err := store.OpenSQLite(ctx, path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(ctx, "l", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(ctx, &tally.Commit{Lanes: []tally.LaneCommit{{Lane: "l", Entries: o.Entries}}}); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Tally(ctx, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	facts, silent := o.Facts, o.Facts
	silent.Words = mute{}
	nothing := func(string, string) {}
	if diff := cmp.Diff(asJSON(t, report.Make(stored, facts), nothing), asJSON(t, report.Make(stored, silent), nothing)); diff != "" {
		t.Errorf("%s: the report of the store (-English +mute):\n%s", name, diff)
	}
	if len(stored.Groups) != len(sum.Groups) {
		t.Errorf("%s: %d groups are stored, want %d", name, len(stored.Groups), len(sum.Groups))
	}
	for k, g := range sum.Groups {
		if of := stored.Groups[k]; of == nil || of.Reason != g.Reason || of.Severity != g.Severity || of.Count != g.Count {
			t.Errorf("%s: %+v is stored as %+v", name, k, of)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New(metrics.Options{})
	m.Stored(&metrics.Commit{Entries: o.Entries})
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels, reasons := strings.Builder{}, 0
	for _, f := range families {
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				labels.WriteString(l.GetValue() + "\n")
				if f.GetName() == "nodetrail_findings_total" && l.GetName() == "reason" && l.GetValue() == metrics.Other {
					reasons += int(one.GetCounter().GetValue())
				}
			}
		}
	}
	if reasons > 0 {
		t.Errorf("%s: %d findings of no known reason", name, reasons)
	}
	for s := range said {
		if strings.Contains(s, " ") && (bytes.Contains(file, []byte(s)) || strings.Contains(labels.String(), s)) {
			t.Errorf("%s: %q is stored or counted by", name, s)
		}
	}
}

// Every code has a sentence, whatever parameters are missing, and every reason of a rule has.
func TestEveryCodeHasWords(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "codes", "codes.go"))
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z-]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(listed) < 40 {
		t.Fatalf("%d codes", len(listed))
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "readiness.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range listed {
		if !bytes.Contains(page, []byte("`"+m[1]+"`")) && m[1] != string(codes.PartMissing) {
			t.Errorf("docs/readiness.md does not have %s", m[1])
		}
		if s := (wording.English{}).Say(codes.Code(m[1]), nil); s == m[1] || s == "" && m[1] != string(codes.EntryUnreadable) || seen[m[1]] {
			t.Errorf("%s: %q", m[1], s)
		}
		seen[m[1]] = true
	}
	text, err = os.ReadFile(filepath.Join("..", "checks", "codes.go"))
	if err != nil {
		t.Fatal(err)
	}
	listed = regexp.MustCompile(`(?m)^\t(Code|Next)\w+ +Code = "([a-z-]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(listed) < 80 {
		t.Fatalf("%d codes of checks", len(listed))
	}
	clear(seen)
	for _, m := range listed {
		s := wording.English{}.Check(&checks.Item{Code: checks.Code(m[2])})
		if m[1] == "Next" {
			s = wording.English{}.Next(&checks.Next{Code: checks.Code(m[2])})
		}
		if s == m[2] || s == "" || seen[s] {
			t.Errorf("%s: %q", m[2], s)
		}
		seen[s] = true
	}
	for _, r := range append(rules.All(), &rules.Rule{Name: "own", Reasons: rules.OwnReasons()}) {
		for _, d := range r.Reasons {
			k := tally.Key{Rule: r.Name}
			if s := (wording.English{}).Finding(&k, &tally.Group{Reason: d.Reason}); s == string(d.Reason) || s == "" {
				t.Errorf("%s: %q", d.Reason, s)
			}
		}
	}
}

// The reason is the name's own: neither how long a name is, nor what words are in it, changes it.
func TestNamesDoNotChangeReasons(t *testing.T) {
	long := strings.Repeat("w", 180)
	for _, x := range []struct {
		name, want string
		reason     rules.Reason
	}{
		{strings.ToUpper(long), "letter case", rules.NameLetterCase},
		{"ghost, which differs in its letter case", "unregistered name", rules.NodeMissing},
	} {
		s := scenarioOf(t, long, x.name)
		ids := s.Report.Readiness.Identities
		if len(ids) != 1 || ids[0].Code != x.reason || ids[0].Reason != x.want || ids[0].Identity != x.name {
			t.Errorf("%s: %+v", x.name, ids)
		}
		if len(ids) == 1 && !strings.Contains(ids[0].Message, x.name) {
			t.Errorf("%s: %s", x.name, ids[0].Message)
		}
	}
}

// scenarioOf is a cluster with one node, in which a kubelet under another name asks for a secret.
func scenarioOf(t *testing.T, node, user string) *analyzed.Outcome {
	t.Helper()
	event, err := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "e1", "stage": "ResponseComplete",
		"requestURI": "/api/v1/namespaces/shop/secrets/db", "verb": "get", "userAgent": "kubelet/v1.36",
		"user":                     map[string]any{"username": "system:node:" + user, "groups": []string{"system:nodes", "system:authenticated"}},
		"objectRef":                map[string]any{"resource": "secrets", "namespace": "shop", "name": "db", "apiVersion": "v1"},
		"responseStatus":           map[string]any{"code": 403},
		"requestReceivedTimestamp": "2026-11-21T06:00:10.000000Z", "stageTimestamp": "2026-11-21T06:00:10.001000Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("x.txtar", []byte("A name.\n-- cluster --\n06:00:00 + node "+node+"\n-- audit --\n"+string(event)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := analyzed.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is missing from the state or the log for the check state-complete is said, and not named by its code.
func TestIncompleteStateInWords(t *testing.T) {
	for _, c := range []codes.Code{
		codes.KindMissing, codes.KindPartial, codes.KindRefused, codes.KindUnlisted, codes.WatchInterrupted, codes.VolumesMissing, codes.StateEndsEarly, codes.StateForgotten,
		codes.NotWatched, codes.NotWatchedMore, codes.WatchErrors, codes.StateUnreadable, codes.EntryUnreadable, codes.NamesTogether, codes.WindowUncovered, codes.WindowEmpty,
		codes.DenialsUnlogged,
	} {
		if said := (wording.English{}).Check(&checks.Item{Code: checks.CodeStateGap, Value: string(c) + " Node"}); strings.Contains(said, string(c)) {
			t.Errorf("%s: %q", c, said)
		}
	}
}
