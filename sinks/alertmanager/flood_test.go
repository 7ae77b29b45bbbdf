package alertmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/sinks"
)

// A node that makes up namespaces, resources and names has few alerts; what it and another node were allowed in the midst of that is reported as if nothing
// else had been, also by an analyzer that starts then and reads the store.
func TestAttack02FewAlertsAndEachTheft(t *testing.T) {
	t.Run("findings", func(t *testing.T) { flooded(t, func(*Options) {}) })
	t.Run("incidents", func(t *testing.T) { flooded(t, byIncident) })
}

func flooded(t *testing.T, mode func(*Options)) {
	b := newBench(t, 1)
	s := b.begin(mode)
	refused := []struct{ rule, severity, resource string }{
		{"out-of-scope-secret-read", "medium", "secrets"}, {"out-of-scope-secret-read", "low", "configmaps"}, {"foreign-node-write", "high", "nodes"},
		{"persistent-node-deny", "medium", "secrets"}, {"node-credential-misuse", "high", ""},
	}
	add := func(f sinks.Finding) {
		b.store.add(f)
		s.Add([]sinks.Finding{f})
	}
	theft := func(node, namespace, resource, name, severity string) {
		f := b.finding(node, name, 0)
		f.ID, f.Namespace, f.Resource, f.Severity = "theft-"+node+name, namespace, resource, severity
		add(f)
	}
	const rounds = 4000
	for i := range rounds {
		r := refused[i%len(refused)]
		f := b.finding("worker-1", strings.Repeat("x", 200)+fmt.Sprint(i), 0)
		f.Rule, f.Severity, f.Resource, f.Allowed, f.Authorized = r.rule, r.severity, r.resource, false, false
		f.Namespace = fmt.Sprint("made-up-", i%700)
		if i%3 == 0 {
			f.Resource = fmt.Sprint("kind-", i)
		}
		add(f)
		switch i {
		case rounds / 2:
			theft("worker-1", "shop", "secrets", "db", "critical")
			theft("worker-2", "shop", "secrets", "db", "critical")
		case rounds - 100: // in the middle of refused ones of the same severity, namespace and resource
			theft("worker-1", f.Namespace, f.Resource, "settings", f.Severity)
		}
	}
	check := func(when string) {
		t.Helper()
		firing, _ := b.peers[0].has()
		if len(firing) > 50 {
			t.Errorf("%s: %d alerts", when, len(firing))
		}
		told := map[string]bool{}
		for _, r := range b.peers[0].received() {
			if r.Annotations["allowed"] != "true" {
				continue
			}
			for _, name := range strings.Split(r.Annotations["objects"], ", ") {
				if slices.Contains([]string{"shop/db"}, name) || strings.HasSuffix(name, "/settings") {
					told[r.Labels["node"]+" "+name[strings.Index(name, "/")+1:]] = true
				}
			}
		}
		for _, want := range []string{"worker-1 db", "worker-2 db", "worker-1 settings"} {
			if !told[want] {
				t.Errorf("%s: no alert names %s; there are %q", when, want, firing)
			}
		}
	}
	b.pass(time.Minute)
	check("as it comes")
	s = b.begin(mode)
	b.pass(time.Minute)
	check("after a restart")
	if st := s.Stats(); st.Firing > 50 {
		t.Errorf("%+v", st)
	}
}
