package app_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
)

const writesFolder = "../internal/demo/capture-writes/"

// admissions is what a replay of the capture of writes found.
type admissions struct {
	refusals, predicted, races, passed, unknown int
	refusedRaces, refusedUnknown                int               // of the refusals
	raceRefused                                 int               // of the races, those of which the answer at the request's own time calls a write refused that passed
	byKind                                      map[string][2]int // decided, all
}

// replayWrites holds what analyze says of NodeRestriction against what the plugin of a real API server said.
func replayWrites(t *testing.T, logs string) (c admissions) {
	t.Helper()
	c.byKind = map[string][2]int{}
	_, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.36.3", Skew: 150 * time.Millisecond},
		Input:         app.Input{Logs: []string{logs}, State: []string{writesFolder + "journal.jsonl.gz"}},
		Each: func(j *pipeline.Judgement) error {
			c.take(t, j)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *admissions) take(t *testing.T, j *pipeline.Judgement) {
	t.Helper()
	w := &j.Admission
	refused := w.Observed == nodeadmission.ObservedDeny
	if !refused && w.Observed != nodeadmission.ObservedAllow {
		return
	}
	kind := j.Attrs.Verb + " " + j.Attrs.Resource
	if j.Attrs.Subresource != "" {
		kind += "/" + j.Attrs.Subresource
	}
	share := c.byKind[kind]
	if share[1]++; w.Verdict != nodeadmission.Unknown {
		share[0]++
	}
	c.byKind[kind] = share
	if refused {
		c.refusals++
	} else {
		c.passed++
	}
	said := func() string {
		return fmt.Sprintf("%s %s %s: %+v, but the API server said %d %q", j.Event.AuditID, kind, j.Attrs.Name, w.Answer, j.Event.Code, j.Event.StatusMessage)
	}
	same := w.Message == j.Event.StatusMessage || w.Prefix && strings.HasPrefix(j.Event.StatusMessage, w.Message)
	switch {
	case w.Race:
		c.races++
		if refused {
			c.refusedRaces++
		} else if w.Verdict == nodeadmission.Deny {
			c.raceRefused++
		}
	case w.Verdict == nodeadmission.Unknown:
		c.unknown++
		if refused {
			c.refusedUnknown++
		}
	case refused && (w.Verdict != nodeadmission.Deny || w.Code != j.Event.Code || !same):
		t.Error(said())
	case refused:
		c.predicted++
	case w.Verdict != nodeadmission.Allow || w.Bypassed():
		t.Error(said())
	}
}

// TestCaptureOfWrites predicts what the plugin of a real API server refused, message by message. The refusal that it cannot tell is over a
// CSIDriver, which the journal does not have.
func TestCaptureOfWrites(t *testing.T) {
	c := replayWrites(t, writesFolder+"audit.log.gz")
	t.Logf("%+v", c)
	if all := c.refusals + c.passed; c.refusals < 500 || c.passed < 500 || c.unknown*50 > all {
		t.Errorf("%d refusals, %d writes went through, %d of them are unknown", c.refusals, c.passed, c.unknown)
	}
	if c.refusals != c.predicted+c.refusedRaces+c.refusedUnknown || c.refusedRaces > 0 || c.refusedUnknown > 2 {
		t.Errorf("of %d refusals %d are predicted, %d are races and %d unknown", c.refusals, c.predicted, c.refusedRaces, c.refusedUnknown)
	}
	if c.raceRefused > 0 {
		t.Errorf("%d races call a write refused that passed", c.raceRefused)
	}
	for _, claim := range []string{fmt.Sprintf("the plugin's %d refusals", c.refusals), "but for races and four writes that stay unknown"} {
		if page := strings.ReplaceAll(string(restrictionPage(t)), "\n", " "); !strings.Contains(page, claim) || c.unknown != 4 {
			t.Errorf("docs/node-restriction.md does not say %q", claim)
		}
	}
}

func restrictionPage(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../docs/node-restriction.md")
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestCaptureOfWritesFromMetadata does the same without bodies. What is decided is right, and how much it is stands in the docs.
func TestCaptureOfWritesFromMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, withoutBodies(t, unzipped(t, writesFolder+"audit.log.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := replayWrites(t, path)
	t.Logf("%+v", c)
	want := "| request | decided at level Metadata |\n|---|---|\n"
	for _, kind := range slices.Sorted(maps.Keys(c.byKind)) {
		want += fmt.Sprintf("| %s | %d of %d |\n", kind, c.byKind[kind][0], c.byKind[kind][1])
	}
	if !bytes.Contains(restrictionPage(t), []byte("\n\n"+want+"\n")) {
		t.Errorf("docs/node-restriction.md does not have this table:\n%s", want)
	}
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// withoutBodies is the log as if its policy logged everything at level Metadata.
func withoutBodies(t *testing.T, log []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for line := range bytes.Lines(log) {
		var ev map[string]json.RawMessage
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		delete(ev, "requestObject")
		delete(ev, "responseObject")
		ev["level"] = json.RawMessage(`"Metadata"`)
		if err := json.NewEncoder(&out).Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// linesIn is a file of these lines in a folder.
func linesIn(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seen is an entry of a journal, at a minute and second after six o'clock.
func seen(at, kind, object string) string {
	return fmt.Sprintf(`{"observedAt":"2026-11-22T06:%s","type":%q,"object":%s}`, at, kind, object)
}

// write is a request of node w1 that was allowed without a reason, as by the Node authorizer.
type write struct {
	id, at, verb, uri, ref string
	code                   int
	body                   string // "" for none
	agent                  string // "" for the kubelet
	cut                    bool   // the API server cut the body off
}

func (w *write) event() string {
	level, body, cut := "Metadata", "", ""
	if w.cut {
		cut = `"audit.k8s.io/truncated":"true",`
	}
	if w.body != "" {
		level, body = "Request", `"requestObject":`+w.body+`,`
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":%q,"auditID":%q,"stage":"ResponseComplete","requestURI":%q,"verb":%q,`+
		`"user":{"username":"system:node:w1","groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.0.0.1"],"userAgent":%q,`+
		`"objectRef":%s,"responseStatus":{"code":%d},%s"requestReceivedTimestamp":"2026-11-22T06:%[9]s","stageTimestamp":"2026-11-22T06:%[9]s",`+
		`"annotations":{%[10]s"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`,
		level, w.id, w.uri, w.verb, cmp.Or(w.agent, "kubelet/v1.37.1"), w.ref, w.code, body, w.at, cut)
}

const (
	ofNode = `{"resource":"nodes","name":"w1","apiVersion":"v1"}`
	ofPod  = `{"resource":"pods","namespace":"shop","name":"a","apiVersion":"v1"}`

	ofRequest  = `{"resource":"certificatesigningrequests","name":"csr-1","apiGroup":"certificates.k8s.io","apiVersion":"v1"}`
	ofRequests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// unclear are the codes by which the check of NodeRestriction says that it does not know of a write.
func unclear(got *app.Analysis) (codes []string) {
	for _, r := range got.Facts.Checks {
		for _, e := range r.Evidence {
			if e.Code == checks.CodeRestrictionUnclear || e.Code == checks.CodeRestrictionCut {
				codes = append(codes, string(e.Code))
			}
		}
	}
	return codes
}

// A node sets a label that is not for it on an API server without NodeRestriction, and removes a pod of another node: the state then has what the writes made.
func TestBypassWithItsEffect(t *testing.T) {
	dir := t.TempDir()
	node := func(labels string) string {
		return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1","uid":"n1","labels":` + labels + `}}`
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"a","uid":"a"},"spec":{"nodeName":"w2","containers":[]}}`
	state := linesIn(t, dir, "journal.jsonl", seen("00:00Z", "ADDED", node(`{"a":"b"}`)), seen("00:00Z", "ADDED", pod),
		seen("05:00.020Z", "MODIFIED", node(`{"a":"b","node-restriction.kubernetes.io/trusted":"yes"}`)), seen("06:00.020Z", "DELETED", pod))
	label := write{
		id: "label", at: "05:00.000000Z", verb: "patch", uri: "/api/v1/nodes/w1", ref: ofNode, code: 200,
		body: `{"metadata":{"labels":{"node-restriction.kubernetes.io/trusted":"yes"}}}`,
	}
	remove := write{id: "pod", at: "06:00.000000Z", verb: "delete", uri: "/api/v1/namespaces/shop/pods/a", ref: ofPod, code: 200, body: `{}`}
	log := linesIn(t, dir, "audit.log", label.event(), remove.event())
	found := map[string]string{}
	_, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.37.1", Skew: time.Second},
		Input:         app.Input{Logs: []string{log}, State: []string{state}},
		Each: func(j *pipeline.Judgement) error {
			w := &j.Admission
			found[strings.Clone(j.Event.AuditID)] = fmt.Sprint(w.Verdict, w.Race, w.Bypassed())
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"label", "pod"} {
		if found[id] != "deny false true" {
			t.Errorf("%s: %q", id, found[id])
		}
	}
}

// What a write leaves unclear reaches the check of NodeRestriction: a delete of a pod whose namesake was on the node minutes before, and a write in an event that is too long.
func TestUnclearWritesReachTheCheck(t *testing.T) {
	dir := t.TempDir()
	pod := func(uid, node string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"a","uid":%q},"spec":{"nodeName":%q,"containers":[]}}`, uid, node)
	}
	state := linesIn(t, dir, "journal.jsonl", seen("00:00Z", "ADDED", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1","uid":"n1"}}`), seen("00:00Z", "ADDED", pod("first", "w1")),
		seen("02:00Z", "DELETED", pod("first", "w1")), seen("02:01Z", "ADDED", pod("second", "w2")), seen("09:00Z", "MODIFIED", pod("second", "w2")))
	const at = "06:00.000000Z"
	long := "/api/v1/nodes/w1?p=" + strings.Repeat("x", 4000)
	for name, c := range map[string]struct {
		write write
		want  string
	}{
		"a namesake":      {write{id: "it", at: at, verb: "delete", uri: "/api/v1/namespaces/shop/pods/a", ref: ofPod, code: 200}, "restriction-unclear"},
		"too long":        {write{id: "it", at: at, verb: "patch", uri: long, ref: ofNode, code: 200}, "restriction-body-cut"},
		"too long a read": {write{id: "it", at: at, verb: "get", uri: long, ref: ofNode, code: 200}, ""},
		"a request":       {write{id: "it", at: at, verb: "create", uri: ofRequests, ref: ofRequest, code: 201, cut: true}, "restriction-body-cut"},
		"a request read":  {write{id: "it", at: at, verb: "get", uri: ofRequests + "/csr-1", ref: ofRequest, code: 200, cut: true}, ""},
		"and refused":     {write{id: "it", at: at, verb: "patch", uri: long, ref: ofNode, code: 403}, ""},
	} {
		got, err := app.Analyze(context.Background(), app.AnalyzeOptions{
			Authorization: app.Authorization{KubernetesVersion: "1.37.1", Skew: time.Second},
			Input:         app.Input{Logs: []string{linesIn(t, dir, "audit.log", c.write.event())}, State: []string{state}, MaxEventBytes: 2048},
		})
		if err != nil {
			t.Fatal(err)
		}
		codes := unclear(got)
		if strings.Join(codes, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, codes, c.want)
		}
	}
}

// Reads under many names hide no write: what is too long, and counted together, is not known.
func TestTooLongWriteAmongReads(t *testing.T) {
	dir := t.TempDir()
	state := linesIn(t, dir, "journal.jsonl", seen("00:00Z", "ADDED", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1","uid":"n1"}}`))
	const reads = 12_000
	lines := make([]string, reads+1)
	for i := range lines {
		w := write{
			id: fmt.Sprint("it", i), at: "06:00.000000Z", verb: "get", uri: "/api/v1/nodes/w1?p=" + strings.Repeat("x", 1200), ref: ofNode, code: 200,
			agent: fmt.Sprintf("a%d/v1.37.1", i),
		}
		if i == reads {
			w.verb = "patch"
		}
		lines[i] = w.event()
	}
	path := linesIn(t, dir, "audit.log", lines...)
	got, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.37.1", Skew: time.Second},
		Input:         app.Input{Logs: []string{path}, State: []string{state}, MaxEventBytes: 1024},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(unclear(got), string(checks.CodeRestrictionCut)) {
		t.Error("nothing says that a write of the node is not known")
	}
}
