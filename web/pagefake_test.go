package web

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// fake has views that are full, with names that a test chooses.
type fake struct {
	views // what is not faked is not asked for
	// name makes a name of a cluster's out of a plain one.
	name func(string) string
	// many is how many there are of what a page lists.
	many int
	err  error
	// answer is the verdict, waivers how many it rests on; "" is not ready.
	answer  string
	waivers int
}

func at(minutes int) time.Time { return time.Date(2026, 11, 20, 10, minutes, 0, 0, time.UTC) }

func ptr[T any](v T) *T { return &v }

func (f *fake) window() report.Window { return report.Window{From: ptr(at(0)), To: ptr(at(90))} }

func (f *fake) binding1() report.Binding {
	return report.Binding{Kind: "ClusterRoleBinding", Name: f.name("legacy:system:node")}
}

func (f *fake) incident1(i int) incidents.Incident {
	object := incidents.Object{Resource: "secrets", Namespace: f.name("shop"), Name: f.name("db")}
	return incidents.Incident{
		ID: fmt.Sprintf("id%06d", i), Credential: f.name(fmt.Sprintf("worker-%d", i)), Kind: incidents.OfNode,
		State: []incidents.State{incidents.Open, incidents.Quiet, incidents.Closed}[i%3], Severity: []string{"critical", "high", "medium"}[i%3],
		First: at(1), Last: at(21), Requests: 540, Refused: 500, Succeeded: 40, Findings: 580, Excepted: i % 2,
		Addresses: []incidents.Seen{{Value: f.name("198.51.100.9"), First: at(1), Last: at(21)}}, UserAgents: []incidents.Seen{{Value: f.name("curl"), First: at(1), Last: at(21)}},
		Rules: []string{"out-of-scope-secret-read", "rbac-excess-access"},
		Timeline: []incidents.Moment{
			{At: at(1), Code: incidents.FirstRefusal, Message: "first refusal: get secrets " + f.name("db")}, {At: at(2), Code: incidents.FirstSuccess, Message: "first success: get secrets " + f.name("db")},
		},
		Reached: []incidents.Row{
			{Verb: "get", Object: object, Severity: "critical", Succeeded: true, Requests: 1, First: at(2), Last: at(2), Rules: []string{"out-of-scope-secret-read"}},
			{Verb: "get", Object: object, Severity: "medium", Requests: 500, First: at(1), Last: at(2), Rules: []string{"out-of-scope-secret-read"}},
			{Wide: true, Severity: "high", Requests: 12, First: at(1), Last: at(2), Rules: []string{"rbac-excess-access"}, Beside: true},
		},
		Bindings: []incidents.Binding{incidents.Binding(f.binding1())}, Rotate: []incidents.Object{object},
		Contain: []incidents.Step{{Code: incidents.Drain, Message: "Cordon and drain node " + f.name("worker"), Commands: []string{"kubectl cordon worker"}}, {Code: incidents.Rotate, Message: "Rotate what was read: 1 object"}},
	}
}

func (f *fake) incidents(_ context.Context, credential, _ string) (*IncidentsPage, error) {
	if f.err != nil {
		return nil, f.err
	}
	out := &IncidentsPage{Window: f.window(), Credential: credential, More: 3}
	for i := range f.many {
		out.Incidents = append(out.Incidents, f.incident1(i))
	}
	return out, nil
}

func (f *fake) incident(_ context.Context, id string) (*IncidentPage, error) {
	if f.err != nil {
		return nil, f.err
	}
	if id == "nowhere" {
		return nil, errNotFound
	}
	return &IncidentPage{Incident: f.incident1(int(id[len(id)-1] - '0'))}, nil
}

func (f *fake) finding1(i int) Finding {
	b := f.binding1()
	return Finding{ID: fmt.Sprintf("id%06d", i), Finding: report.Finding{
		Rule: "out-of-scope-secret-read", Severity: []string{"critical", "high", "medium", "low"}[i%4], Node: f.name(fmt.Sprintf("worker-%d", i)),
		Count: int64(12345 + i), First: at(1), Last: at(80), Verb: "get", Resource: "secrets", Namespace: f.name("shop"), Name: f.name("db"),
		UserAgent: f.name("fluentd"), Binding: &b, Allowed: i%2 == 0, Authorized: i%2 == 0 || i%3 == 0,
		Origins: tally.Origins{
			Users: []string{f.name("system:node:worker-1")}, Groups: []string{f.name("system:nodes")}, Impersonated: []string{}, Answers: []int32{0, 200, 404},
			Addresses: []tally.Address{{Address: f.name("10.0.0.7"), Node: f.name("worker-1")}},
		},
		AuditIDs: []string{f.name("a-b-c")}, Runbook: "docs/rules/x.md",
		Reason: rules.ReadSucceeded, Message: fmt.Sprintf("node %q got the secret %s/%s", f.name("worker"), f.name("shop"), f.name("db")),
	}}
}

