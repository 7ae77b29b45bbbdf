package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
)

// apiserver serves list and watch of pods from memory as kube-apiserver does, and can fail in its ways. Nodes may not be read; other kinds
// are not served.
type apiserver struct {
	*httptest.Server
	mu      sync.Mutex
	changed *sync.Cond
	rv      int
	pods    map[string]map[string]any
	log     []watchLine // what watches replay
	oldest  int         // resource versions before are gone
	epoch   int         // watches of an earlier epoch are cut off
	watches int
	down    bool
}

type watchLine struct {
	rv   int
	json []byte
}

func newAPIServer(t *testing.T) *apiserver {
	a := &apiserver{pods: map[string]map[string]any{}, rv: 100}
	a.changed = sync.NewCond(&a.mu)
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.cut(false)
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// set makes or changes a pod.
func (a *apiserver) set(name, uid, node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	verb := "MODIFIED"
	if was, ok := a.pods[name]; !ok || was["metadata"].(map[string]any)["uid"] != uid {
		verb = "ADDED"
	}
	a.rv++
	pod := map[string]any{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{
			"name": name, "namespace": "shop", "uid": uid, "resourceVersion": fmt.Sprint(a.rv), "creationTimestamp": "2026-11-21T06:00:00Z",
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "kubernetes.io/config.mirror": "x"}, "managedFields": []any{map[string]any{"manager": "m"}},
		},
		"spec": map[string]any{
			"nodeName": node,
			"containers": []any{map[string]any{"name": "c", "args": []any{"--password=hunter2"}, "env": []any{
				map[string]any{"name": "PASSWORD", "value": "hunter2"},
				map[string]any{"name": "TOKEN", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "db", "key": "k"}}},
			}}},
			"volumes": []any{map[string]any{"name": "v", "csi": map[string]any{"driver": "d", "volumeAttributes": map[string]any{"p": "hunter2"}, "nodePublishSecretRef": map[string]any{"name": "csi"}}}},
		},
		"status": map[string]any{"phase": "Running", "message": "hunter2"},
	}
	a.pods[name] = pod
	a.append(verb, pod)
}

func (a *apiserver) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rv++
	pod := a.pods[name]
	delete(a.pods, name)
	a.append("DELETED", pod)
}

func (a *apiserver) append(verb string, object any) {
	line, _ := json.Marshal(map[string]any{"type": verb, "object": object})
	a.log = append(a.log, watchLine{a.rv, line})
	a.changed.Broadcast()
}

// cut ends all watches; if forget is true, what happened until now cannot be watched any more.
func (a *apiserver) cut(forget bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	if forget {
		a.oldest = a.rv + 1
	}
	a.changed.Broadcast()
}

func (a *apiserver) setDown(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
	a.epoch++
	a.changed.Broadcast()
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"no"}`, reason, code)
}

func (a *apiserver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/v1/nodes":
		status(w, 403, "Forbidden")
	case r.URL.Path != "/api/v1/pods":
		status(w, 404, "NotFound")
	case r.URL.Query().Get("watch") != "":
		a.serveWatch(w, r)
	default:
		a.serveList(w, r)
	}
}

// serveList gives one pod a page.
func (a *apiserver) serveList(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		status(w, 503, "ServiceUnavailable")
		return
	}
	names := make([]string, 0, len(a.pods))
	for name := range a.pods {
		names = append(names, name)
	}
	page, next := names, ""
	after := r.URL.Query().Get("continue")
	page = page[:0]
	for _, name := range sortedNames(names) {
		if name > after {
			page = append(page, name)
		}
	}
	if len(page) > 1 {
		page, next = page[:1], page[0]
	}
	items := []any{}
	for _, name := range page {
		items = append(items, a.pods[name])
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(a.rv), "continue": next}, "items": items,
	})
}

func (a *apiserver) serveWatch(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var from int
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &from)
	if a.down {
		status(w, 503, "ServiceUnavailable")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if from+1 < a.oldest {
		_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`+"\n")
		return
	}
	a.watches++
	a.changed.Broadcast()
	w.(http.Flusher).Flush()
	for epoch := a.epoch; a.epoch == epoch; a.changed.Wait() {
		for _, l := range a.log {
			if l.rv > from {
				_, _ = w.Write(append(l.json, '\n'))
				from = l.rv
			}
		}
		w.(http.Flusher).Flush()
	}
}

