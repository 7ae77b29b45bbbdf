package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Canary is how a few nodes go without what bindings give to the group system:nodes, while every other identity keeps it: bindings with named
// users come first, then the group's are deleted.
type Canary struct {
	// Canaries are the names of the nodes that go without, in order.
	Canaries []string `json:"canaries"`
	// Joined are nodes that joined in the time of the log, in order: such a node is in no binding with names.
	Joined []string `json:"joined"`
	// Gain are users that also came without the group system:nodes, in order: a binding by name gives them what the group was given.
	Gain []string `json:"gain"`
	// Dropped counts requests of more identities than are kept: the bindings may lack them.
	Dropped int64 `json:"dropped"`
	// Plan are the steps, in their order.
	Plan []Step `json:"plan"`

	ClusterRoleBindings []rbacv1.ClusterRoleBinding `json:"clusterRoleBindings"`
	RoleBindings        []rbacv1.RoleBinding        `json:"roleBindings"`
}

// CanaryBuilder gathers who is in the group of nodes. Not safe for concurrent use.
type CanaryBuilder struct {
	canaries map[string]bool // users
	users    map[string]bool
	joined   map[string]bool
	apart    map[string]bool // users named like nodes that came without the group
	dropped  int64
}

// NewCanaryBuilder returns one for the nodes of these names.
func NewCanaryBuilder(canaries []string) *CanaryBuilder {
	b := &CanaryBuilder{canaries: map[string]bool{}, users: map[string]bool{}, joined: map[string]bool{}, apart: map[string]bool{}}
	for _, name := range canaries {
		b.canaries[nodeid.UserPrefix+name] = true
	}
	return b
}

// Add takes in a judged request.
func (b *CanaryBuilder) Add(j *pipeline.Judgement) {
	u := j.Event.Effective()
	if !slices.Contains(u.Groups, user.NodesGroup) {
		if strings.HasPrefix(u.Username, nodeid.UserPrefix) && len(b.apart) < maxIdentities {
			b.apart[tally.Bounded(strings.Clone(u.Username))] = true
		}
		return
	}
	if !b.users[u.Username] {
		if len(b.users) >= maxIdentities || tally.Bounded(u.Username) != u.Username {
			b.dropped++
		} else {
			b.users[strings.Clone(u.Username)] = true
		}
	}
	if a := j.Attrs; j.IsNode && j.Event.Code == http.StatusCreated && a.Verb == "create" && a.Resource == "nodes" && a.APIGroup == "" && a.Subresource == "" {
		b.Joined(j.Node)
	}
}

// Joined says that a node joined in the time of the log.
func (b *CanaryBuilder) Joined(node string) {
	if len(b.joined) < maxIdentities {
		b.joined[strings.Clone(node)] = true
	}
}

// Seen reports whether a request of the node was added.
func (b *CanaryBuilder) Seen(node string) bool { return b.users[nodeid.UserPrefix+node] }

// Canary returns the bindings in place of those that go, of which only those count that bind the group system:nodes. nodes are the names of the
// cluster's Nodes: they are bound whether they made a request or not.
func (b *CanaryBuilder) Canary(going []rbac.BindingInfo, nodes []string) *Canary {
	out := &Canary{Canaries: []string{}, Joined: []string{}, Gain: []string{}, Dropped: b.dropped, ClusterRoleBindings: []rbacv1.ClusterRoleBinding{}, RoleBindings: []rbacv1.RoleBinding{}}
	names := map[string]bool{}
	for _, name := range nodes {
		names[nodeid.UserPrefix+name] = true
	}
	for name := range b.users {
		names[name] = true
	}
	var users []rbacv1.Subject
	for name := range names {
		if !b.canaries[name] {
			if b.apart[name] {
				out.Gain = append(out.Gain, name)
			}
			users = append(users, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
		}
	}
	slices.SortFunc(users, func(a, b rbacv1.Subject) int { return cmp.Compare(a.Name, b.Name) })
	for name := range b.canaries {
		out.Canaries = append(out.Canaries, strings.TrimPrefix(name, nodeid.UserPrefix))
	}
	for name := range b.joined {
		out.Joined = append(out.Joined, name)
	}
	slices.Sort(out.Canaries)
	slices.Sort(out.Joined)
	slices.Sort(out.Gain)
	var goes []Binding
	var known []NodeBinding
	for i := range going {
		x := &going[i]
		group := rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}
		if !slices.Contains(x.Subjects, group) {
			continue
		}
		subjects := slices.Clone(users)
		for _, s := range x.Subjects { // the others lose the binding as well
			if s != group && (s.Kind != rbacv1.UserKind || !b.canaries[s.Name] && !names[s.Name]) {
				subjects = append(subjects, subjectOf(s))
			}
		}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: x.Role.Kind, Name: x.Role.Name}
		meta := metav1.ObjectMeta{
			Name: accountName("canary-" + x.Binding.Name), Namespace: x.Binding.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "nodetrail"},
		}
		if x.Binding.Kind == rbac.KindRoleBinding {
			out.RoleBindings = append(out.RoleBindings, rbacv1.RoleBinding{TypeMeta: typeMeta(x.Binding.Kind), ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		} else {
			out.ClusterRoleBindings = append(out.ClusterRoleBindings, rbacv1.ClusterRoleBinding{
				TypeMeta: typeMeta(x.Binding.Kind), ObjectMeta: meta, RoleRef: ref, Subjects: subjects,
			})
		}
		ours := Binding{Kind: x.Binding.Kind, Namespace: x.Binding.Namespace, Name: x.Binding.Name}
		goes = append(goes, ours)
		known = append(known, NodeBinding{Binding: ours, Role: x.Role.Name, UID: x.UID, ResourceVersion: x.ResourceVersion})
	}
	out.Plan = b.plan(out, goes, known, len(users))
	return out
}

