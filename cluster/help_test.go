package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/lent"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/wording"
)

// base is the instant from which the tests count.
var base = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

// at is base moved by a duration such as "1m2.5s".
func at(t *testing.T, after string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(after)
	if err != nil {
		t.Fatal(err)
	}
	return base.Add(d)
}

// write makes a file in a folder of the test's own and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load makes a state of files with the given contents.
func load(t *testing.T, contents ...string) *State {
	t.Helper()
	paths := make([]string, len(contents))
	for i, c := range contents {
		paths[i] = write(t, "state.json", c)
	}
	s := NewState()
	if err := s.Load(paths, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// timeline asks at each instant where a pod is and returns what was answered: a node's name or "-".
func timeline(t *testing.T, g *nodeauthz.Graph, namespace, name string, instants ...string) []string {
	t.Helper()
	var out []string
	for _, i := range instants {
		node, ok := g.PodNode(namespace, name, at(t, i))
		if !ok {
			node = "-"
		}
		out = append(out, node)
	}
	return out
}

// podVerdict is that on a get of shop's pod by node w1.
func podVerdict(a *nodeauthz.Authorizer, pod string, at time.Time) string {
	return a.Decide(authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:w1", Groups: []string{"system:nodes"}}, Verb: "get", Resource: "pods", Namespace: "shop", Name: pod, ResourceRequest: true,
	}, at).Verdict.String()
}

// podJSON is a pod; created and bound are instants (empty: none), node may be empty.
func podJSON(t *testing.T, name, uid, node, created, bound string, more string) string {
	t.Helper()
	conditions := ""
	if bound != "" {
		conditions = `{"type":"PodScheduled","status":"True","lastTransitionTime":"` + at(t, bound).Format(time.RFC3339) + `"}`
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"` + name + `","uid":"` + uid + `","creationTimestamp":"` +
		at(t, created).Format(time.RFC3339) + `"` + more + `},"spec":{"nodeName":"` + node + `"},"status":{"conditions":[` + conditions + `]}}`
}

// event is a journal entry; observed may be empty.
func event(t *testing.T, observed, verb, object string) string {
	t.Helper()
	clock := ""
	if observed != "" {
		clock = `"observedAt":"` + at(t, observed).Format(time.RFC3339Nano) + `",`
	}
	return `{` + clock + `"type":"` + verb + `","object":` + object + "}\n"
}

// said are gaps in words.
func said(gaps []codes.Gap) []string {
	var out []string
	for i := range gaps {
		out = append(out, wording.English{}.Say(gaps[i].Code, gaps[i].Params))
	}
	return out
}

// deciding are those in words that leave not enough evidence.
func deciding(gaps []codes.Gap) []string {
	return said(slices.DeleteFunc(gaps, func(g codes.Gap) bool { return !g.Decides() }))
}

// applyLent applies an event, and overwrites it when it is applied: the state must keep nothing of it.
func applyLent(s *State, ev *audit.Event) {
	of, takeBack := lent.Copy(ev)
	s.ApplyAudit(of)
	takeBack()
}
