package checks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/rbac"
)

// The log of the tests begins at noon and ends at 15:20. Three hours are asked for.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	span   = 200 * time.Minute
	asked3 = 3 * time.Hour
)

// at is a time of that day, after noon.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 11, 21, hour, minute, second, 0, time.UTC)
}

// tick is one event of the made-up log.
type tick struct {
	ev audit.Event
	o  evidence.Origin
}

// who names what the event is about: a node, or an API server.
func (t *tick) who() string {
	if t.o.Node != "" {
		return t.o.Node
	}
	return t.ev.ObjectRef.Name
}

func (t *tick) time() time.Time { return t.ev.RequestReceived }
func (t *tick) renews() bool    { return t.ev.ObjectRef.Resource == "leases" && t.ev.Verb == "update" }

func event(node, verb, group, resource, namespace, name string, t time.Time) tick {
	stage := audit.StageResponseComplete
	if verb == "watch" {
		stage = audit.StageResponseStarted
	}
	return tick{
		audit.Event{
			Stage: stage, Verb: verb, Code: 200, RequestReceived: t, StageTime: t, Decision: "allow",
			User:         audit.User{Username: "system:node:" + node, Groups: []string{"system:nodes"}},
			ObjectRef:    audit.ObjectRef{APIGroup: group, Resource: resource, Namespace: namespace, Name: name},
			HasObjectRef: true, UserAgent: "kubelet/v1.36.3",
		},
		evidence.Origin{Node: node, Kubelet: true},
	}
}

// sub returns the event of a subresource.
func sub(t tick, subresource string) tick {
	t.ev.ObjectRef.Subresource = subresource
	return t
}

// cadence is how often what renews.
type cadence func(node string) time.Duration

func tenSeconds(string) time.Duration { return 10 * time.Second }

var usual = sync.OnceValue(func() []tick { return play(tenSeconds) })

// ticks is, for the usual cadence if it is nil, the log of a clean day's part: three nodes, of which worker-0 restarts its kubelet at 13:30, and two API servers, of which one restarts at 14:00.
func ticks(every cadence) []tick {
	if every == nil {
		return slices.Clone(usual())
	}
	return play(every)
}

func play(every cadence) []tick {
	r := rand.New(rand.NewPCG(7, 7))
	var out []tick
	for n := range 3 {
		node := fmt.Sprintf("worker-%d", n)
		for t := time.Duration(r.IntN(9000)) * time.Millisecond; t < span; t += every(node) + time.Duration(r.Int64N(int64(every(node))/25)) {
			out = append(out, event(node, "update", "coordination.k8s.io", "leases", "kube-node-lease", node, noon.Add(t)))
		}
		for _, kind := range []struct{ group, resource string }{
			{"", "pods"}, {"", "nodes"}, {"", "services"}, {"storage.k8s.io", "csidrivers"}, {"node.k8s.io", "runtimeclasses"},
		} {
			for t := time.Duration(0); t < span; {
				length := 5*time.Minute + time.Duration(r.IntN(300))*time.Second
				w := event(node, "watch", kind.group, kind.resource, "", "", noon.Add(t))
				w.ev.Stage, w.ev.StageTime = audit.StageResponseComplete, noon.Add(t+length)
				out = append(out, w)
				t += length + time.Second
			}
		}
		for t := time.Minute; t < span; t += 5 * time.Minute {
			report := sub(event(node, "patch", "", "nodes", "", node, noon.Add(t)), "status")
			if n == 1 { // an old kubelet
				report.ev.UserAgent = "kubelet/v1.30.14"
				out = append(out, event(node, "get", "", "nodes", "", node, noon.Add(t)))
			}
			out = append(out, report)
		}
		for p := range 3 {
			came, went := at(13, 2, p), at(14, 10, p)
			out = append(out, event(node, "get", "", "pods", "shop", "web", came), sub(event(node, "patch", "", "pods", "shop", "web", came), "status"),
				sub(event(node, "create", "", "serviceaccounts", "shop", "web", came), "token"), event(node, "delete", "", "pods", "shop", "web", went))
		}
		out = append(out, event(node, "get", "", "secrets", "shop", "db", at(13, 2, 0)), event(node, "watch", "", "configmaps", "shop", "web", at(13, 2, 0)))
	}
	for p := range 3 { // nobody binds those that are made for their node
		out = append(out, brings("system:serviceaccount:kube-system:replicaset-controller", "", at(13, 1, 50+p)), brings("system:kube-scheduler", "binding", at(13, 1, 50+p)))
	}
	start := event("worker-0", "create", "", "nodes", "", "worker-0", at(13, 30, 0))
	start.ev.Code = 409
	out = append(out, start, event("worker-0", "get", "", "nodes", "", "worker-0", at(13, 30, 0)))
	for n := range 2 {
		name := fmt.Sprintf("apiserver-%d", n)
		for t := time.Duration(0); t < span; t += 10*time.Second + time.Duration(r.IntN(400))*time.Millisecond {
			out = append(out, ofServer(name, "update", noon.Add(t)))
		}
	}
	return append(out, ofServer("apiserver-0", "get", at(14, 0, 30)))
}

// brings is a request by which a pod comes to a node.
func brings(username, sub string, t time.Time) tick {
	e := event("", "create", "", "pods", "shop", "", t)
	e.ev.Code, e.ev.User, e.ev.ObjectRef.Subresource, e.ev.UserAgent, e.o = 201, audit.User{Username: username}, sub, "kube-controller-manager/v1.36.3", evidence.Origin{}
	return e
}

