package pipeline_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// judged are the judgements of a log, and how many of them there are.
func judged(t *testing.T, log, journal []byte, live, alone bool) (all string, n int) {
	t.Helper()
	state := cluster.NewState()
	if journal != nil {
		if err := state.Load([]string{"-"}, bytes.NewReader(journal)); err != nil {
			t.Fatal(err)
		}
	}
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		t.Fatal(err)
	}
	setup := judging.New(state, judging.Options{
		Features: features, Versions: &judging.Versions{}, Skew: time.Second, Mode: &pipeline.Mode{}, Rules: rules.All(), Live: live,
	})
	setup.Judge.Tallies = true
	var out bytes.Buffer
	s := pipeline.NewStream(setup.Judge, setup.State, pipeline.Options{Skew: time.Second, All: true}, func(j *pipeline.Judgement) error {
		attrs := *j.Attrs
		attrs.User = nil
		older, newer := j.Between()
		e := *j.Entry
		e.Findings = append([]tally.Finding{}, e.Findings...)
		entry, err := json.Marshal(&e)
		fmt.Fprintf(&out, "%s %+v %v %+v %+v %+v %t %t %t %t %t %+v %s %q %s %s %+v %s", j.Event.AuditID, attrs, j.Time, j.Answer, j.Observed, j.Admission, j.Allowed,
			j.Open, j.HasGrant, j.JustGone, j.Spare, j.Grant, j.Impersonator, j.Detail(), older, newer, j.Authorizer().Features(), entry)
		for i := range j.Findings {
			fmt.Fprintf(&out, " %+v", j.Findings[i].Finding)
		}
		out.WriteString("\n")
		n++
		return err
	})
	if alone {
		s.Alone()
	}
	var events []audit.Event
	dec := audit.Decoder{Want: audit.Want{State: true, All: true}}
	dec.Chunk(log, 1, func(ev *audit.Event) { events = append(events, *ev) }, func(m audit.Malformed) { t.Fatalf("%+v", m) })
	looks := s.Look(nil, events) // before anything was taken in
	for i := 0; len(events) > 0; i++ {
		some := min(1000, len(events))
		b := pipeline.Batch{Events: events[:some], Looks: looks[:some]}
		if alone || i%3 == 0 {
			b.Looks = nil
		}
		if err := s.Batch(&b); err != nil {
			t.Fatal(err)
		}
		events, looks = events[some:], looks[some:]
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range setup.Judge.Versions.Conclusions() {
		fmt.Fprintf(&out, "%+v\n", c)
	}
	return out.String(), n
}

// compared wants the judgements of a log that are made in parallel to be those that each would have in its turn, and returns these.
func compared(t *testing.T, name string, log, journal []byte, live bool) (alone string) {
	t.Helper()
	want, n := judged(t, log, journal, live, true)
	got, _ := judged(t, log, journal, live, false)
	if n == 0 {
		t.Errorf("%s: nothing was judged", name)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s, live %t (-alone +in parallel):\n%.3000s", name, live, diff)
	}
	return want
}

// TestBesideOthers wants judgements that are made in parallel to be those that each would have in its turn: while the log shows the mode and the
// version, in upgrades, where both change, and where a state follows a cluster.
func TestBesideOthers(t *testing.T) {
	f := func(name string, log, journal []byte) {
		for _, live := range []bool{false, true} {
			compared(t, name, log, journal, live)
		}
	}
	var logs, journals []byte
	for _, folder := range effort.Of([]string{"capture-1.37", "capture-rbac-only", "capture"}, []string{"capture"}) {
		log, journal := gunzipped(t, folder+"/audit.log.gz"), gunzipped(t, folder+"/journal.jsonl.gz")
		f(folder, log, journal)
		f(folder+" without a journal", log, nil)
		logs, journals = append(logs, log...), append(journals, journal...)
	}
	if effort.Of(true, false) { // else there is one
		f("one capture after the other", logs, journals)
	}
	for i := range effort.Of(uint64(12), 1) {
		o := days.Options{Span: time.Hour, Nodes: 3, Servers: 1 + int(i%3), Minor: days.OldestMinor + int(i)%(days.NewestMinor-days.OldestMinor), NoBinding: i%2 == 0}
		if i%2 == 0 {
			o.Features = days.Upgrade
		}
		day, err := days.Clean(i, o)
		if err != nil {
			t.Fatal(err)
		}
		f(fmt.Sprintf("day %d", i), day.Log(), day.Journal())
		day, _ = days.Attack(day, i, 200)
		f(fmt.Sprintf("attack %d", i), day.Log(), day.Journal())
	}
}

