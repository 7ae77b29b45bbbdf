package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/golden"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// check holds what was written against testdata/name.
func check(t *testing.T, name string, got []byte) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", name), string(got))
}

func at(ms int) time.Time {
	return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// log makes judgements as the pipeline would, with the real rules. Each has an auditID and a time of its own.
type log struct {
	t      *testing.T
	b      *Builder
	memory *rules.Memory
	n      int
}

func newLog(t *testing.T) *log { return &log{t: t, b: NewBuilder(), memory: rules.NewMemory()} }

// change adjusts a request before the rules see it.
type change func(*rules.Request)

// add takes in a request such as "worker-1 get secrets shop/db": by a kubelet, allowed by Node in both words.
func (l *log) add(what string, changes ...change) *pipeline.Judgement {
	l.t.Helper()
	l.n++
	j := judged(what, changes...)
	j.Event.AuditID = fmt.Sprintf("audit-%d", l.n)
	j.Time = at(100 * l.n)
	for _, r := range rules.All() {
		if r.Check == nil {
			continue
		}
		if f, found := r.Find(&j.Request, nil, l.memory); found {
			j.Findings = append(j.Findings, pipeline.Finding{Finding: f, Rule: r})
		}
	}
	l.b.Add(j)
	return j
}

func judged(what string, changes ...change) *pipeline.Judgement {
	parts := append(strings.SplitN(what, " ", 4), "")
	node, resource, name := parts[0], parts[2], parts[3]
	a := &authorizer.AttributesRecord{Verb: parts[1], APIVersion: "v1", Name: name, ResourceRequest: true}
	resource, a.APIGroup, _ = strings.Cut(resource, ".")
	a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		a.Namespace, a.Name = namespace, name
	}
	j := &pipeline.Judgement{Request: rules.Request{
		Event: &audit.Event{
			Verb: a.Verb, UserAgent: "kubelet/v1.36.3 (linux/amd64)", SourceIPs: []string{"10.0.0.1"}, Code: 200,
			User: audit.User{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
		},
		Attrs: a, Time: at(0), Node: node, IsNode: true, Allowed: true, Answer: nodeauthz.Answer{Verdict: nodeauthz.Allow},
		Observed: rules.Observed{Decision: "allow", Authorizer: rules.ByNode, NodeVerdict: nodeauthz.Allow},
	}}
	for _, c := range changes {
		c(&j.Request)
	}
	return j
}

// denied is a request that both refuse.
func denied(r *rules.Request) {
	const reason = "no relationship found between node 'worker-1' and this object"
	r.Answer = nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: reason}
	r.Observed = rules.Observed{Decision: "forbid", NodeVerdict: nodeauthz.Deny, Reason: reason}
	r.Allowed, r.Event.Code = false, 403
}

// byRBAC is a request that Node denies and the ClusterRoleBinding lets through.
func byRBAC(binding string) change {
	return func(r *rules.Request) {
		denied(r)
		r.Grant = rbac.Grant{
			Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: binding}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: "system:node"},
			Subject: rbac.SubjectRef{Kind: "Group", Name: "system:nodes"},
		}
		r.HasGrant, r.Allowed, r.Event.Code = true, true, 200
		r.Observed.Decision, r.Observed.Authorizer, r.Observed.Grant, r.Observed.HasGrant = "allow", rules.ByRBAC, r.Grant, true
	}
}

func code(c int32) change { return func(r *rules.Request) { r.Event.Code = c } }

// admission has NodeRestriction answer with a verdict and the API server as observed.
func admission(v nodeadmission.Verdict, said nodeadmission.Observed) change {
	return func(r *rules.Request) {
		r.Admission.Answer = nodeadmission.Answer{Verdict: v}
		if r.Admission.Observed = said; v == nodeadmission.Deny {
			r.Admission.Code, r.Admission.Message = 403, r.Event.StatusMessage
		}
	}
}

func agent(ua string) change { return func(r *rules.Request) { r.Event.UserAgent = ua } }

func race(r *rules.Request) { r.Answer.Race = true }

func ours(v nodeauthz.Verdict) change { return func(r *rules.Request) { r.Answer.Verdict = v } }

func theirs(v nodeauthz.Verdict) change { return func(r *rules.Request) { r.Observed.NodeVerdict = v } }

// stranger is a member of system:nodes without a node's name.
func stranger(name string) change {
	return func(r *rules.Request) { r.Event.User.Username, r.Node, r.IsNode = name, "", false }
}

