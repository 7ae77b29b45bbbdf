package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLive(t *testing.T) {
	c := newFakeCluster(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.pod(name, "u"+name, "n1", "s"+name)
	}
	before := time.Now()
	l := startLive(t, c, LiveConfig{})
	synced := l.caughtUp()
	if !l.live.Synced() {
		t.Error("not synced")
	}
	l.expect("n1", "sa", synced, "allow")
	l.expect("n1", "none", synced, "deny")
	l.expect("n2", "sa", synced, "deny")
	l.expect("n2", "sa", before, "unknown")

	c.pod("e", "ue", "n2", "sa")
	l.seesPod("e", true)
	with := l.caughtUp()
	c.remove(podsPath, "shop/e")
	l.seesPod("e", false)
	without := l.caughtUp()
	l.expect("n2", "sa", synced, "deny")
	l.expect("n2", "sa", with, "allow")
	l.expect("n2", "sa", without, "deny")
	if sum := l.state.Summary(); sum.Objects["Pod"] != 5 || sum.From.Before(before) || sum.To.Before(with) {
		t.Errorf("%+v", sum)
	}
	if w := said(l.live.Gaps()); len(w) != 0 {
		t.Error(w)
	}
	if !l.state.PodsWatched(without) || l.state.PodsWatched(before.Add(-time.Second)) {
		t.Error("pods are not watched from the list on")
	}
}

// Until all is listed nothing is denied, however long that takes.
func TestLiveBeforeTheCluster(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	c.down(true)
	l := startLive(t, c, LiveConfig{})
	l.until("an error", func() bool { return l.live.Status()[kindPod].Errors > 3 })
	during := time.Now()
	if l.live.Synced() || !l.live.Watermark(time.Now()).IsZero() || l.live.CaughtUp(during) {
		t.Error("synced without a cluster")
	}
	if w := strings.Join(said(l.live.Gaps()), "\n"); !strings.Contains(w, "kind Pod could not be listed yet") {
		t.Error(w)
	}
	l.expect("n1", "sa", during, "unknown")
	c.down(false)
	after := l.caughtUp()
	l.expect("n1", "none", during, "unknown")
	l.expect("n1", "none", after, "deny")
	l.expect("n1", "sa", after, "allow")
}

// A watch that breaks off resumes where it was: no hole.
func TestLiveReconnects(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	l := startLive(t, c, LiveConfig{})
	before := l.proven()
	c.down(true)
	l.interrupted()
	c.pod("b", "ub", "n1", "sb")
	during := time.Now()
	if l.live.CaughtUp(during) {
		t.Error("caught up without a cluster")
	}
	if w := l.live.Watermark(time.Now()); w.Before(before.Add(-time.Second)) || w.After(during) {
		t.Errorf("known until %s", w)
	}
	l.expect("n1", "sb", during, "unknown")
	if w := strings.Join(said(l.live.Gaps()), "\n"); !strings.Contains(w, "the watch of kind Pod is interrupted") {
		t.Error(w)
	}
	c.remove(podsPath, "shop/b")
	c.down(false)
	after := l.caughtUp()
	l.expect("n1", "none", during, "deny")
	l.expect("n1", "sb", after, "deny")
	if n := l.state.Summary().Objects["Pod"]; n != 2 {
		t.Errorf("%d pods were seen", n)
	}
	if h := l.state.Gaps(before, after); len(h) != 3 { // nodes and roles: there are none
		t.Error(h)
	}
}

