package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// plenty is more than any of these tests has.
func plenty() Limits { return Limits{Window: 100 * 365 * 24 * time.Hour, Nodes: 1000, Changes: 1000} }

// TestEvidenceIsExplains holds what Evidence finds in one pass against what Explain finds by listing all paths.
func TestEvidenceIsExplains(t *testing.T) {
	var questions []string
	for ns := range 2 {
		for n := range 4 {
			questions = append(questions, fmt.Sprintf("get secrets ns-%d/secret-%d", ns, n))
		}
		for n := range 2 {
			questions = append(questions, fmt.Sprintf("get configmaps ns-%d/cm-%d", ns, n), fmt.Sprintf("get persistentvolumeclaims ns-%d/claim-%d", ns, n),
				fmt.Sprintf("get persistentvolumes pv-%d", n), fmt.Sprintf("get pods ns-%d/pod-%d", ns, n))
		}
	}
	paths, changes := 0, 0
	for seed := range effort.Of(uint64(60), 4) {
		r := rand.New(rand.NewPCG(1, seed))
		script := randomScript(r, 1200)
		g, whole := NewGraph(), NewGraph()
		g.CoverFrom(at(50))
		script.play(g, whole)
		a := authorizerOver(t, g, 5*time.Millisecond)
		for _, text := range questions {
			for node := range 4 {
				request := ask(t, fmt.Sprintf("node-%d", node), text)
				for ms := -20; ms < 420; ms += 37 {
					ex, ev := a.Explain(request, at(ms)), a.Evidence(request, at(ms), plenty())
					if ex.Path != nil {
						ex.Last, ex.Next = nil, nil
					}
					words := func(p *Path) string {
						if p == nil {
							return ""
						}
						return fmt.Sprintf("%s %s %s", p, p.From, p.To)
					}
					want := []any{ex.Answer, *ex.Object, words(ex.Path), words(ex.Last), words(ex.Next), ex.Detail}
					got := []any{ev.Answer, *ev.Object, words(ev.Path), words(ev.Last), words(ev.Next), ev.Detail}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("seed %d, %s by node-%d at %d (-explain +evidence):\n%s", seed, text, node, ms, diff)
					}
					others := map[string]int{}
					for i := range ex.Leads {
						others[ex.Leads[i].Steps[len(ex.Leads[i].Steps)-1].Name]++
					}
					counted := map[string]int{}
					for _, o := range ev.Others {
						counted[o.Node] = o.Paths
					}
					if diff := cmp.Diff(others, counted); diff != "" && ex.Others == 0 {
						t.Fatalf("seed %d, %s by node-%d at %d (-leads +others):\n%s", seed, text, node, ms, diff)
					}
					checkChanges(t, g, ev, at(ms))
					paths += len(ev.Others)
					changes += len(ev.Changes)
				}
			}
		}
	}
	if paths < effort.Of(1000, 200) || changes < effort.Of(10_000, 2000) {
		t.Errorf("only %d paths and %d changes were compared", paths, changes)
	}
}

// checkChanges holds that changes are in order, and that each path that is there began and ended by some of them.
func checkChanges(t *testing.T, g *Graph, ev Evidence, now time.Time) {
	t.Helper()
	began, ended := map[time.Time]bool{}, map[time.Time]bool{}
	for i := range ev.Changes {
		c := &ev.Changes[i]
		if i > 0 && c.At.Time.Before(ev.Changes[i-1].At.Time) {
			t.Fatalf("changes are not in order: %+v", ev.Changes)
		}
		if len(c.Steps) < 2 || c.Node != "" && c.Steps[len(c.Steps)-1].Kind == KindNone && c.Steps[len(c.Steps)-1].Name != c.Node {
			t.Fatalf("a change without an edge: %+v", c)
		}
		if c.Began {
			began[c.At.Time.Add(-c.At.Lag)] = true
		} else {
			ended[c.At.Time.Add(c.At.Slop)] = true
		}
	}
	if ev.Earlier != 0 || ev.Later != 0 {
		t.Fatalf("%d and %d are not listed", ev.Earlier, ev.Later)
	}
	all := newest(g).Reach(*ev.Object, time.Time{}, time.Time{}, 1000)
	for i := range all.Paths {
		p := &all.Paths[i]
		if !p.From.IsZero() && !began[p.From] || !p.To.IsZero() && !ended[p.To] {
			t.Fatalf("no change tells of %s %s %s: %+v", p, p.From, p.To, ev.Changes)
		}
	}
	here := newest(g).Reach(*ev.Object, now, now, 1000)
	want := len(ev.Others)
	if ev.Path != nil {
		want++
	}
	if here.Nodes != want || here.MorePaths != 0 {
		t.Fatalf("%d nodes reach it, want %d: %v", here.Nodes, want, here.Paths)
	}
}