func (f *fake) list(n int) []Finding {
	var out []Finding
	for i := range n {
		out = append(out, f.finding1(i))
	}
	return out
}

func (f *fake) trend(n int) Trend {
	t := Trend{Step: "hour"}
	for i := range n {
		t.Points = append(t.Points, Point{At: at(60 * i), Allow: 900, Deny: int64(i % 7), Unknown: int64(i % 2), Excess: int64(max(0, n/2-i))})
	}
	return t
}

func (f *fake) client(i int) report.Client {
	c := report.Client{
		UserAgent: f.name(fmt.Sprintf("calico-%d", i)), Binding: f.name("ClusterRoleBinding legacy:system:node"), Requests: int64(1000 - i), Nodes: 3, First: at(0), Last: at(77),
		Days: []report.Day{{Day: "2026-11-18", Count: 50}, {Day: "2026-11-19", Count: 7}, {Day: "2026-11-20"}}, More: 2,
	}
	if i > 30 {
		return c // nobody looks at these
	}
	for k := range min(f.many, report.MaxNeeds) {
		c.Needs = append(c.Needs, report.Need{
			Node: f.name("worker-1"), Verb: "get", Resource: "secrets", Namespace: f.name("shop"), Name: f.name(fmt.Sprintf("db-%d", k)), Count: 4, Last: at(6),
		})
	}
	return c
}

func (f *fake) overview(context.Context, string) (*Overview, error) {
	if f.err != nil {
		return nil, f.err
	}
	o := &Overview{
		Cluster: f.name("prod"), Now: at(100), Window: f.window(), Trend: f.trend(10), Incidents: []incidents.Incident{f.incident1(0)}, NodeCount: f.many + 1,
		Readiness: report.Readiness{
			Verdict: cmp.Or(f.answer, report.VerdictNotReady), Waivers: f.waivers, Evidence: "insufficient", Checks: f.checksOf(checks.Ready),
		},
		Confinement: report.Confinement{Verdict: "not enough evidence", Checks: f.checksOf(checks.Confined)},
		Authorization: report.Authorization{
			Mode: "Node,RBAC", Inferred: true, KubernetesVersion: f.name("1.36"), FeatureGates: map[string]bool{"AuthorizeNodeWithSelectors": true},
		},
		Events: report.Events{Read: 123456, Node: 4000, Judged: 3000}, State: report.State{Objects: map[string]int{"pods": 4, "nodes": 3}},
		Verdicts: report.Verdicts{Allow: 2000, Deny: 900, Unknown: 100}, Agreement: report.Agreement{Compared: 3000, Agree: 2999},
		Severities: []Count{{"critical", 12345}, {"low", 3}}, Rules: []Count{{"rbac-excess-access", 12000}, {"node-identity", 4}},
		Sources: []Source{
			{Name: f.name("/var/log/audit.log"), Kind: "file", Healthy: true, Message: "12 events a second", Events: 4711, Last: ptr(at(99))},
			{Name: f.name("kafka"), Kind: "kafka", Message: f.name("no broker answers")},
		},
	}
	r := &o.Readiness
	for i := range f.many {
		r.Blockers = append(r.Blockers, fmt.Sprintf("%d requests of %q would break without %s", i, f.name("calico"), f.name("legacy")))
		missing := report.Hole{Gap: codes.Gap{Kind: codes.Log}, Message: f.name("ten minutes are missing")}
		r.Holes, r.Doubts = append(r.Holes, missing), append(r.Doubts, missing, report.Hole{Message: f.name("something else")})
		r.Warnings = append(r.Warnings, f.name("ten minutes are missing"), f.name("something else"))
		r.Clients = append(r.Clients, f.client(i))
		r.Identities = append(r.Identities, report.Identity{
			Identity: f.name("system:node:Worker-1"), Reason: "letter case", Message: f.name("the name is in capitals"), Requests: 7, Clients: []string{f.name("kubelet")}, Last: at(9),
		})
		r.Denials = append(r.Denials, report.Denial{Node: f.name("worker-2"), UserAgent: f.name("kubelet"), Message: f.name("get secrets"), First: at(1), Last: at(70)})
		r.Unseen = append(r.Unseen, f.name(fmt.Sprintf("silent-%d", i)))
		if i < 12 {
			r.Plan = append(r.Plan, report.Step{What: f.name("Delete the binding"), Commands: []string{"kubectl delete clusterrolebinding " + f.name("'legacy'"), "nodetrail report"}})
		}
		if i < 20 {
			o.Nodes = append(o.Nodes, report.Node{Name: f.name(fmt.Sprintf("worker-%d", i)), Requests: 10, Deny: 3, Excess: 2})
		}
		o.Agreement.Disagree = append(o.Agreement.Disagree, report.Disagreement{AuditID: f.name("x-y"), Time: at(3), Node: f.name("worker-1"), Verb: "get", Resource: "pods"})
	}
	return o, nil
}

