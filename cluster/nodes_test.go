package cluster

import "testing"

func TestSimilarNodes(t *testing.T) {
	s := NewState()
	for _, name := range []string{"worker-1", "ip-172-28-68-60", "ip-10-0-0-1.eu-west-1.compute.internal", "db.example.org"} {
		s.Nodes.set(name, "u-"+name, ownTime(base.UnixNano()))
	}
	f := func(name, want string, how Similarity) {
		t.Helper()
		got, gotHow, ok := s.Nodes.Similar(name)
		if got != want || gotHow != how || ok != (want != "") {
			t.Errorf("%s: %q %v %v", name, got, gotHow, ok)
		}
	}
	f("Worker-1", "worker-1", SimilarCase)
	f("ip-172-28-68-60.eu-west-1.compute.internal", "ip-172-28-68-60", SimilarHost)
	f("ip-10-0-0-1", "ip-10-0-0-1.eu-west-1.compute.internal", SimilarHost)
	f("DB", "db.example.org", SimilarHost)
	f("db.example.com", "", 0)
	f("worker-1", "", 0)
	f("worker-2", "", 0)
	f("", "", 0)
}

func TestNodeLives(t *testing.T) {
	node := func(uid, created string) string {
		return `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"` + uid + `","creationTimestamp":"` + at(t, created).Format("2006-01-02T15:04:05Z") + `"}}`
	}
	s := load(t, event(t, "10s", "ADDED", node("a", "0s"))+event(t, "20s", "DELETED", node("a", "0s"))+event(t, "30.5s", "ADDED", node("b", "30s")))
	for when, want := range map[string]bool{"1s": true, "15s": true, "25s": false, "31s": true} {
		if exists, _ := s.NodeKnown("w1", at(t, when)); exists != want {
			t.Errorf("at %s: %v", when, exists)
		}
	}
	if _, covered := s.NodeKnown("w1", at(t, "5s")); covered {
		t.Error("covered before the first observation")
	}
	s.Prune(at(t, "25s"))
	if exists, _ := s.NodeKnown("w1", at(t, "15s")); exists {
		t.Error("not pruned")
	}
}
