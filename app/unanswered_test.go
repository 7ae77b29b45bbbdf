package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/rules"
)

// A write that the API server answers with a time-out (504) may have been carried out, whatever the answer, and the client chooses after how long that is. What
// fails before NodeRestriction is asked shows nothing of it.
func TestWritesThatFailAroundNodeRestriction(t *testing.T) {
	for _, c := range []struct {
		name   string
		plant  func(p *failedWrite)
		reason rules.Reason
		state  checks.State
	}{
		{"nothing", func(*failedWrite) {}, "", checks.Passed},
		{"a pod that is made after the time-out", (*failedWrite).pod, rules.BypassUnanswered, checks.Unproven},
		{"a label that is set after the time-out", (*failedWrite).label, rules.BypassUnanswered, checks.Unproven},
		{"another node's label, in a time-out", func(p *failedWrite) {
			p.patch(p.other, 504, "Timeout", "Timeout: request did not complete within requested timeout")
		}, rules.WriteUnanswered, checks.Unproven},
		{"a patch that cannot be applied", func(p *failedWrite) {
			p.patch(p.other, 422, "Invalid", "testing value /metadata/labels/x failed: test failed")
		}, rules.WriteFailed, checks.Passed},
		{"a deletion by a UID that the pod has not", (*failedWrite).remove, rules.WriteFailed, checks.Passed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := threeHours(t, 45, days.Options{Minor: 36, Features: days.KubeadmJoin | days.Rotation, NoBinding: true})
			probe, _ := days.Named("probe-plugin", 1)
			d, _ = probe.Apply(d)
			p := newFailedWrite(d)
			c.plant(p)
			a := analyzedDay(t, p.day)
			for _, r := range a.Facts.Checks {
				if r.Check == "node-restriction-on" && r.State != c.state {
					t.Errorf("%s is %s, want %s", r.Check, r.State, c.state)
				}
			}
			found := false
			for _, f := range a.Report.Findings {
				found = found || f.Reason == c.reason && f.Severity == rules.High.String()
			}
			if found != (c.reason != "") {
				t.Errorf("no high finding of %s in %+v", c.reason, a.Report.Findings)
			}
			if got := checks.Conclude(checks.Confined, a.Facts.Checks, nil).Answer; (got == checks.AnswerConfined) != (c.reason == "") {
				t.Errorf("the answer is %s", got)
			}
		})
	}
}

// failedWrite puts requests of a node's kubelet into a day.
type failedWrite struct {
	day         *days.Day
	like        *days.Event // of the kubelet
	node, other string
	at          time.Time
	n           int
}

func newFailedWrite(d *days.Day) *failedWrite {
	day := *d
	p := &failedWrite{day: &day, at: d.From.Add(100 * time.Minute)}
	p.node, p.other = d.NodeNames[0], d.NodeNames[1]
	for _, e := range d.Events {
		if e.IsNode() && e.User.Username == "system:node:"+p.node && e.Received.Before(p.at) && e.Verb == "update" && e.Stage == days.StageComplete {
			p.like = e
		}
	}
	return p
}

func (p *failedWrite) event(after time.Duration, verb, uri string, ref *days.Ref, code int, reason, message string, body any) {
	p.n++
	e := *p.like
	e.Level, e.AuditID, e.Verb, e.URI, e.Ref = "Request", fmt.Sprintf("0d6f2a51-0000-4000-8000-00000000000%d", p.n), verb, uri, ref
	e.Received, e.Staged, e.Code, e.Reason, e.Message = p.at.Add(after), p.at.Add(after+12*time.Millisecond), code, reason, message
	e.Decision, e.DecisionReason = "allow", ""
	e.Request, _ = json.Marshal(body)
	p.day.Events = append(slices.Clone(p.day.Events), &e)
	slices.SortStableFunc(p.day.Events, func(a, b *days.Event) int { return a.Staged.Compare(b.Staged) })
}

func (p *failedWrite) state(change, kind, namespace, name string, object map[string]any) {
	p.day.State = append(slices.Clone(p.day.State), &days.Entry{At: p.at.Add(20 * time.Millisecond), Type: change, Kind: kind, Namespace: namespace, Name: name, Object: object})
	slices.SortStableFunc(p.day.State, func(a, b *days.Entry) int { return a.At.Compare(b.At) })
}

// last is the latest object of the kind of which is is true.
func (p *failedWrite) last(kind string, is func(e *days.Entry) bool) (out *days.Entry) {
	for _, e := range p.day.State {
		if e.Kind == kind && e.Type != "DELETED" && e.At.Before(p.at.Add(-time.Minute)) && is(e) {
			out = e
		}
	}
	return out
}

func (p *failedWrite) pod() {
	spec := map[string]any{"nodeName": p.node, "containers": []any{map[string]any{"name": "c", "image": "x", "envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "root"}}}}}}
	meta := map[string]any{"namespace": "vault", "name": "odd"}
	ref := &days.Ref{Version: "v1", Resource: "pods", Namespace: "vault", Name: "odd"}
	p.event(0, "create", "/api/v1/namespaces/vault/pods?timeout=8ms", ref, 504, "Timeout", "Timeout: request did not complete within requested timeout - context canceled",
		map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec})
	made := maps.Clone(meta)
	made["uid"], made["creationTimestamp"] = "0d6f2a51-uid", p.at.UTC().Format(time.RFC3339)
	p.state("ADDED", "Pod", "vault", "odd", map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec, "status": map[string]any{"phase": "Pending"}})
	p.event(4*time.Second, "get", "/api/v1/namespaces/vault/secrets/root", &days.Ref{Version: "v1", Resource: "secrets", Namespace: "vault", Name: "root"}, 200, "", "", nil)
}

func (p *failedWrite) patch(node string, code int, reason, message string) {
	p.event(0, "patch", "/api/v1/nodes/"+node+"?timeout=8ms", &days.Ref{Version: "v1", Resource: "nodes", Name: node}, code, reason, message,
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"node-restriction.kubernetes.io/pool": "db"}}})
}

func (p *failedWrite) label() {
	p.patch(p.node, 504, "Timeout", "Timeout: request did not complete within requested timeout - context canceled")
	was := p.last("Node", func(e *days.Entry) bool { return e.Name == p.node })
	node, meta := maps.Clone(was.Object), maps.Clone(was.Object["metadata"].(map[string]any))
	labels := map[string]any{"node-restriction.kubernetes.io/pool": "db"}
	if was, ok := meta["labels"].(map[string]any); ok {
		maps.Copy(labels, was)
	}
	node["metadata"], meta["labels"] = meta, labels
	p.state("MODIFIED", "Node", "", p.node, node)
}

func (p *failedWrite) remove() {
	pod := p.last("Pod", func(e *days.Entry) bool {
		spec, _ := e.Object["spec"].(map[string]any)
		return spec["nodeName"] == p.other
	})
	p.event(0, "delete", "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, &days.Ref{Version: "v1", Resource: "pods", Namespace: pod.Namespace, Name: pod.Name}, 409, "Conflict",
		`Operation cannot be fulfilled on Pod "x": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated`,
		map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]any{"uid": "a"}})
}