// checksOf are the checks of a question: in turn failed, unproven, waived and passed, with items that are hostile where the names are.
func (f *fake) checksOf(q checks.Question) []report.Check {
	var out []report.Check
	for i, c := range checks.All() {
		if c.Questions&q == 0 {
			continue
		}
		state := []checks.State{checks.Failed, checks.Unproven, checks.Waived, checks.Passed}[i%4]
		x := report.Check{Name: c.Name, Question: c.Questions.String(), State: state.String(), Expected: 12345, Seen: int64(i), Page: c.Page(), More: 2 * f.many}
		if state != checks.Passed {
			x.NextCode, x.Next = "move-clients", f.name("Move each client that is listed")
		}
		for k := range min(f.many, 200) {
			x.Evidence = append(x.Evidence, report.CheckItem{
				State: state.String(), Code: "needs-binding", Node: f.name("worker-1"), AuditIDs: []string{f.name("a-b-c"), f.name("d"), f.name("e"), f.name("f")},
				Message: fmt.Sprintf("%s needs %s: %d times", f.name("fluentd"), f.name("legacy:system:node"), k),
			})
		}
		out = append(out, x)
	}
	return out
}

func (f *fake) checks(context.Context, string) (*ChecksPage, error) {
	r := report.Report{
		Readiness:   report.Readiness{Verdict: "not ready", Checks: f.checksOf(checks.Ready)},
		Confinement: report.Confinement{Verdict: "not enough evidence", Waivers: 1, Checks: f.checksOf(checks.Confined)},
	}
	p := &ChecksPage{Window: f.window(), Questions: r.Questions()}
	for i := range f.many {
		p.Waivers = append(p.Waivers, report.Waiver{Check: f.name("policy-known"), Owner: f.name("jane"), Reason: f.name("nobody can change it"), Expires: at(0), Covers: i, Expired: i == 1})
		p.Exceptions = append(p.Exceptions, report.Exception{
			Exception: exceptions.Exception{Rule: rules.ExcessAccess, Match: f.name(`finding.node == "a"`), Owner: f.name("jane"), Reason: f.name("it moves in January"), Expires: at(0)},
			Expired:   i == 1, Findings: i, Requests: 12345,
		})
		p.Paste += "- check: policy-known\n  owner: " + f.name("jane") + "\n"
	}
	return p, f.err
}

func (f *fake) check(_ context.Context, name, _ string) (*CheckPage, error) {
	for _, q := range []checks.Question{checks.Ready, checks.Confined} {
		for _, c := range f.checksOf(q) {
			if c.Name == name {
				return &CheckPage{Check: c, Title: "A claim", Doc: "# A claim\n\n## What it claims\nThat 'x' is so, and `y`.\n", Window: f.window()}, f.err
			}
		}
	}
	return nil, errNotFound
}

func (f *fake) findings(_ context.Context, q FindingsQuery) (*FindingsPage, error) {
	if f.err != nil {
		return nil, f.err
	}
	p := &FindingsPage{Query: q, Window: f.window(), Findings: f.list(min(cmp.Or(q.Limit, 50), f.many)), Total: f.many, Requests: 99999, Next: "next=&", Previous: "before"}
	for i := range min(f.many, 100) {
		c := []Count{{f.name(fmt.Sprintf("x%d", i)), int64(i)}}
		p.Facets.Nodes = append(p.Facets.Nodes, c...)
		p.Facets.UserAgents = append(p.Facets.UserAgents, c...)
		p.Facets.Bindings = append(p.Facets.Bindings, c...)
		p.Facets.Namespaces = append(p.Facets.Namespaces, c...)
	}
	p.Facets.Rules = []Count{{"rbac-excess-access", 4}, {"node-identity", 5}}
	if q.Group != "" {
		for i := range min(f.many, 1000) {
			p.Groups = append(p.Groups, Group{Name: f.name(fmt.Sprintf("g%d", i)), Severity: "high", Findings: 3, Requests: 44, Last: at(5)})
		}
	}
	return p, nil
}