func subjectOf(s rbac.SubjectRef) rbacv1.Subject {
	out := rbacv1.Subject{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
	if s.Kind != rbacv1.ServiceAccountKind {
		out.APIGroup = rbacv1.GroupName
	}
	return out
}

// canaryFile is what the commands call the file of the bindings.
const canaryFile = "canary.yaml"

func (b *CanaryBuilder) plan(c *Canary, goes []Binding, known []NodeBinding, users int) []Step {
	s := &steps{all: []Step{}, words: wording.English{}}
	if len(goes) > 0 {
		if len(c.Joined) > 0 {
			s.add(codes.NodesJoin, append(codes.List(codes.ParamNode, c.Joined[:min(len(c.Joined), planNames)]), codes.Int(codes.ParamCount, len(c.Joined))))
		}
		if len(c.Gain) > 0 {
			s.add(codes.UsersGain, append(codes.List(codes.ParamIdentity, c.Gain[:min(len(c.Gain), planNames)]), codes.Int(codes.ParamCount, len(c.Gain))))
		}
		s.add(codes.BindByName, append(codes.List(codes.ParamNode, c.Canaries[:min(len(c.Canaries), planNames)]),
			codes.Int(codes.ParamTotal, users), codes.Int(codes.ParamCount, len(c.Canaries))),
			"kubectl apply --dry-run=server -f "+canaryFile, "kubectl apply -f "+canaryFile)
	}
	s.deletion(goes, known, " --with "+canaryFile)
	if len(goes) > 0 {
		s.add(codes.EndCanary, nil, "kubectl delete -f "+canaryFile)
	}
	return s.all
}

// WriteYAML writes the bindings as kubectl apply takes them, with the steps as comments.
func (c *Canary) WriteYAML(w io.Writer) error {
	var b bytes.Buffer
	comment := func(format string, args ...any) {
		fmt.Fprintf(&b, "# %s\n", wording.Visible(fmt.Sprintf(format, args...)))
	}
	if c.Dropped > 0 {
		comment("%s not covered: of more identities than are looked at", plural(c.Dropped, "request"))
	}
	for i := range c.Plan {
		comment("%d. %s.", i+1, c.Plan[i].What)
		for _, command := range c.Plan[i].Commands {
			comment("     %s", command)
		}
	}
	var objects []any
	for i := range c.ClusterRoleBindings {
		objects = append(objects, &c.ClusterRoleBindings[i])
	}
	for i := range c.RoleBindings {
		objects = append(objects, &c.RoleBindings[i])
	}
	for n, o := range objects {
		text, err := marshalYAML(o)
		if err != nil {
			return fmt.Errorf("writing the bindings of the canary: %w", err)
		}
		if n > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the bindings of the canary: %w", err)
	}
	return nil
}

// WriteJSON writes the canary as indented JSON with a line end.
func (c *Canary) WriteJSON(w io.Writer) error { return writeJSON(w, c, "the canary") }
