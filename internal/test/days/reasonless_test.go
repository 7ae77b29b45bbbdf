package days

import (
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// An authorizer that gives no reasons hides no theft: what it allows looks like the word of the Node authorizer.
func TestTheftByAuthorizerWithoutReason(t *testing.T) {
	for name, c := range map[string]struct {
		verb, namespace, name string
		used                  bool // by a pod on another node
		unwatched             bool // the journal ends before
		want                  rules.Severity
	}{
		"all secrets":                                 {verb: "list", want: rules.Critical},
		"a secret of another node":                    {verb: "get", namespace: "vault", name: "root", used: true, want: rules.Critical},
		"a secret that nobody knows":                  {verb: "get", namespace: "vault", name: "root", want: rules.Critical},
		"a secret that nobody knows, after the state": {verb: "get", namespace: "vault", name: "root", unwatched: true, want: rules.Low},
	} {
		t.Run(name, func(t *testing.T) {
			day := clean(t, 31, Options{Span: leastSpan, Nodes: 3})
			d := day.copyOf()
			m := &mutator{newRand(7, d.Seed), d}
			at, node, other := m.moment(), d.NodeNames[0], d.NodeNames[1]
			if c.used {
				m.addState(object("v1", "Pod", c.namespace, "vault-0", uuid(m.Rand), m.From.Add(-80*minute), map[string]any{
					"spec": map[string]any{
						"nodeName": other, "serviceAccountName": "default", "containers": []any{map[string]any{"name": "c", "image": "i"}},
						"volumes": []any{map[string]any{"name": "s", "secret": map[string]any{"secretName": c.name}}},
					},
				}))
			}
			if c.unwatched {
				d.State = slices.DeleteFunc(d.State, func(e *Entry) bool { return e.At.After(at) })
			}
			e := *m.like(node, at) // with the kubelet's user agent and address
			e.AuditID, e.Stage, e.Verb, e.Code, e.Received, e.Staged = uuid(m.Rand), StageComplete, c.verb, 200, at, at.Add(milli)
			e.URI, e.Ref = resSecrets.path(c.namespace, c.name, ""), &Ref{Version: "v1", Resource: "secrets", Namespace: c.namespace, Name: c.name}
			e.Request, e.Decision, e.DecisionReason, e.Message, e.Reason, e.Issued = nil, "allow", "", "", "", ""
			m.add(&e)
			got := analyze(t, d)
			if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
				return f.Severity == c.want.String() && f.Rule == "out-of-scope-secret-read" && f.Node == node && f.Name == c.name && f.Allowed
			}) {
				t.Errorf("no finding of severity %s: %+v", c.want, got.Findings)
			}
		})
	}
}