func (f *fake) step(kind, name string) explain.Step {
	return explain.Step{Kind: kind, Namespace: f.name("shop"), Name: f.name(name)}
}

func (f *fake) path(node string) explain.Path {
	return explain.Path{Steps: []explain.Step{f.step("secret", "db"), f.step("pod", "web-1"), {Kind: "node", Name: f.name(node)}}, From: ptr(at(2)), To: ptr(at(44))}
}

func (f *fake) grant() explain.Grant {
	return explain.Grant{
		Binding: explain.Binding{Kind: "ClusterRoleBinding", Name: f.name("legacy")}, Role: explain.Role{Kind: "ClusterRole", Name: f.name("system:node")},
		Subject: explain.Subject{Kind: "Group", Name: f.name("system:nodes")}, ForNodes: true, From: ptr(at(0)),
	}
}

func (f *fake) explanation() *explain.Explanation {
	o := f.step("secret", "db")
	x := &explain.Explanation{
		Request: explain.Request{Node: f.name("worker-1"), User: f.name("system:node:worker-1"), Verb: "get", Resource: "secrets", Namespace: f.name("shop"), Name: f.name("db")},
		At:      at(30), Verdict: "deny", Words: []string{f.name("no pod on worker-1 uses the secret")}, Object: &o, Last: ptr(f.path("worker-1")),
		History: explain.History{From: at(0), To: at(60), Earlier: 3, Later: 4},
		NodeRestriction: &explain.NodeRestriction{
			Verdict: "deny", Code: 403, Message: f.name("secrets is forbidden"), Observed: "allow", Outcome: "passed-not-refused",
			Words: []string{f.name("NodeRestriction refuses it with 403.")},
		},
		RBAC: explain.RBAC{Known: true, Allowed: true}, Notes: []string{f.name("a note")},
		Consequences: []explain.Consequence{{Without: f.name("all that is given to nodes"), Outcome: "breaks", Words: f.name("it breaks"), Uncertain: true}},
	}
	for i := range min(f.many, explain.MaxNodes) {
		x.Others.Nodes = append(x.Others.Nodes, explain.NodePath{Node: f.name(fmt.Sprintf("other-%d", i)), Path: f.path("other"), Paths: 1})
	}
	for i := range min(f.many, explain.MaxChanges) {
		x.History.Changes = append(x.History.Changes, explain.Change{
			Time: at(i), Until: at(i + 1), Source: "watch", Began: true, Steps: x.Last.Steps, Node: f.name("worker-1"), Own: true, Nearest: "before", Words: f.name("the pod was bound"),
		})
		x.RBAC.Grants = append(x.RBAC.Grants, f.grant())
	}
	return x
}

func (f *fake) finding(_ context.Context, id string) (*FindingPage, error) {
	if f.err != nil {
		return nil, f.err
	}
	r, _ := f.rule(context.Background(), "out-of-scope-secret-read", "")
	x := f.finding1(0)
	x.ID = id
	return &FindingPage{Finding: x, Rule: *r, Explanation: f.explanation(), Trend: f.trend(6), Related: f.list(10)}, f.err
}

func (f *fake) nodes(_ context.Context, _, _ string, limit int) (*NodesPage, error) {
	p := &NodesPage{Window: f.window(), Total: f.many, Next: "n"}
	for i := range min(limit, f.many) {
		p.Nodes = append(p.Nodes, NodeRow{Node: report.Node{Name: f.name(fmt.Sprintf("worker-%d", i)), Requests: 4, Deny: 3, Excess: 2}, Findings: 5, Severity: "high"})
	}
	for i := range f.many {
		p.Unseen = append(p.Unseen, f.name(fmt.Sprintf("silent-%d", i)))
	}
	return p, f.err
}

func (f *fake) node(_ context.Context, name, _ string) (*NodePage, error) {
	p := &NodePage{
		Node: report.Node{Name: name, Requests: 5000, Deny: 4, Excess: 3}, Known: "no", Trend: f.trend(168), Window: f.window(), Findings: f.list(min(f.many, 100)), Total: f.many,
	}
	for i := range f.many {
		p.Uses = append(p.Uses, Use{Kind: []string{"address", "certificate", "userAgent"}[i%3], Value: f.name("10.0.0.1"), First: at(0), Last: at(4), Count: int64(i)})
	}
	p.Reach = f.nodeReach(name)
	return p, f.err
}

