package days

import (
	"strings"
	"time"
)

// births are the mutations in which a credential of a node goes to somebody else, or the log does not show how it came to be. No binding depends on any of
// them.
func births() []Mutation {
	birth := func(name, what string, f func(m *mutator) string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Harmless, Confined: []string{"birth-guarded"}, apply: f}
	}
	return []Mutation{
		birth("birth-live-node", "somebody with a bootstrap token gets a certificate of a node whose kubelet runs", func(m *mutator) string {
			p := m.late(10 * minute)
			name := m.busy(p)
			if name == "" {
				return ""
			}
			at := p.from.Add(4 * minute)
			m.birth(at, name, bootstrapToken(), name, m.controller(at))
			return "a certificate of " + name + " by a bootstrap token"
		}),
		birth("birth-other-node", "a node asks for a certificate of another one, and nothing refuses it", func(m *mutator) string {
			at := m.late(10 * minute).from
			like := m.like(m.node(), at)
			if like == nil {
				return ""
			}
			m.birth(at, "stolen-1", like.User, "stolen-1", nil)
			return "a certificate of stolen-1 by " + like.User.Username
		}),
		birth("birth-by-hand", "an administrator approves the certificate of a new node", func(m *mutator) string {
			at := m.late(10 * minute).from
			by := m.controller(at)
			by.User = &User{Username: "jane", Groups: []string{"system:authenticated"}}
			m.birth(at, "by-hand-1", bootstrapToken(), "by-hand-1", by)
			return "a certificate of by-hand-1, approved by jane"
		}),
		birth("birth-as-controller", "an administrator impersonates kube-controller-manager to approve the certificate of a new node", func(m *mutator) string {
			at := m.late(10 * minute).from
			by := m.controller(at)
			by.User, by.Impersonated = &User{Username: "jane", Groups: []string{"system:authenticated"}}, by.User
			m.birth(at, "by-hand-1", bootstrapToken(), "by-hand-1", by)
			return "a certificate of by-hand-1, approved by jane as " + by.Impersonated.Username
		}),
		birth("birth-token-beyond", "a bootstrap token reads all secrets", func(m *mutator) string {
			at := m.late(10 * minute).from
			e := m.bootstrapEvent(at, bootstrapToken(), "list", "")
			e.Ref, e.URI = &Ref{Version: "v1", Resource: "secrets"}, resSecrets.path("", "", "")
			m.add(e)
			return "all secrets by a bootstrap token"
		}),
		joining(birth("birth-before-join", "somebody with a bootstrap token gets a certificate of a node minutes before its machine joins", func(m *mutator) string {
			for _, e := range m.Events { // kubeadm looks for a Node of that name
				if e.Ref != nil && e.Ref.Resource == resNodes.name && e.Code == 404 && strings.HasPrefix(e.User.Username, "system:bootstrap:") {
					at := e.Received.Add(-time.Duration(1+m.IntN(15)) * minute)
					m.birth(at, "early-1", bootstrapToken(), e.Ref.Name, m.controller(at))
					return "a certificate of " + e.Ref.Name + " at " + stamp(at)
				}
			}
			return ""
		})),
		birth("birth-unread", "the bodies of certificate requests are not in the log, of which there is one at least", func(m *mutator) string {
			at := m.late(10 * minute).from
			m.birth(at, "metadata-1", bootstrapToken(), "metadata-1", m.controller(at))
			m.change(func(e *Event) bool { return e.Ref != nil && e.Ref.Resource == resCSRs.name && len(e.Request) > 0 }, func(e *Event) {
				e.Request, e.Level = nil, LevelMetadata
			})
			return "no bodies"
		}),
	}
}

func bootstrapToken() *User {
	return &User{Username: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", bootstrapGroup, "system:authenticated"}}
}

// bootstrapEvent is a request for a CertificateSigningRequest, or about one, that succeeded. No binding is named: none of the state's goes by it.
func (m *mutator) bootstrapEvent(at time.Time, u *User, verb, sub string) *Event {
	e := &Event{
		Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: verb, User: u, SourceIPs: []string{"198.51.100.7"}, UserAgent: "curl/8.5.0", Code: 200,
		Received: at, Staged: at.Add(5 * milli), Decision: "allow",
	}
	if verb == "create" {
		e.Code = 201
	}
	if nodeOf(u) != "" {
		e.UserAgent = "kubelet/v1.36.3 (linux/amd64) kubernetes/0123abc"
	}
	return e
}

// controller is kube-controller-manager at the given time.
func (m *mutator) controller(at time.Time) *Event {
	const name = "certificate-controller"
	e := m.bootstrapEvent(at, &User{Username: "system:serviceaccount:kube-system:" + name, Groups: []string{"system:serviceaccounts", "system:authenticated"}}, "update", "")
	e.DecisionReason = allowedBy("ClusterRoleBinding", "system:controller:"+name, "ClusterRole", "system:controller:"+name, `ServiceAccount "`+name+`/kube-system"`)
	return e
}

// birth adds a certificate request for a node, and where by is not nil its approval by that one and its certificate.
func (m *mutator) birth(at time.Time, object string, u *User, node string, by *Event) {
	x := signing{node: node, name: "csr-" + object, user: u, certificate: []byte(uuid(m.Rand))}
	add := func(e *Event, sub string, after time.Duration, body []byte) {
		c := *e
		c.Ref = &Ref{Group: resCSRs.group, Version: resCSRs.version, Resource: resCSRs.name, Name: x.name, Subresource: sub}
		inPath := x.name
		if c.Verb == "create" {
			inPath = ""
		}
		c.URI, c.AuditID = resCSRs.path("", inPath, sub), uuid(m.Rand)
		c.Received, c.Staged, c.Request, c.Level = at.Add(after), at.Add(after+5*milli), body, LevelRequest
		m.add(&c)
	}
	add(m.bootstrapEvent(at, u, "create", ""), "", 0, x.created())
	if by != nil {
		add(by, "approval", 40*milli, x.written(false))
		add(m.controller(at), "status", 120*milli, x.written(true))
	}
}