func sortedNames(names []string) []string {
	out := append([]string(nil), names...)
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// sink collects a journal and can be waited on.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// recording is a Record that runs.
type recording struct {
	t    *testing.T
	out  *sink
	log  *sink
	stop func() error
}

func record(t *testing.T, a *apiserver, cfg RecordConfig) *recording {
	cfg.Config = &rest.Config{Host: a.URL}
	cfg.MinBackoff, cfg.MaxBackoff = time.Millisecond, 5*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	r := &recording{t: t, out: &sink{}, log: &sink{}}
	done := make(chan error, 1)
	go func() { done <- Record(ctx, cfg, r.out, zerolog.New(r.log)) }()
	r.stop = func() error { cancel(); return <-done }
	return r
}

// watched waits until the server has seen n watches.
func (a *apiserver) watched(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.watches < n {
		a.changed.Wait()
	}
}

// until waits for a text in the journal, which is flushed each second.
func (r *recording) until(text string) {
	r.t.Helper()
	for !strings.Contains(r.out.String(), text) {
		select {
		case <-r.t.Context().Done():
			r.t.Fatalf("no %s in\n%s", text, r.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// short is a journal without its times: verb, name, uid, and whether notBefore was there.
func short(t *testing.T, journal string) []string {
	t.Helper()
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(journal), "\n") {
		var e struct {
			ObservedAt, NotBefore time.Time
			Type                  string
			Object                struct {
				Metadata struct{ Name, UID string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		s := e.Type + " " + e.Object.Metadata.Name + " " + e.Object.Metadata.UID
		if !e.NotBefore.IsZero() {
			s += " since"
			if !e.NotBefore.Before(e.ObservedAt) {
				t.Errorf("notBefore is not before: %s", line)
			}
		}
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

func TestRecord(t *testing.T) {
	a := newAPIServer(t)
	a.set("web-1", "u1", "w1")
	a.set("web-2", "u2", "w1")
	a.set("web-3", "u3", "w1")
	r := record(t, a, RecordConfig{})
	a.watched(1)

	a.cut(false) // the connection breaks: the watch resumes from where it was
	a.set("web-4", "u4", "w2")
	r.until(`"web-4"`)

	a.setDown(true) // an outage so long that the past is gone
	a.remove("web-1")
	a.set("web-2", "u2", "w1")
	a.remove("web-3")
	a.set("web-3", "u3b", "w2")
	a.set("web-5", "u5", "w2")
	a.cut(true)
	a.setDown(false)
	r.until(`"web-5"`)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	got := short(t, r.out.String())
	for i := range got[:4] {
		got[i] = strings.TrimSuffix(got[i], " since")
	}
	want := []string{
		"ADDED web-1 u1", "ADDED web-2 u2", "ADDED web-3 u3", "BOOKMARK", "ADDED web-4 u4 since",
		"MODIFIED web-2 u2 since", "DELETED web-3 u3 since", "ADDED web-3 u3b since", "ADDED web-5 u5 since", "DELETED web-1 u1 since",
		"BOOKMARK   since",
	}
	sortDeletions := cmp.Transformer("set", func(l []string) map[string]bool {
		m := map[string]bool{}
		for _, s := range l {
			m[s] = true
		}
		return m
	})
	if d := cmp.Diff(want, got, sortDeletions); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, strings.Join(got, "\n"))
	}
	if text := r.out.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "managedFields") {
		t.Errorf("the journal holds what it should not:\n%s", text)
	}
	if log := r.log.String(); strings.Count(log, `"kind":"Node"`) != 1 || strings.Count(log, `"kind":"CSIDriver"`) != 1 {
		t.Errorf("a kind that is refused is not logged once:\n%s", log)
	}

	s := NewState()
	if err := s.Load([]string{"-"}, strings.NewReader(r.out.String())); err != nil {
		t.Fatal(err)
	}
	if sum := s.Summary(); sum.Objects["Pod"] != 6 || sum.Malformed != 0 {
		t.Errorf("%+v", sum)
	}
	later := time.Now().Add(time.Hour)
	for name, node := range map[string]string{"web-1": "", "web-2": "w1", "web-3": "w2", "web-4": "w2", "web-5": "w2"} {
		if got, _ := s.Graph.PodNode("shop", name, later); got != node {
			t.Errorf("%s is on %q, want %q", name, got, node)
		}
	}
}

func TestRecordKeeps(t *testing.T) {
	a := newAPIServer(t)
	a.set("web-1", "u1", "w1")
	r := record(t, a, RecordConfig{KeepManagedFields: true, KeepValues: true})
	r.until("BOOKMARK")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if text := r.out.String(); strings.Count(text, "hunter2") != 5 || !strings.Contains(text, "managedFields") {
		t.Error(text)
	}
}

// TestTrimmedPodMeansTheSame holds the recorder against the loader: what it takes away, nobody looks for.
func TestTrimmedPodMeansTheSame(t *testing.T) {
	a := newAPIServer(t)
	a.set("web-1", "u1", "w1")
	raw, err := json.Marshal(a.pods["web-1"])
	if err != nil {
		t.Fatal(err)
	}
	whole, err := newDecoder().object(kindPod, raw)
	if err != nil {
		t.Fatal(err)
	}
	trim(kindPod, a.pods["web-1"], &RecordConfig{})
	if raw, err = json.Marshal(a.pods["web-1"]); err != nil {
		t.Fatal(err)
	}
	trimmed, err := newDecoder().object(kindPod, raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, trimmed, cmp.AllowUnexported(object{}, readiness{}, admitted{})); d != "" || len(whole.pod.Secrets) != 2 {
		t.Error(d)
	}
}

// After an outage what was missed may come late.
func TestEndsBacklog(t *testing.T) {
	for unseen, want := range map[time.Duration]time.Duration{0: time.Second, 500 * time.Millisecond: time.Second, 3 * time.Second: 3 * time.Second, time.Hour: 5 * time.Second} {
		if got := endsBacklog(unseen, time.Second); got != want {
			t.Errorf("unseen for %s: %s, want %s", unseen, got, want)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestRecordFails(t *testing.T) {
	a := newAPIServer(t)
	a.set("web-1", "u1", "w1")
	cfg := RecordConfig{Config: &rest.Config{Host: a.URL}, MinBackoff: time.Millisecond}
	if err := Record(t.Context(), cfg, fullDisk{}, zerolog.Nop()); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	a.setDown(true)
	if err := Record(t.Context(), cfg, io.Discard, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "reaching the cluster") {
		t.Errorf("no cluster: %v", err)
	}
}

func TestJournalFile(t *testing.T) {
	for _, name := range []string{"j.jsonl", "j.jsonl.gz"} {
		path := filepath.Join(t.TempDir(), name)
		j, err := CreateJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(j, event(t, "1s", "ADDED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""))); err != nil {
			t.Fatal(err)
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		s := NewState()
		if err := s.Load([]string{path}, nil); err != nil || s.Summary().Objects["Pod"] != 1 {
			t.Errorf("%s: %v %+v", name, err, s.Summary())
		}
		if _, err := CreateJournal(path); err == nil {
			t.Error("an existing journal was overwritten")
		}
	}
}

// Its own namespace is created before what is in it. Another namespace belongs to somebody else and is left alone.
func TestRecordRBACNamespace(t *testing.T) {
	for namespace, want := range map[string]bool{OwnNamespace: true, "monitoring": false, "kube-system": false} {
		text, err := RecordRBAC(namespace, "nodetrail")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "kind: Namespace\n"); got != want {
			t.Errorf("%s: created: %t", namespace, got)
		}
		if first, _, _ := strings.Cut(string(text), "---\n"); strings.Contains(first, "kind: Namespace\n") != want {
			t.Errorf("%s: first:\n%s", namespace, first)
		}
	}
}

func TestRecordRBAC(t *testing.T) {
	text, err := RecordRBAC("monitoring", "nodetrail")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: ServiceAccount", "kind: ClusterRole\n", "kind: ClusterRoleBinding", "- podcertificaterequests", "- list\n  - watch", "namespace: monitoring", "kind: Role\n", "kind: RoleBinding\n", "namespace: kube-system"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, bad := range []string{"secrets", "null", "- get", "*"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("%q in\n%s", bad, text)
		}
	}
}