func (f *fake) nodeReach(node string) *explain.NodeReach {
	r := &explain.NodeReach{Node: node, From: ptr(at(0)), To: ptr(at(60)), Notes: []string{f.name("a note")}}
	var read []explain.Use
	for range f.many {
		o := f.step("secret", "db")
		r.Objects = append(r.Objects, explain.NodeObject{Object: o, Access: []string{"get"}, Paths: []explain.Path{f.path(node)}, More: 3})
		r.Rotate = append(r.Rotate, explain.Rotation{Kind: "secret", Namespace: o.Namespace, Name: o.Name, Why: f.name("could be read")})
		g := f.grant()
		r.Accounts = append(r.Accounts, explain.Account{Namespace: o.Namespace, Name: o.Name, Rights: []explain.AccountRight{{
			Binding: g.Binding, Role: g.Role, Subject: g.Subject, Rules: []explain.Rule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{f.name("secrets")}}},
		}}})
		read = append(read, explain.Use{Verb: "get", Resource: "secrets", Namespace: o.Namespace, Name: o.Name, Verdict: "deny", Count: 3, First: at(1), Last: at(2)})
	}
	r.Beyond = explain.BeyondOf(node, read)
	return r
}

func (f *fake) bindings(context.Context, string) (*BindingsPage, error) {
	p := &BindingsPage{Window: f.window()}
	for range f.many {
		p.Bindings = append(p.Bindings, BindingRow{Binding: f.binding1(), Role: f.name("ClusterRole system:node"), Requests: 5, Clients: 3, Nodes: 2, Last: ptr(at(5)), Exists: "yes"})
	}
	return p, f.err
}

func (f *fake) binding(_ context.Context, b report.Binding, _ string) (*BindingPage, error) {
	p := &BindingPage{
		BindingRow: BindingRow{Binding: b, Role: f.name("ClusterRole system:node"), Requests: 5, Clients: 3, Nodes: 2, Last: ptr(at(5)), Exists: "unknown"}, Window: f.window(),
		Trend: f.trend(20), Findings: f.list(min(f.many, 100)), Total: f.many, Commands: []string{"kubectl get clusterrolebinding " + f.name("'legacy'")},
	}
	for i := range f.many {
		p.Subjects = append(p.Subjects, f.name("Group system:nodes"))
		p.Breaks = append(p.Breaks, f.client(i))
	}
	return p, f.err
}

func (f *fake) object(_ context.Context, o Object, _ string) (*ObjectPage, error) {
	r := &explain.Reach{
		Object: explain.ObjectRef{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}, Kind: "secret", From: at(0), To: at(60), Nodes: f.many, Known: true, Words: []string{f.name("what is to be known")},
		Subjects: explain.Subjects{Known: true},
	}
	for i := range min(f.many, explain.MaxNodes) {
		r.Rows = append(r.Rows, explain.ReachRow{Node: f.name(fmt.Sprintf("worker-%d", i)), Path: f.path("worker-1"), Now: i%2 == 0})
		r.Subjects.Grants = append(r.Subjects.Grants, f.grant())
	}
	return &ObjectPage{Object: o, Window: f.window(), Reach: r, Findings: f.list(min(f.many, 100)), Total: f.many}, f.err
}

func (f *fake) rules(context.Context, string) ([]Rule, error) {
	var out []Rule
	for i, r := range rules.All() {
		out = append(out, Rule{Name: r.Name, Severity: r.Severity.String(), Doc: rules.Page(r), Todo: "Look at the 'user agent'.", Enabled: i > 0, Findings: 3, Requests: 6})
	}
	return out, f.err
}

func (f *fake) rule(ctx context.Context, name, window string) (*Rule, error) {
	all, _ := f.rules(ctx, window)
	for i := range all {
		if all[i].Name == name {
			return &all[i], f.err
		}
	}
	return nil, errNotFound
}

// plain leaves names as they are.
func plain(s string) string { return s }

// hostile makes names that want to be more than text: markup, marks that turn the direction, and as long as a name can be.
func hostile(s string) string {
	return `<script>alert("` + s + `")</script>'"--><img src=x onerror=alert(1)>` + "\u202e\u2066\x1b[31m\x00{{.}}" + strings.Repeat("ä", 253)
}
