package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// The kinds of a Rotation.
const (
	rotateCredential = "credential"
	rotateSecret     = "secret"
	rotateSecrets    = "secrets"
	rotateTokens     = "tokens"
)

// rotations collects what to rotate: the credential, what it read, what it could read, and what tokens that it could make could read.
func (r *NodeReach) rotations() {
	r.Rotate = []Rotation{{Kind: rotateCredential, Name: r.Node, Why: "it is the credential in question: issue a new one. A client certificate stays valid until it expires"}}
	seen := map[[3]string]bool{}
	add := func(kind, namespace, name, why string) {
		if k := [3]string{kind, namespace, name}; !seen[k] {
			seen[k] = true
			r.Rotate = append(r.Rotate, Rotation{Kind: kind, Namespace: namespace, Name: name, Why: why})
		}
	}
	if r.Beyond != nil {
		r.Beyond.sort()
		for i := range r.Beyond.Uses {
			u := &r.Beyond.Uses[i]
			if t, ok := u.taken(); ok {
				t.rotation(u.AuditIDs, add)
			}
		}
		reached := r.reached()
		for t, ids := range r.Beyond.takings() {
			if !reached[t] {
				t.rotation(ids, add)
			}
		}
		if more := r.Beyond.taken.more; more > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("The list of what to rotate is not complete: %s for still other secrets and tokens succeeded.", plural(int(more), "request")))
		}
	}
	for i := range r.Objects {
		o := &r.Objects[i]
		if o.Object.Kind == nodeauthz.KindSecret.String() {
			add(rotateSecret, o.Object.Namespace, o.Object.Name, "could be read, by "+o.Paths[0].bound())
		}
	}
	for i := range r.Objects {
		if o := &r.Objects[i]; slices.Contains(o.Access, accessToken) {
			add(rotateTokens, o.Object.Namespace, o.Object.Name, "could be made, by "+o.Paths[0].bound())
		}
	}
	for i := range r.Accounts {
		a := &r.Accounts[i]
		for k := range a.Rights {
			g := &a.Rights[k]
			why := "could be read with a token of service account " + nameOf(Step{Namespace: a.Namespace, Name: a.Name}) + ", by " + g.Binding.String()
			for n := range g.Rules {
				g.Rules[n].secrets(g.Binding.Namespace, func(kind, namespace, name string) { add(kind, namespace, name, why) })
			}
		}
	}
}

// rotation adds what was taken.
func (t taking) rotation(ids []string, add func(kind, namespace, name, why string)) {
	what := "was read"
	if t.kind == rotateTokens {
		what = "was made"
	}
	add(t.kind, t.namespace, t.name, what+": audit ID "+strings.Join(ids, ", "))
}

// reached are the secrets and the tokens among what the credential could reach.
func (r *NodeReach) reached() map[taking]bool {
	out := map[taking]bool{}
	for i := range r.Objects {
		switch o := &r.Objects[i]; {
		case o.Object.Kind == nodeauthz.KindSecret.String():
			out[taking{rotateSecret, o.Object.Namespace, o.Object.Name}] = true
		case slices.Contains(o.Access, accessToken):
			out[taking{rotateTokens, o.Object.Namespace, o.Object.Name}] = true
		}
	}
	return out
}

// bound is what of a path is bound to its node, in words.
func (p *Path) bound() string {
	if len(p.Steps) < 2 {
		return p.String()
	}
	return p.Steps[len(p.Steps)-2].String()
}

// secrets calls add with each Rotation of secrets that the rule lets its subjects read. namespace is the binding's, empty for all.
func (r *Rule) secrets(namespace string, add func(kind, namespace, name string)) {
	has := func(list []string, values ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == "*" || slices.Contains(values, s) })
	}
	switch {
	case !has(r.Verbs, "get", "list", "watch", "update", "patch") || !has(r.APIGroups, "") || !has(r.Resources, "secrets"):
	case len(r.ResourceNames) == 0:
		add(rotateSecrets, namespace, "")
	default:
		for _, name := range r.ResourceNames {
			add(rotateSecret, namespace, name)
		}
	}
}

// concern says why a rule makes a token worth more than what it names, empty for most. What of namespaces is said by the binding.
func (r *Rule) concern() string {
	verbs := func(list ...string) bool {
		return slices.ContainsFunc(r.Verbs, func(v string) bool { return v == "*" || slices.Contains(list, v) })
	}
	on := func(group string, list ...string) bool {
		return slices.ContainsFunc(r.APIGroups, func(g string) bool { return g == "*" || g == group }) &&
			slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || slices.Contains(list, s) })
	}
	const rbacGroup, certificates = "rbac.authorization.k8s.io", "certificates.k8s.io"
	switch {
	case verbs() && on("*") && slices.Contains(r.Resources, "*"):
		return "everything"
	case verbs("get", "list", "watch", "update", "patch") && on("", "secrets"):
		return "reads secrets"
	case verbs("create") && on("", "serviceaccounts/token"):
		return "makes tokens of other service accounts"
	case verbs("impersonate") && (on("", "users", "groups", "serviceaccounts") || on("authentication.k8s.io", "uids", "userextras")):
		return "acts as others"
	case verbs("escalate", "bind", "create", "update", "patch") && on(rbacGroup, "roles", "clusterroles", "rolebindings", "clusterrolebindings"):
		return "changes RBAC"
	case verbs("create", "get") && on("", "pods/exec", "pods/attach", "nodes/proxy"):
		return "runs commands in pods"
	case verbs("create", "update", "patch") && (on("", "pods", "pods/ephemeralcontainers", "replicationcontrollers") ||
		on("apps", "deployments", "daemonsets", "statefulsets", "replicasets") || on("batch", "jobs", "cronjobs")):
		return "runs pods, and so uses what they can mount"
	case verbs("approve", "sign", "update", "patch") && on(certificates, "signers", "certificatesigningrequests/approval", "certificatesigningrequests/status"):
		return "approves or signs certificates"
	}
	return ""
}