// What the API server has forgotten is a hole.
func TestLiveListsAgain(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	l := startLive(t, c, LiveConfig{Dir: t.TempDir()})
	before := l.proven()
	c.down(true)
	l.interrupted()
	c.pod("b", "ub", "n1", "sb")
	during := time.Now()
	c.remove(podsPath, "shop/b")
	c.remove(podsPath, "shop/a")
	c.forget()
	c.down(false)
	after := l.caughtUp()
	check := func(s *State) {
		t.Helper()
		for _, x := range []struct {
			secret string
			at     time.Time
			want   string
		}{{"sa", before, "allow"}, {"sb", during, "unknown"}, {"sa", during, "allow"}, {"sb", after, "deny"}, {"sa", after, "deny"}} {
			if got := says(t, s, "n1", x.secret, x.at); got != x.want {
				t.Errorf("%s at %s: %s, want %s", x.secret, x.at, got, x.want)
			}
		}
		if w := strings.Join(said(s.Gaps(before, after)), "\n"); !strings.Contains(w, "the cluster was not watched for") {
			t.Error(w)
		}
	}
	check(l.state)
	l.stop()
	s := NewState()
	if err := s.Load([]string{l.cfg.Dir}, nil); err != nil {
		t.Fatal(err)
	}
	check(s)
}

// A kind that may not be listed leaves unknown what depends on it, and nothing else.
func TestLiveRefused(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	c.refuse["/apis/storage.k8s.io/v1/volumeattachments"] = 403
	for _, version := range kinds[kindResourceSlice].Versions {
		c.refuse["/apis/resource.k8s.io/"+version+"/resourceslices"] = 404
	}
	l := startLive(t, c, LiveConfig{})
	at := l.proven()
	if !l.live.Synced() {
		t.Error("a refused kind blocks")
	}
	l.expect("n1", "none", at, "deny")
	if w := said(l.live.Gaps()); len(w) != 1 || !strings.Contains(w[0], "VolumeAttachment may not be listed") {
		t.Error(w)
	}
	if s := l.live.Status()[kindResourceSlice]; !s.Absent || s.Refused {
		t.Errorf("%+v", s)
	}
	c.do(func() { c.refuse[volumesPath] = 403; c.epoch++ })
	l.until("refused", func() bool { return l.live.Status()[kindPersistentVolume].Refused })
	later := l.caughtUp()
	l.expect("n1", "none", later, "unknown") // it may be one that a volume needs
	l.expect("n1", "none", at, "deny")
	c.do(func() { delete(c.refuse, volumesPath) })
	l.until("watching", func() bool { return l.live.Status()[kindPersistentVolume].Watching })
	l.expect("n1", "none", l.caughtUp(), "deny")
}

// An API server that starts refuses all until it knows its RBAC objects: that is no matter of RetryRefused, and no reason to list again.
func TestLiveRefusedForAMoment(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	cfg := LiveConfig{}
	cfg.Record.RetryRefused = time.Hour
	l := startLive(t, c, cfg)
	l.caughtUp()
	before := c.count(c.lists, podsPath)
	c.do(func() { c.refuse[podsPath] = 403; c.epoch++ })
	l.until("refused", func() bool { return l.live.Status()[kindPod].Refused })
	c.do(func() { delete(c.refuse, podsPath) })
	c.pod("b", "ub", "n1", "sb")
	l.until("watching", func() bool { return l.live.Status()[kindPod].Watching })
	l.seesPod("b", true)
	if n := c.count(c.lists, podsPath); n > before+2 {
		t.Errorf("%d lists, %d before", n, before)
	}
	l.expect("n1", "sa", l.caughtUp(), "allow")
}

// A connection that is dead without a word is noticed.
func TestLiveSilence(t *testing.T) {
	c := newFakeCluster(t)
	c.pod("a", "ua", "n1", "sa")
	cfg := LiveConfig{}
	cfg.Record.Silence = 200 * time.Millisecond
	l := startLive(t, c, cfg)
	l.caughtUp()
	c.do(func() { c.mute = true })
	c.pod("b", "ub", "n1", "sb")
	l.until("given up", func() bool { return strings.Contains(l.log.String(), "no sign of life") })
	c.do(func() { c.mute = false })
	l.seesPod("b", true)
	if n := c.count(c.lists, podsPath); n > 40 {
		t.Errorf("%d lists", n)
	}
}