// said are changes in words: the milliseconds since the epoch, + or -, the steps, the source.
func said(ev Evidence) (out []string) {
	for _, c := range ev.Changes {
		sign := "-"
		if c.Began {
			sign = "+"
		}
		out = append(out, fmt.Sprintf("%d%s %s by %d", c.At.Time.Sub(epoch).Milliseconds(), sign, Path{Steps: c.Steps}, c.At.Source))
	}
	return out
}

func TestChanges(t *testing.T) {
	g := covered()
	p := webPod("n1")
	p.ServiceAccountName, p.ConfigMaps, p.PersistentVolumeClaims = "", nil, []string{"data"}
	p.Secrets = []string{"db"}
	g.SetPod(p, watched(at(100)))
	debugged := *p
	debugged.EphemeralContainers, debugged.Secrets = 1, []string{"db", "debug"}
	g.SetPod(&debugged, watched(at(200)))
	g.SetPersistentVolume(&PersistentVolume{Name: "pv", UID: "v", Claim: &NamespacedName{"shop", "data"}, Secrets: []NamespacedName{{"shop", "csi"}}}, audited(at(150)))
	g.DeletePod("shop", "web-1", p.UID, ownStamp(at(3000)))
	a := authorizerOver(t, g, 0)
	for text, want := range map[string][]string{
		"get secrets shop/db":    {"100+ secret shop/db -> pod shop/web-1 -> node n1 by 1", "3000- secret shop/db -> pod shop/web-1 -> node n1 by 0"},
		"get secrets shop/debug": {"100+ pod shop/web-1 -> node n1 by 1", "200+ secret shop/debug -> pod shop/web-1 by 1", "3000- secret shop/debug -> pod shop/web-1 -> node n1 by 0"},
		"get secrets shop/csi": {
			"100+ persistent volume claim shop/data -> pod shop/web-1 -> node n1 by 1",
			"150+ secret shop/csi -> persistent volume pv -> persistent volume claim shop/data by 2",
			"3000- persistent volume claim shop/data -> pod shop/web-1 -> node n1 by 0",
		},
		"get persistentvolumes pv": {
			"100+ persistent volume claim shop/data -> pod shop/web-1 -> node n1 by 1",
			"150+ persistent volume pv -> persistent volume claim shop/data by 2",
			"3000- persistent volume claim shop/data -> pod shop/web-1 -> node n1 by 0",
		},
		"get pods shop/web-1":      {"100+ pod shop/web-1 -> node n1 by 1", "3000- pod shop/web-1 -> node n1 by 0"},
		"get secrets shop/nothing": nil,
	} {
		if diff := cmp.Diff(want, said(a.Evidence(ask(t, "n1", text), at(160), plenty()))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	ev := a.Evidence(ask(t, "n1", "get secrets shop/db"), at(160), plenty())
	if last := ev.Changes[1].At; last.Slop != time.Second {
		t.Errorf("the end is known to %s", last.Slop)
	}
}

// TestChangesAreBounded has more than are wanted within the window, and some outside of it.
func TestChangesAreBounded(t *testing.T) {
	g := covered()
	put := func(name, node string, from, to int) {
		p := webPod(node)
		p.Name, p.UID, p.Secrets = name, name, []string{"db"}
		g.SetPod(p, watched(at(from)))
		if to > 0 {
			g.DeletePod("shop", name, name, watched(at(to)))
		}
	}
	put("first", "n1", 10, 20)
	for i := range 300 {
		put(fmt.Sprint("pod-", i), "n2", 100_000+i*10, 0)
	}
	put("last", "n1", 900_000, 0)
	a := authorizerOver(t, g, 0)
	ev := a.Evidence(ask(t, "n1", "get secrets shop/db"), at(101_505), Limits{Window: 5 * time.Second, Nodes: 5, Changes: 4})
	want := []string{
		"20- secret shop/db -> pod shop/first -> node n1 by 1",
		"101490+ secret shop/db -> pod shop/pod-149 -> node n2 by 1",
		"101500+ secret shop/db -> pod shop/pod-150 -> node n2 by 1",
		"101510+ secret shop/db -> pod shop/pod-151 -> node n2 by 1",
		"101520+ secret shop/db -> pod shop/pod-152 -> node n2 by 1",
		"900000+ secret shop/db -> pod shop/last -> node n1 by 1",
	}
	if diff := cmp.Diff(want, said(ev)); diff != "" || ev.Earlier != 149 || ev.Later != 147 {
		t.Errorf("%d and %d not listed (-want +got):\n%s", ev.Earlier, ev.Later, diff)
	}
	if ev.Last == nil || ev.Next == nil || len(ev.Others) != 1 || ev.Others[0].Paths != 151 {
		t.Errorf("%+v", ev)
	}
	// With no window the nearest are there all the same.
	ev = a.Evidence(ask(t, "n3", "get secrets shop/db"), at(50), Limits{})
	if diff := cmp.Diff([]string{"20- secret shop/db -> pod shop/first -> node n1 by 1", "100000+ secret shop/db -> pod shop/pod-0 -> node n2 by 1"}, said(ev)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEvidenceOfManyNodes has an object that 5,000 nodes reach by 4 pods each.
func TestEvidenceOfManyNodes(t *testing.T) {
	const nodes = 5000
	g := covered()
	for i := range nodes * 4 {
		p := &Pod{Namespace: "shop", Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprint(i), NodeName: fmt.Sprintf("node-%04d", i%nodes), ConfigMaps: []string{"kube-root-ca.crt"}}
		g.SetPod(p, watched(at(i)))
	}
	a := authorizerOver(t, g, 0)
	request := ask(t, "node-0000", "get configmaps shop/kube-root-ca.crt")
	ev := a.Evidence(request, at(nodes*4), Limits{Window: time.Hour, Nodes: 3, Changes: 2})
	var others []string
	for _, o := range ev.Others {
		others = append(others, fmt.Sprintf("%s by %s of %d", o.Node, o.Path.Steps[1].Name, o.Paths))
	}
	want := []string{"node-0001 by pod-1 of 4", "node-0002 by pod-2 of 4", "node-0003 by pod-3 of 4"}
	if diff := cmp.Diff(want, others); diff != "" || ev.MoreOthers != nodes-4 || ev.Path == nil {
		t.Errorf("and %d more (-want +got):\n%s", ev.MoreOthers, diff)
	}
	if ev.Earlier+ev.Later != nodes*4-3 || len(ev.Changes) != 3 { // two, and the nearest of the node that asks // the node's own nearest is next to them
		t.Errorf("%d changes, and %d and %d more", len(ev.Changes), ev.Earlier, ev.Later)
	}
	r := newest(g).Reach(Step{Kind: KindConfigMap, Namespace: "shop", Name: "kube-root-ca.crt"}, at(0), at(7), 3)
	var names []string
	for i := range r.Paths {
		names = append(names, r.Paths[i].Steps[1].Name)
	}
	if diff := cmp.Diff([]string{"pod-0", "pod-1", "pod-2"}, names); diff != "" || r.MorePaths != 5 || r.Nodes != 8 {
		t.Errorf("%d nodes, %d more (-want +got):\n%s", r.Nodes, r.MorePaths, diff)
	}
}

func TestEvidenceOfNoNode(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	f := func(name, text string, object *Step, others ...string) {
		t.Helper()
		r := ask(t, "n1", text)
		r.User = &user.DefaultInfo{Name: name}
		ev := a.Evidence(r, at(0), plenty())
		var got []string
		for _, o := range ev.Others {
			got = append(got, o.Node)
		}
		if diff := cmp.Diff(object, ev.Object); diff != "" || ev.Verdict != NotNode || !slices.Equal(got, others) || ev.Path != nil {
			t.Errorf("%s: %s, %v (-want +got):\n%s", text, ev.Verdict, got, diff)
		}
	}
	f("jane", "get secrets shop/db", &Step{KindSecret, "shop", "db"}, "n1")
	f("jane", "delete secrets shop/nothing", &Step{KindSecret, "shop", "nothing"})
	f("jane", "list secrets shop/", nil)
	f("jane", "get nodes n1", nil)
	if ev := a.Evidence(ask(t, "", "get secrets shop/db"), at(0), plenty()); ev.Object != nil || ev.Verdict != Deny {
		t.Errorf("a node without a name: %+v", ev)
	}
	if ev := a.Evidence(ask(t, "n9", "get secrets shop/db"), at(0), plenty()); ev.Verdict != Deny || len(ev.Others) != 1 || ev.Last != nil {
		t.Errorf("a node that nobody knows: %+v", ev)
	}
}

func TestReachIsNotAlwaysKnown(t *testing.T) {
	object := Step{Kind: KindSecret, Namespace: "shop", Name: "db"}
	f := func(g *Graph, want string) {
		t.Helper()
		if r := newest(g).Reach(object, at(0), at(1000), 10); !strings.Contains(r.Missing, want) || want == "" && r.Missing != "" {
			t.Errorf("missing: %q, want %q", r.Missing, want)
		}
	}
	if ev := authorizerOver(t, NewGraph(), 0).Evidence(ask(t, "n1", "get secrets shop/db"), at(0), plenty()); ev.Missing != "no complete state was given" {
		t.Errorf("missing: %q", ev.Missing)
	}
	f(NewGraph(), "no complete state was given")
	f(covered(), "")
	g := NewGraph()
	g.CoverFrom(at(500))
	f(g, "the state begins at ")
	g = covered()
	g.Prune(at(500))
	f(g, "what ended before ")
	g = covered()
	g.Uncovered(KindPod, at(900), at(2000))
	f(g, "pods were not watched from ")
	if got := KindOfResource("", "secrets"); got != KindSecret {
		t.Errorf("secrets are %v", got)
	}
}

func TestEvidenceWhileTheGraphChanges(t *testing.T) {
	g := covered()
	a := authorizerOver(t, g, 0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			p := webPod(fmt.Sprintf("n%d", i%7))
			p.Name, p.UID, p.Secrets = fmt.Sprint("pod-", i%50), fmt.Sprint(i), []string{"db"}
			g.SetPod(p, watched(at(i)))
			if i%3 == 0 {
				g.DeletePod("shop", p.Name, p.UID, watched(at(i+1)))
			}
			if i%100 == 0 {
				g.Prune(at(i - 500))
			}
		}
	})
	request := ask(t, "n1", "get secrets shop/db")
	for i := range 300 {
		ev := a.Evidence(request, at(i*10), Limits{Window: time.Second, Nodes: 10, Changes: 10})
		if (ev.Verdict == Allow) != (ev.Path != nil) {
			t.Errorf("%s with path %v", ev.Verdict, ev.Path)
		}
		newest(g).Reach(*ev.Object, at(i*10), at(i*10+1000), 10)
	}
	close(stop)
	wg.Wait()
}

// BenchmarkEvidence explains a request for an object that 150,000 pods on 5,000 nodes use: for so long writers of the graph wait.
func BenchmarkEvidence(b *testing.B) {
	g := covered()
	for i := range 150_000 {
		g.SetPod(&Pod{Namespace: "shop", Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprint(i), NodeName: fmt.Sprintf("node-%04d", i%5000),
			ConfigMaps: []string{"kube-root-ca.crt"}}, watched(at(i)))
	}
	a := authorizerOver(b, g, time.Second)
	request := ask(b, "node-0000", "get configmaps shop/kube-root-ca.crt")
	b.Run("evidence", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Evidence(request, at(150_000), Limits{Window: 10 * time.Minute, Nodes: 200, Changes: 100})
		}
	})
	b.Run("reach", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newest(g).Reach(Step{Kind: KindConfigMap, Namespace: "shop", Name: "kube-root-ca.crt"}, at(0), at(150_000), 200)
		}
	})
	b.Run("explain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Explain(request, at(150_000))
		}
	})
}