// brings is what of a pod the event brings: empty if it does not.
func (t *tick) brings() string {
	if t.o.Node != "" || t.ev.ObjectRef.Resource != "pods" {
		return ""
	}
	return cmp.Or(t.ev.ObjectRef.Subresource, "pod")
}

func ofServer(name, verb string, t time.Time) tick {
	e := event("", verb, "coordination.k8s.io", "leases", "kube-system", name, t)
	e.ev.User.Username, e.ev.UserAgent, e.o = "system:apiserver", "kube-apiserver/v1.36.3", evidence.Origin{}
	return e
}

// ledger is that of the events that are not left out.
// Watches have both their stages in it.
func ledger(all []tick, without func(*tick) bool) *evidence.Ledger {
	return ledgerWith(all, without, func(*tick) bool { return true })
}

// ledgerWith is a ledger in which those watches that end have a beginning for which begun is true.
func ledgerWith(all []tick, without, begun func(*tick) bool) *evidence.Ledger {
	l := evidence.New()
	for i := range all {
		if without != nil && without(&all[i]) {
			continue
		}
		l.Observe(&all[i].ev, all[i].o)
		if start := all[i]; start.ev.Verb == "watch" && start.ev.Stage == audit.StageResponseComplete && begun(&start) {
			start.ev.Stage, start.ev.StageTime = audit.StageResponseStarted, start.ev.RequestReceived
			l.Observe(&start.ev, start.o)
		}
	}
	return l
}

var systemNode = []rbacv1.PolicyRule{
	{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets", "pods"}},
	{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
}

func clusterBinding(name, role string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) rbac.BindingInfo {
	return rbac.BindingInfo{
		Binding: rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}, Role: rbac.RoleRef{Kind: rbac.KindClusterRole, Name: role},
		Subjects: subjects, RoleExists: rules != nil, Rules: rules,
	}
}

func group(name string) rbac.SubjectRef  { return rbac.SubjectRef{Kind: "Group", Name: name} }
func userOf(name string) rbac.SubjectRef { return rbac.SubjectRef{Kind: "User", Name: name} }

// clean is an input for which every check passes.
func clean() *Input {
	in := &Input{
		Options:    Options{MinWindow: asked3},
		Ledger:     ledger(ticks(nil), nil),
		Log:        Log{Until: noon.Add(span), Requests: 5000},
		NodesKnown: true,
		NeedsKnown: true,
		Needs: []Need{
			{Node: "worker-1", Kind: evidence.ReadSecrets, Object: "shop/db", At: at(13, 1, 58)},
			{Node: "worker-2", Kind: evidence.ReadConfigMaps, Object: "shop/web", At: at(12, 58, 0)},
			{Node: "worker-2", Kind: evidence.ReadSecrets, Object: "too/late", At: at(15, 11, 0)},
		},
		Policy: Policy{Given: true, Name: "file"},
		Servers: Servers{
			Known: true, Live: []Server{{Name: "apiserver-0", Lives: []Span{{From: at(1, 0, 0)}}}, {Name: "apiserver-1", Lives: []Span{{From: at(1, 0, 0)}}}},
			Configured: 2,
		},
		Bindings: []rbac.BindingInfo{
			clusterBinding("system:node", "system:node", systemNode),
			clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}},
			}, group("system:bootstrappers:kubeadm:default-node-token")),
			clusterBinding("system:discovery", "system:discovery", []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api/*"}}},
				group("system:authenticated")),
		},
		BindingsKnown:   true,
		Agreement:       Agreement{Decided: 4000, Rests: 1000, Compared: 4000},
		State:           ClusterState{Given: true, Objects: 700},
		NodeGroupsKnown: true, RacesKnown: true,
		NodeGroups:  []string{"system:nodes", "system:authenticated"},
		Restriction: &Findings{Looked: 3}, Tokens: &Findings{Looked: 3}, Holders: &Findings{Looked: 3}, Births: &Findings{Looked: 3},
	}
	for n := range 3 {
		name := fmt.Sprintf("worker-%d", n)
		in.Nodes = append(in.Nodes, Node{Name: name, Lives: []Span{{From: at(1, 0, 0)}}})
		for p := range 3 {
			in.Pods = append(in.Pods, PodLife{Node: name, At: at(13, 1, 50+p), Until: at(14, 10, p), Gone: true, Token: true})
		}
	}
	for h := evidence.HourOf(noon); h <= evidence.HourOf(noon.Add(span)); h++ {
		in.Versions = append(in.Versions, Version{Hour: h, Minor: "1.36"})
	}
	for _, name := range DecidingRules() {
		in.Rules = append(in.Rules, Rule{Name: name, On: true})
	}
	return in
}

// inferred has nothing but the log tell the order of authorizers, of the one API server that there is: the second one ended before the window.
func inferred(in *Input) {
	in.Servers.Live[1].Lives = []Span{{at(1, 0, 0), at(2, 0, 0)}}
	in.Servers.Configured = 1
}

// resultOf runs one check.
func resultOf(in *Input, check string) Result {
	for _, r := range Run(in) {
		if r.Check == check {
			return r
		}
	}
	return Result{}
}

// codes are those of the items in a state.
func codes(r *Result, s State) map[Code]bool {
	out := map[Code]bool{}
	for i := range r.Evidence {
		if r.Evidence[i].State == s {
			out[r.Evidence[i].Code] = true
		}
	}
	return out
}
