package cluster

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// etcd is restored from a backup while somebody watches: resource versions go back, what was made since is gone, and what was deleted since is there again with its
// UID. A watch from before begins and says nothing.
func TestRestoredWhileWatched(t *testing.T) {
	for name, refused := range map[string]bool{"at once": false, "lists are refused at first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster(t)
			c.put(rolesPath, clusterRole("admin", "admin-1"))
			made := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
			old := func(name, secret string) map[string]any {
				p := fakePod(name, "u"+name, "n1", secret)
				p["metadata"].(map[string]any)["creationTimestamp"] = made
				p["status"] = map[string]any{"conditions": []any{map[string]any{"type": "PodScheduled", "status": "True", "lastTransitionTime": made}}}
				return p
			}
			c.put(podsPath, old("stays", "s-stays"))
			c.put(podsPath, old("back", "s-back"))
			c.put(podsPath, old("other", "s-other"))
			backup, kept := 0, map[string]map[string]any{}
			c.do(func() { backup, kept = c.rv, maps.Clone(c.objects[podsPath]) })

			l := startLive(t, c, LiveConfig{Dir: t.TempDir()})
			l.caughtUp() // so that it has begun all watches, for which the other one waits, too
			j := &continued{t: t, c: c}
			j.begin()
			begun := l.proven()
			c.do(func() { c.rv += 5000 })
			c.pod("late", "u-late", "n2", "s-late")
			c.remove(podsPath, "shop/back")
			c.remove(podsPath, "shop/other")
			j.r.until(`"u-late"`)
			before := l.proven()
			j.sign()
			time.Sleep(10 * time.Millisecond)

			c.down(true)
			l.interrupted()
			during := time.Now()
			c.do(func() {
				c.rv, c.log, c.objects[podsPath] = backup, nil, kept
				for _, p := range kept {
					p["metadata"].(map[string]any)["resourceVersion"] = "101"
				}
				if refused {
					c.refuse["list "+podsPath] = 503
				}
			})
			c.down(false)
			if refused {
				time.Sleep(3 * l.cfg.Record.catchUp)
				if l.live.CaughtUp(during) || len(l.live.Gaps()) == 0 {
					t.Error("caught up, although nobody could ask for the version")
				}
				c.do(func() { delete(c.refuse, "list "+podsPath) })
			}
			l.until("listed again", func() bool {
				_, late := l.state.Graph.PodNode("shop", "late", time.Now())
				return !late
			})
			c.pod("new", "u-new", "n2", "s-new")
			l.seesPod("new", true)
			c.put(podsPath, old("other", "s-other")) // a restored pod changes
			j.r.until(`"u-new"`)                     // both have listed again
			after := l.proven()
			j.sign()
			j.end(0)
			l.stop()

			dir := NewState()
			if err := dir.Load([]string{l.cfg.Dir}, nil); err != nil {
				t.Fatal(err)
			}
			for by, s := range map[string]*State{"live": l.state, "the journal of live": dir, "record": j.load()} {
				for _, x := range []struct{ node, secret, begun, before, during, after string }{
					{"n1", "s-stays", "allow", "allow", "", "allow"},
					{"n1", "s-back", "allow", "deny", "", "allow"},
					{"n1", "s-other", "allow", "deny", "", "allow"},
					{"n2", "s-late", "deny", "allow", "", "deny"},
					{"n2", "s-new", "deny", "deny", "", "allow"},
					{"n2", "none", "deny", "deny", "unknown", "deny"},
				} {
					for i, want := range []string{x.begun, x.before, x.during, x.after} {
						at := []time.Time{begun, before, during, after}[i]
						if got := says(t, s, x.node, x.secret, at); want != "" && got != want {
							t.Errorf("%s: %s of %s at %d: %s, want %s", by, x.secret, x.node, i, got, want)
						}
					}
				}
				if g := strings.Join(said(s.Gaps(begun, after)), "\n"); !strings.Contains(g, "the cluster was not watched for") {
					t.Errorf("%s: no hole: %s", by, g)
				}
			}
			if n := strings.Count(l.log.String(), `"kind":"Pod","error":"to be listed again"`); n != 1 {
				t.Errorf("pods went back %d times:\n%s", n, l.log)
			}
		})
	}
}