// facts of a log that was read well, with complete state.
func facts(read int64) Facts {
	from, to := at(0), at(60_000)
	return Facts{
		HasState: true, Events: Events{Read: read, Node: read, Judged: read},
		State:         State{Objects: map[string]int{"Pod": 3, "Node": 2}, From: &from, To: &to},
		Authorization: Authorization{Mode: "Node,RBAC", Inferred: true, KubernetesVersion: "1.36"},
	}
}

// sample is a small log with something of everything.
func sample(t *testing.T) *Report {
	l := newLog(t)
	l.add("worker-1 get secrets shop/web")
	l.add("worker-1 get pods shop/web-1", race)
	l.add("worker-2 get pods shop/web-1", denied, race)
	l.add("worker-1 get configmaps shop/settings", denied)
	l.add("worker-1 get secrets shop/db", byRBAC("legacy:system:node"), agent("calico-node/v3.20.0"))
	l.add("worker-1 get secrets shop/db", byRBAC("legacy:system:node"), agent("calico-node/v3.20.0"))
	l.add("worker-2 list services ", byRBAC("legacy:system:node"))
	l.add("worker-2 get pods shop/gone", byRBAC("legacy:system:node"), code(404))
	l.add("worker-2 get secrets shop/late", denied, ours(nodeauthz.Allow))
	l.add("worker-1 patch nodes worker-2", code(403), admission(nodeadmission.Deny, nodeadmission.ObservedDeny))
	l.add("worker-2 get nodes worker-2", ours(nodeauthz.Unknown), theirs(nodeauthz.NotNode))
	l.add(" get nodes worker-3", stranger("kubelet"), denied)
	f := facts(14)
	f.Cluster = "shop <b>"
	f.Events.Malformed, f.Events.Skipped, f.Events.Duplicates = 1, 2, 3
	f.Events.MalformedAt = []Place{{File: "audit.log", Line: 7, Cause: "unexpected end"}}
	f.Gaps = []codes.Gap{{Code: codes.KindMissing, Params: codes.Params{codes.Text(codes.ParamKind, "PersistentVolume")}}}
	f.Authorization.FeatureGates = map[string]bool{"AuthorizeNodeWithSelectors": false}
	f.Checks, f.Waivers = someChecks("shop/db")
	return l.b.Report(f)
}

func text(t *testing.T, r *Report, form Text) string {
	t.Helper()
	var b bytes.Buffer
	if err := form.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asJSON(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asHTML(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func asMarkdown(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteMarkdown(&b, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// someChecks are results in each state, with a waiver that holds and one that covers nothing. The name is that of an object of the log.
func someChecks(name string) ([]checks.Result, []checks.Applied) {
	var all []checks.Result
	for _, c := range checks.All() {
		all = append(all, checks.Result{Check: c.Name, State: checks.Passed, Expected: 12, Seen: 12})
	}
	of := func(check string) *checks.Result {
		return &all[slices.IndexFunc(all, func(r checks.Result) bool { return r.Check == check })]
	}
	r := of("nothing-depends")
	r.State, r.Next, r.Evidence = checks.Failed, checks.Next{Code: checks.NextMoveClients}, []checks.Item{
		{State: checks.Passed, Code: checks.CodeHarmlessUse, Client: "kubelet", Object: name, Value: "ClusterRoleBinding " + name},
		{
			State: checks.Failed, Code: checks.CodeNeedsBinding, Node: name, Request: "get secrets", Object: name, Client: name, Value: "ClusterRoleBinding " + name,
			From: at(500), To: at(600), Count: 2, AuditIDs: []string{name},
		},
	}
	r = of("window-covered")
	*r = checks.Result{Check: r.Check, Expected: 720, Seen: 360, Next: checks.Next{Code: checks.NextGetLog}, Evidence: []checks.Item{
		{Code: checks.CodeRenewalsMissing, Node: name, From: at(0), To: at(3_600_000), Expected: 360, Seen: 0},
	}}
	r = of("every-event-judged")
	*r = checks.Result{Check: r.Check, Expected: 11, Seen: 10, Evidence: []checks.Item{{Code: checks.CodeUnreadable, Line: name}}}
	of("identities-conform").State = checks.Failed
	of("birth-guarded").State = checks.Unproven
	return checks.Apply(all, []checks.Waiver{
		{Check: "every-event-judged", Scope: checks.Scope{Lines: []string{name}}, Owner: name, Reason: name, Expires: at(0)},
		{Check: "agreement", Owner: "jane", Reason: "none", Expires: at(0)},
	}, at(0))
}