// TestBesideOthersMixed does the same for logs that no cluster writes, in which the mode, the version and the names of nodes change from request to request.
func TestBesideOthersMixed(t *testing.T) {
	for seed := range effort.Of(uint64(20), 1) {
		folder := []string{"capture", "capture-1.37", "capture-rbac-only"}[seed%3]
		log, journal := mixed(t, gunzipped(t, folder+"/audit.log.gz"), seed), gunzipped(t, folder+"/journal.jsonl.gz")
		for _, live := range []bool{false, true} {
			compared(t, fmt.Sprintf("seed %d", seed), log, journal, live)
		}
	}
}

// TestBesideOthersPatches does the same where the API server is replaced by another patch release every five minutes, and back, and where the two differ
// on what nodes write.
func TestBesideOthersPatches(t *testing.T) {
	day, err := days.Clean(1, days.Options{Span: time.Hour, Nodes: 3, Servers: 1, Minor: 33})
	if err != nil {
		t.Fatal(err)
	}
	log := replaced(t, day.Log(), "v1.33.3", "v1.33.4")
	want := compared(t, "patches", log, day.Journal(), false)
	for _, answer := range []string{"Verdict:allow", "Verdict:deny", "Verdict:unknown"} {
		if !strings.Contains(want, "{Answer:{"+answer+" Race:false Prefix:false") {
			t.Errorf("NodeRestriction never says %s", answer)
		}
	}
}

// replaced is a log in which an API server has each of some releases in turn, for five minutes. Around each full minute, when a release may begin to
// count, a node changes its owner references again and again.
func replaced(t *testing.T, log []byte, releases ...string) []byte {
	t.Helper()
	release := regexp.MustCompile(`kube-apiserver/v1\.33\.[0-9]+`)
	var events []audit.Event
	(&audit.Decoder{Want: audit.Want{All: true}}).Chunk(log, 1, func(ev *audit.Event) { events = append(events, *ev) }, func(m audit.Malformed) { t.Fatalf("%+v", m) })
	i := slices.IndexFunc(events, func(ev audit.Event) bool {
		return ev.Verb == "patch" && ev.ObjectRef.Resource == "nodes" && ev.ObjectRef.Subresource == "status"
	})
	write, begin := events[i], events[0].RequestReceived.Truncate(time.Minute)
	write.ObjectRef.Subresource, write.RequestURI, write.Level, write.ResponseObject = "", "/api/v1/nodes/"+write.ObjectRef.Name, audit.LevelRequest, nil
	write.RequestObject = []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"M","name":"m","uid":"o"}]}}`)
	for n := range 60 * 20 {
		at := begin.Add(time.Duration(n/20+1)*time.Minute + time.Duration(n%20-10)*40*time.Millisecond)
		write.AuditID, write.RequestReceived, write.StageTime = fmt.Sprintf("write-%d", n), at, at
		events = append(events, write)
	}
	slices.SortStableFunc(events, func(a, b audit.Event) int { return a.StageTime.Compare(b.StageTime) })
	var out []byte
	for i := range events {
		ev := &events[i]
		ev.UserAgent = release.ReplaceAllString(ev.UserAgent, "kube-apiserver/"+releases[ev.RequestReceived.Minute()/5%len(releases)])
		var err error
		if out, err = ev.AppendJSON(out); err != nil {
			t.Fatal(err)
		}
		out = append(out, '\n')
	}
	return out
}

// mixed is a part of a log in which some requests have the answers of others, and some the names of nodes that there are not.
func mixed(t *testing.T, log []byte, seed uint64) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	lines := bytes.SplitAfter(bytes.TrimSpace(log), []byte("\n"))
	lines = lines[r.IntN(len(lines)/2):]
	lines = lines[:min(len(lines), 3000)]
	events := make([]map[string]any, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	often := 2 + r.IntN(20)
	var out bytes.Buffer
	for i, e := range events {
		if r.IntN(often) == 0 {
			other := events[max(0, i-r.IntN(500))]
			e["annotations"], e["responseStatus"] = other["annotations"], other["responseStatus"]
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(20) == 0 {
			line = bytes.ReplaceAll(line, []byte("system:node:worker-"), []byte("system:node:nobody-"))
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

func gunzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open("../internal/demo/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
