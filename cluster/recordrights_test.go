package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// movedClock is a clock that is moved ahead.
type movedClock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *movedClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *movedClock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += by
}

const nodesPath = "/api/v1/nodes"

// recordCluster records from a cluster of one node and one pod until the test stops it.
func recordCluster(t *testing.T, c *fakeCluster, clock *movedClock) *recording {
	c.put(nodesPath, map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "n1", "uid": "un1"}})
	c.pod("a", "ua", "n1", "sa")
	ctx, cancel := context.WithCancel(t.Context())
	r := &recording{t: t, out: &sink{}, log: &sink{}}
	done := make(chan error, 1)
	cfg := RecordConfig{Config: &rest.Config{Host: c.URL}, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, RetryRefused: 20 * time.Millisecond, Now: clock.now}
	go func() { done <- Record(ctx, cfg, r.out, zerolog.New(r.log)) }()
	r.stop = func() error { cancel(); return <-done }
	return r
}

// written waits until the journal, which is flushed each second, has n bookmarks of a kind, but for the one that begins its list.
func (r *recording) written(kind string, n int) {
	r.t.Helper()
	for strings.Count(r.out.String(), `"BOOKMARK","object":{"apiVersion":"v1","kind":"`+kind+`"`) < n+1 {
		select {
		case <-r.t.Context().Done():
			r.t.Fatalf("no %d bookmarks of %s in\n%s", n, kind, r.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// listed waits until the journal has the end of a list of a kind. A list that breaks off has a beginning only.
func (r *recording) listed(kind string) {
	r.t.Helper()
	for !slices.ContainsFunc(strings.Split(r.out.String(), "\n"), func(line string) bool {
		return strings.Contains(line, `"kind":"`+kind+`"`) && strings.Contains(line, metav1.InitialEventsAnnotationKey)
	}) {
		select {
		case <-r.t.Context().Done():
			r.t.Fatalf("no list of %s has an end in\n%s", kind, r.out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// watched waits for a watch of the path.
func (c *fakeCluster) watched(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.watches[path] == 0 {
		c.changed.Wait()
	}
}

// The log says once which right is missing, and the journal shows that what may be listed alone was not watched.
func TestRecordMayNotWatch(t *testing.T) {
	t.Parallel()
	c, clock := newFakeCluster(t), &movedClock{}
	c.refuse["watch "+nodesPath] = 403
	r := recordCluster(t, c, clock)
	c.watched(podsPath)
	r.written("Node", 1) // the end of the list
	from := clock.now()
	for i := range 3 {
		clock.move(9 * time.Minute)
		c.bookmark()
		r.written("Pod", i+2)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	log := r.log.String()
	if strings.Count(log, `"kind":"Node"`) != 1 || !strings.Contains(log, `"trouble":"no right to watch nodes","message":"was listed and cannot be watched, continuing without its changes"`) {
		t.Errorf("log:\n%s", log)
	}
	s := load(t, r.out.String())
	if got := s.Nodes.Unseen(from, clock.now()); got < 27*time.Minute {
		t.Errorf("nodes are unseen for %s", got)
	}
	for _, kind := range []kindID{kindPod, kindPersistentVolume} {
		if h := s.Graph.Holes(graphKind[kind]); len(h) > 0 {
			t.Errorf("%s has holes: %v", kind, h)
		}
	}
}

// What may not be listed until later was not seen before.
func TestRecordMayNotListYet(t *testing.T) {
	t.Parallel()
	c, clock := newFakeCluster(t), &movedClock{}
	c.refuse[nodesPath] = 403
	r := recordCluster(t, c, clock)
	c.watched(podsPath)
	for r.log.String() == "" {
		time.Sleep(time.Millisecond)
	}
	from := clock.now()
	clock.move(time.Hour)
	c.do(func() { delete(c.refuse, nodesPath) })
	r.written("Node", 1)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if log := r.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `"trouble":"no right to list nodes","message":"cannot be recorded, continuing without"`) {
		t.Errorf("log:\n%s", log)
	}
	if got := load(t, r.out.String()).Nodes.Unseen(from, clock.now()); got < time.Hour {
		t.Errorf("unseen for %s", got)
	}
}

// A list that breaks off is written again as a whole. So a journal that is continued has all pods that are there, and not those that went while nobody recorded.
func TestRecordListBreaksOff(t *testing.T) {
	t.Parallel()
	c, clock := newFakeCluster(t), &movedClock{}
	first := recordCluster(t, c, clock)
	c.pod("b", "ub", "n1", "sb")
	c.pod("gone", "ug", "n1", "sg")
	c.watched(podsPath)
	for !strings.Contains(first.out.String(), `"sg"`) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	clock.move(time.Hour)
	c.do(func() {
		delete(c.objects[podsPath], "shop/gone")
		c.page, c.refuse["more "+podsPath] = 1, 503
	})
	was := 0
	c.do(func() { was = c.lists[podsPath] })
	second := recordCluster(t, c, clock)
	c.mu.Lock()
	for c.lists[podsPath] < was+4 { // with the one that only tries, and pages that are refused between
		c.changed.Wait()
	}
	delete(c.refuse, "more "+podsPath)
	c.mu.Unlock()
	second.listed("Pod")
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	s := load(t, first.out.String()+second.out.String())
	later := clock.now().Add(time.Minute)
	for name, want := range map[string]bool{"a": true, "b": true, "gone": false} {
		if node, on := s.Graph.PodNode("shop", name, later); on != want {
			t.Errorf("%s is on %q: %t", name, node, on)
		}
	}
}

// The journal has signs of life of a kind of which the API server sends no bookmarks: a watch that ended when it was asked to has missed nothing.
func TestRecordWithoutBookmarks(t *testing.T) {
	now := time.Now()
	cfg := RecordConfig{Now: func() time.Time { return now }}.withDefaults()
	for name, c := range map[string]struct {
		lasted             time.Duration
		bookmarks, backlog bool
		want               int
	}{
		"ended as asked":              {lasted: 45 * time.Second, want: 1},
		"ended too soon":              {lasted: 30 * time.Second},
		"ended while it was behind":   {lasted: 45 * time.Second, backlog: true},
		"one that brought a bookmark": {lasted: 45 * time.Second, bookmarks: true},
	} {
		out := &sink{}
		w := newJournalWriter(out, nil)
		k := newKindRecorder(&cfg, nil, kindNode, w, zerolog.Nop())
		k.version, k.rv, k.bookmarks, k.backlog = "v1", "7", c.bookmarks, c.backlog
		_ = k.ended(now.Add(-c.lasted), 45, 1)
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), `"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Node","metadata":{"resourceVersion":"7"}}`); got != c.want {
			t.Errorf("%s: %d bookmarks in %q", name, got, out)
		}
	}
}
