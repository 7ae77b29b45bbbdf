package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

const (
	podsPath    = "/api/v1/pods"
	volumesPath = "/api/v1/persistentvolumes"
	rolesPath   = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
)

// fakeCluster serves list and watch of all kinds from memory as kube-apiserver does, and fails in its ways.
type fakeCluster struct {
	*httptest.Server
	mu      sync.Mutex
	changed *sync.Cond
	rv      int
	objects map[string]map[string]map[string]any // by path and namespace/name
	log     []fakeEvent
	oldest  int            // versions before are forgotten
	epoch   int            // watches of an earlier one are cut off
	refuse  map[string]int // by path, "watch " or "list " before it for these alone
	mute    bool           // watches begin and say nothing
	closed  bool
	lists   map[string]int
	watches map[string]int
	page    int
	queries map[string]string // the latest of each path
}

// queried returns the query of the latest request for the path.
func (c *fakeCluster) queried(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queries[path]
}

type fakeEvent struct {
	path string
	rv   int
	json []byte
}

func newFakeCluster(t testing.TB) *fakeCluster {
	c := &fakeCluster{
		rv: 100, page: 3, objects: map[string]map[string]map[string]any{}, refuse: map[string]int{}, lists: map[string]int{}, watches: map[string]int{}, queries: map[string]string{},
	}
	c.changed = sync.NewCond(&c.mu)
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() {
		c.do(func() { c.closed = true }) // a watch that begins only now would never end
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

// do changes the cluster and wakes the watches.
func (c *fakeCluster) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.changed.Broadcast()
}

func (c *fakeCluster) forget() { c.do(func() { c.rv++; c.oldest = c.rv; c.epoch++ }) }
func (c *fakeCluster) down(d bool) {
	c.do(func() {
		delete(c.refuse, "")
		if d {
			c.refuse[""] = 503
		}
		c.epoch++
	})
}

func (c *fakeCluster) put(path string, o map[string]any) {
	c.do(func() {
		meta := o["metadata"].(map[string]any)
		ns, _ := meta["namespace"].(string)
		key := ns + "/" + meta["name"].(string)
		of := c.objects[path]
		if of == nil {
			of = map[string]map[string]any{}
			c.objects[path] = of
		}
		verb := "ADDED"
		if was := of[key]; was != nil && was["metadata"].(map[string]any)["uid"] == meta["uid"] {
			verb = "MODIFIED"
		}
		c.rv++
		meta["resourceVersion"] = fmt.Sprint(c.rv)
		of[key] = o
		c.event(path, verb, o)
	})
}

// pod makes or changes a pod of namespace shop that needs a secret.
func (c *fakeCluster) pod(name, uid, node, secret string) {
	c.put(podsPath, fakePod(name, uid, node, secret))
}

func fakePod(name, uid, node, secret string) map[string]any {
	return map[string]any{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": map[string]any{"name": name, "namespace": "shop", "uid": uid},
		"spec":     map[string]any{"nodeName": node, "volumes": []any{map[string]any{"name": "v", "secret": map[string]any{"secretName": secret}}}},
	}
}

func (c *fakeCluster) remove(path, key string) {
	c.do(func() {
		o := c.objects[path][key]
		delete(c.objects[path], key)
		c.rv++
		o["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(c.rv)
		c.event(path, "DELETED", o)
	})
}

func (c *fakeCluster) event(path, verb string, o any) {
	line, _ := json.Marshal(map[string]any{"type": verb, "object": o})
	c.log = append(c.log, fakeEvent{path, c.rv, line})
}

// bookmark sends one to each watch.
func (c *fakeCluster) bookmark() {
	c.do(func() {
		c.rv++
		for path := range c.watches {
			c.event(path, "BOOKMARK", map[string]any{"kind": "K", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(c.rv)}})
		}
	})
}

// ServeHTTP implements http.Handler.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	watch := r.URL.Query().Get("watch") != ""
	of := []string{"", r.URL.Path, "list " + r.URL.Path}
	if watch {
		of[2] = "watch " + r.URL.Path
	}
	if r.URL.Query().Get("continue") != "" {
		of = append(of, "more "+r.URL.Path)
	}
	for _, of := range of {
		if code := c.refuse[of]; code != 0 {
			status(w, code, map[int]string{403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable", 429: "TooManyRequests", 401: "Unauthorized"}[code])
			return
		}
	}
	c.queries[r.URL.Path] = r.URL.RawQuery
	if !watch {
		c.list(w, r)
		return
	}
	var from int
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &from)
	w.Header().Set("Content-Type", "application/json")
	if from < c.oldest {
		_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`+"\n")
		return
	}
	c.watches[r.URL.Path]++
	c.changed.Broadcast()
	w.(http.Flusher).Flush()
	sent := sort.Search(len(c.log), func(i int) bool { return c.log[i].rv > from })
	for epoch := c.epoch; c.epoch == epoch && !c.closed; c.changed.Wait() {
		for ; sent < len(c.log) && !c.mute; sent++ {
			if c.log[sent].path == r.URL.Path && c.log[sent].rv > from { // as cache_watcher.go: only events newer than asked for
				_, _ = w.Write(append(c.log[sent].json, '\n'))
			}
		}
		w.(http.Flusher).Flush()
	}
}

func (c *fakeCluster) list(w http.ResponseWriter, r *http.Request) {
	c.lists[r.URL.Path]++
	c.changed.Broadcast()
	keys := make([]string, 0, len(c.objects[r.URL.Path]))
	after := r.URL.Query().Get("continue")
	for key := range c.objects[r.URL.Path] {
		if key > after {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	next := ""
	if len(keys) > c.page {
		keys, next = keys[:c.page], keys[c.page-1]
	}
	items := make([]any, 0, len(keys))
	for _, key := range keys {
		items = append(items, c.objects[r.URL.Path][key])
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(c.rv), "continue": next}, "items": items,
	})
}

// liveTest is a Live that runs over a fake cluster.
type liveTest struct {
	t     testing.TB
	c     *fakeCluster
	cfg   LiveConfig
	live  *Live
	state *State
	log   *sink
	stop  func()
}

// startLive begins anew, with the journal that is in dir.
func startLive(t testing.TB, c *fakeCluster, cfg LiveConfig) *liveTest {
	t.Helper()
	cfg.Record.Config = &rest.Config{Host: c.URL}
	cfg.Record.MinBackoff, cfg.Record.MaxBackoff = time.Millisecond, 5*time.Millisecond
	if cfg.Record.RetryRefused == 0 {
		cfg.Record.RetryRefused = 20 * time.Millisecond
	}
	if cfg.Record.catchUp == 0 {
		cfg.Record.catchUp = 100 * time.Millisecond
	}
	if cfg.Settle == 0 {
		cfg.Settle = 20 * time.Millisecond
	}
	l := &liveTest{t: t, c: c, cfg: cfg, state: NewState(), log: &sink{}}
	var err error
	if l.live, err = NewLive(cfg, l.state, zerolog.New(l.log)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.live.Run(ctx) }()
	var once sync.Once
	l.stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(l.stop)
	return l
}

// until waits for something to be true.
func (l *liveTest) until(what string, f func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("never %s: %+v\n%s", what, l.live.Status(), l.log)
		}
	}
}

// caughtUp waits until all watches are there, and returns an instant up to which all is known.
func (l *liveTest) caughtUp() time.Time {
	l.t.Helper()
	l.until("watching", func() bool {
		for _, s := range l.live.Status() {
			if s.Judged && !s.Watching && !s.Refused && !s.Absent {
				return false
			}
		}
		return true
	})
	time.Sleep(2 * time.Millisecond) // the graph rounds the end of an interval up to a millisecond
	now := time.Now()
	l.until("caught up", func() bool { return l.live.CaughtUp(now) })
	return now
}

// proven is caughtUp, with a sign of life from each watch thereafter: no breaking off makes it doubtful.
func (l *liveTest) proven() time.Time {
	l.t.Helper()
	now := l.caughtUp()
	l.c.bookmark()
	l.until("proven", func() bool {
		for _, s := range l.live.Status() {
			if s.Judged && s.Watching && s.Known.Before(now) { // of the others a watch may begin after the bookmark
				return false
			}
		}
		return true
	})
	return now
}

// interrupted waits until no watch is there.
func (l *liveTest) interrupted() {
	l.t.Helper()
	l.until("interrupted", func() bool {
		for _, s := range l.live.Status() {
			if s.Watching {
				return false
			}
		}
		return true
	})
}

// seesPod waits until a pod is, or is not, in the state.
func (l *liveTest) seesPod(name string, there bool) {
	l.t.Helper()
	l.until(fmt.Sprintf("%s seen: %t", name, there), func() bool {
		_, ok := l.state.Graph.PodNode("shop", name, time.Now().Add(time.Hour))
		return ok == there
	})
}

// says is the verdict on a request for a secret.
func says(t testing.TB, s *State, node, secret string, at time.Time) string {
	t.Helper()
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	return decide(nodeauthz.NewAuthorizer(s.Graph, f, 0), node, secret, at).Verdict.String()
}

func decide(a *nodeauthz.Authorizer, node, secret string, at time.Time) nodeauthz.Answer {
	return a.Decide(&authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup}},
		Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "shop", Name: secret, ResourceRequest: true,
	}, at)
}

func (l *liveTest) expect(node, secret string, at time.Time, want string) {
	l.t.Helper()
	if got := says(l.t, l.state, node, secret, at); got != want {
		l.t.Errorf("%s of %s at %s: %s, want %s", secret, node, at.UTC().Format(journalTime), got, want)
	}
}

func (c *fakeCluster) count(of map[string]int, path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return of[path]
}

func lines(t *testing.T, text string) int {
	t.Helper()
	return strings.Count(text, "\n")
}

func clusterRole(name, uid string) map[string]any {
	return map[string]any{"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": map[string]any{"name": name, "uid": uid}}
}