func TestLiveResumes(t *testing.T) {
	c := newFakeCluster(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.pod(name, "u"+name, "n1", "s"+name)
	}
	c.put(rolesPath, clusterRole("admin", "admin-1"))
	dir := t.TempDir()
	l := startLive(t, c, LiveConfig{Dir: dir})
	before := l.proven()
	l.stop()
	c.pod("f", "uf", "n1", "sf")
	during := time.Now()
	c.remove(podsPath, "shop/f")
	c.remove(podsPath, "shop/a")
	lists := c.count(c.lists, podsPath)
	l = startLive(t, c, LiveConfig{Dir: dir})
	l.expect("n1", "sa", before, "allow")
	l.expect("n1", "none", before, "deny")
	l.expect("n1", "none", during, "unknown") // not known yet
	after := l.caughtUp()
	l.expect("n1", "none", during, "deny")
	l.expect("n1", "sf", after, "deny")
	l.expect("n1", "sa", after, "deny")
	l.expect("n1", "sb", after, "allow")
	if n := c.count(c.lists, podsPath); n > lists+2 {
		t.Errorf("listed again: %d requests", n-lists)
	}
	if n := l.state.Summary().Objects["Pod"]; n != 6 {
		t.Errorf("%d pods were seen", n)
	}
	if !l.state.PodsWatched(before) || !l.state.PodsWatched(after) {
		t.Error("pods are not watched")
	}
}

// Where the past is forgotten, or is another cluster's, all is listed again.
func TestLiveDoesNotResume(t *testing.T) {
	for name, change := range map[string]func(*fakeCluster){
		"forgotten": func(c *fakeCluster) { c.forget() },
		"restored from a backup": func(c *fakeCluster) {
			c.do(func() { c.rv, c.log = 90, nil }) // what came after it never was
		},
		"another cluster": func(c *fakeCluster) {
			c.put(rolesPath, clusterRole("admin", "admin-2"))
			c.do(func() { c.log = nil })
		},
		"another cluster, by its pods": func(c *fakeCluster) {
			c.remove(rolesPath, "/admin")
			c.remove(podsPath, "shop/a")
			c.pod("a", "another", "n2", "sx")
			c.do(func() { c.log = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster(t)
			c.put(rolesPath, clusterRole("admin", "admin-1"))
			c.pod("a", "ua", "n1", "sa")
			c.pod("b", "ub", "n1", "sb")
			dir := t.TempDir()
			l := startLive(t, c, LiveConfig{Dir: dir})
			before := l.proven()
			l.stop()
			c.pod("c", "uc", "n1", "sc")
			c.remove(podsPath, "shop/b")
			change(c)
			during := time.Now()
			l = startLive(t, c, LiveConfig{Dir: dir})
			after := l.caughtUp()
			l.expect("n1", "none", before, "deny")
			l.expect("n1", "none", during, "unknown")
			l.expect("n1", "none", after, "deny")
			l.expect("n1", "sb", before, "allow")
			l.expect("n1", "sb", after, "deny")
			l.expect("n1", "sc", after, "allow")
		})
	}
}

// Roles and nodes have their holes too.
func TestLiveHolesOfRolesAndNodes(t *testing.T) {
	c := newFakeCluster(t)
	c.put(rolesPath, clusterRole("r", "r"))
	c.put("/api/v1/nodes", map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "n1", "uid": "n"}})
	before := time.Now()
	l := startLive(t, c, LiveConfig{})
	synced := l.proven()
	c.down(true)
	l.interrupted()
	during := time.Now()
	f := func(at time.Time, want bool) {
		t.Helper()
		if got := l.state.RBAC.Covers(at); got != want {
			t.Errorf("roles at %s: %t", at, got)
		}
		if _, got := l.state.Nodes.Known("n2", at); got != want {
			t.Errorf("nodes at %s: %t", at, got)
		}
	}
	f(before, false)
	f(during, false)
	c.forget()
	c.down(false)
	after := l.caughtUp()
	f(before, false)
	f(synced, true)
	f(during, false)
	f(after, true)
}

func TestLiveDirIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newFakeCluster(t)
	l := startLive(t, c, LiveConfig{})
	l.cfg.Dir = path
	if _, err := NewLive(l.cfg, NewState(), l.live.log); err == nil || !strings.Contains(err.Error(), "folder of the state's journal") {
		t.Error(err)
	}
}
