package days

import (
	"strings"
	"time"
)

// steal makes the theft. Where the Node authorizer allows it, or nobody could tell it from what the kubelet does, the thief has another client or address.
func (a *attack) steal() *Event {
	var e *Event
	switch a.IntN(8) {
	case 0:
		e = a.ofPod(false)
	case 1:
		e = a.ofPod(true)
	case 2:
		e = a.ofMovedPod()
	case 3:
		e = a.ofCollection()
	case 4:
		e = a.ofAccount()
	}
	if e == nil {
		e = a.ofNobody()
	}
	e.AuditID = a.id
	return e
}

// ofNobody reads a secret that no pod leads to.
func (a *attack) ofNobody() *Event {
	a.theft.Namespace, a.theft.Secret = [...]string{"shop", "payments", "vault"}[a.IntN(3)], "root-password-"+hexString(a.Rand, 4)
	if a.IntN(8) == 0 {
		a.theft.Namespace, a.theft.Secret = strings.Repeat("n", 63), strings.Repeat("s", 253)
	}
	e := a.read()
	if a.IntN(2) == 0 {
		e.UserAgent = a.like.UserAgent
	}
	if a.IntN(4) == 0 {
		a.readBack(e)
	}
	return e
}

// readBack turns the request into a write that the API server answers with the object, for which a binding gives the right.
func (a *attack) readBack(e *Event) {
	e.Verb = [...]string{"patch", "delete"}[a.IntN(2)]
	e.URI = resSecrets.path(a.theft.Namespace, a.theft.Secret, "") + [...]string{"?fieldManager=x", "?dryRun=All&propagationPolicy=Foreground"}[a.IntN(2)]
	e.DecisionReason = allowedBy("ClusterRoleBinding", agentsRole, "ClusterRole", agentsRole, toNodes)
	a.bindAgents("")
	a.did("read by a %s", e.Verb)
}

// read reads the secret of the theft.
func (a *attack) read() *Event {
	verb := [...]string{"get", "get", "get", "watch", "list"}[a.IntN(5)]
	e := a.request(a.theft.At, verb, resSecrets, a.theft.Namespace, a.theft.Secret, 200)
	if verb != "get" {
		e.URI = resSecrets.path(a.theft.Namespace, "", "") + "?fieldSelector=" + query("metadata.name="+a.theft.Secret)
	}
	if verb == "watch" {
		e.URI += "&watch=true"
		if a.IntN(3) == 0 {
			e.Stage = StageStarted // it is still open when the log ends
		}
	}
	return e
}

// hide gives the request the kubelet's user agent where the address shows that it is not the kubelet's, at times.
func (a *attack) hide(e *Event) *Event {
	if a.theft.Address != a.like.SourceIPs[0] && a.IntN(2) == 0 {
		e.UserAgent = a.like.UserAgent
	}
	return e
}

// at has the theft happen on a node at a time; false where no kubelet is there.
func (a *attack) at(node string, at time.Time) bool {
	if !at.After(a.From.Add(second)) || !at.Before(a.To.Add(-second)) || strings.HasPrefix(node, "scaled-") {
		return false
	}
	like := a.mutator.like(node, at)
	if like == nil || like.Received.Sub(at).Abs() > 20*second {
		return false
	}
	if a.theft.Address == a.like.SourceIPs[0] {
		a.theft.Address = like.SourceIPs[0]
	}
	a.like, a.theft.Node, a.theft.At = like, node, at
	return true
}

// ofPod takes a secret, or a token, that a pod on the node uses: the Node authorizer allows it.
func (a *attack) ofPod(token bool) *Event {
	for _, i := range a.Perm(len(a.pods)) {
		p := a.pods[i]
		if len(p.secrets) == 0 || p.bound.After(a.theft.At.Add(-2*second)) || p.end().Before(a.theft.At.Add(2*second)) || !a.at(p.node.name, a.theft.At) {
			continue
		}
		a.theft.Namespace, a.theft.Secret, a.theft.Unbound = p.namespace, p.secrets[a.IntN(len(p.secrets))], true
		e := a.read()
		if token {
			e = a.token(p.account())
		}
		e.DecisionReason = ""
		a.did("as %s, which is on the node, may", p)
		return a.hide(e)
	}
	return nil
}

// token asks for a token of a service account.
func (a *attack) token(account string) *Event {
	a.theft.Secret, a.theft.Token = account, true
	e := a.request(a.theft.At, "create", resAccounts, a.theft.Namespace, account, 201)
	e.Ref.Subresource, e.URI, e.Issued = "token", resAccounts.path(a.theft.Namespace, account, "token"), "JTI="+uuid(a.Rand)
	return e
}

// ofMovedPod reads a secret of a pod that has left the node, or is to come to it: at once or within minutes.
func (a *attack) ofMovedPod() *Event {
	off := time.Duration(a.IntN(1500)) * milli
	if a.IntN(2) == 0 {
		off = time.Duration(a.IntN(600)) * second
	}
	for _, i := range a.Perm(len(a.pods)) {
		p := a.pods[i]
		at, how := p.bound.Add(-off), "before"
		if a.IntN(2) == 0 {
			at, how = p.end().Add(off), "after"
		}
		if len(p.secrets) == 0 || !a.at(p.node.name, at) {
			continue
		}
		a.theft.Namespace, a.theft.Secret, a.theft.Unbound = p.namespace, p.secrets[0], true
		e := a.hide(a.read())
		a.did("%s %s %s was on the node", off, how, p)
		return e
	}
	return nil
}

// ofCollection reads all secrets of a namespace, or those with a label.
func (a *attack) ofCollection() *Event {
	a.theft.Namespace, a.theft.Secret = [...]string{"shop", "vault", ""}[a.IntN(3)], ""
	e := a.hide(a.request(a.theft.At, "list", resSecrets, a.theft.Namespace, "", 200))
	e.URI += [...]string{"", "?limit=1", "?labelSelector=" + query("app=web"), "?fieldSelector=" + query("metadata.name!=x"), "?fieldSelector=" + query("type=Opaque")}[a.IntN(5)]
	return e
}

// ofAccount asks for a token of a service account that no pod on the node has, which RBAC allows and admission lets pass.
func (a *attack) ofAccount() *Event {
	a.theft.Namespace = "vault"
	return a.hide(a.token("admin-" + hexString(a.Rand, 4)))
}
