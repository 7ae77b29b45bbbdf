package days

import (
	"fmt"
	"time"
)

// program is a client of the control plane, on the host of an API server that is up.
func (s *sim) program(name, suffix string, u *User, reason string, at time.Time) *client {
	i, _ := s.other(0, at)
	v := s.servers[i]
	return &client{
		user: u, agent: agent(name, v.minorAt(at), "linux/amd64", suffix), ips: []string{v.address}, server: i, reason: reason,
	}
}

// controller is one of kube-controller-manager's, by its own service account.
func (s *sim) controller(name string, at time.Time) *client {
	u := s.account(name)
	role, account := "system:controller:"+name, u.Username
	return s.program("kube-controller-manager", "/"+account, u, allowedBy("ClusterRoleBinding", role, "ClusterRole", role,
		`ServiceAccount "`+name+`/kube-system"`), at)
}

// user is the one user of a name, made when it is first needed.
func (s *sim) user(name string, first func() *User) *User {
	u := s.users[name]
	if u == nil {
		u = first()
		u.Username = name
		s.users[name] = u
	}
	return u
}

// account is a service account in kube-system.
func (s *sim) account(name string) *User {
	return s.user("system:serviceaccount:kube-system:"+name, func() *User {
		u := &User{UID: uuid(s.Rand), Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
		if logsToken(s.opts.Minor) {
			u.CredentialID = "JTI=" + uuid(s.Rand)
		}
		return u
	})
}

// component is a program of the control plane by its own certificate.
func (s *sim) component(name, suffix string, at time.Time) *client {
	u := s.user("system:"+name, func() *User {
		u := &User{Groups: []string{"system:authenticated"}}
		if logsCertificate(s.opts.Minor) {
			u.CredentialID = "X509SHA256=" + hexString(s.Rand, 64)
		}
		return u
	})
	return s.program(name, suffix, u, allowedBy("ClusterRoleBinding", u.Username, "ClusterRole", u.Username, `User "`+u.Username+`"`), at)
}

// kubectl is an administrator's.
func (s *sim) kubectl(at time.Time) *client {
	const binding = "kubeadm:cluster-admins"
	return s.program("kubectl", "", s.user("kubernetes-admin", admin), allowedBy("ClusterRoleBinding", binding, "ClusterRole", "cluster-admin",
		`Group "`+binding+`"`), at)
}

// controlPlane writes what API servers, controllers and the scheduler do, as far as a policy might log it.
func (s *sim) controlPlane() {
	for _, v := range s.servers {
		s.identity(v)
	}
	s.leaders()
	for _, p := range s.pods {
		s.podWrites(p)
	}
	for _, n := range s.nodes {
		s.nodeWrites(n)
	}
}

// identity renews an API server's Lease in kube-system.
func (s *sim) identity(v *server) {
	t := s.from.Add(-s.some(0, 10*second))
	for last := t; t.Before(s.to); {
		if d, down := v.wentDown(last, t); down {
			t = d.to.Add(s.some(200*milli, 900*milli)) // it starts with a renewal
			c := s.loopback(v, t)
			s.request(c, t.Add(-3*milli), "get", resLeases, "kube-system", v.lease, "", "", 200)
		}
		e := s.request(s.loopback(v, t), t, "update", resLeases, "kube-system", v.lease, "", "", 200)
		e.Ref.UID, e.Ref.ResourceVersion = v.uid, fmt.Sprint(t.Unix()%10_000_000)
		last, t = t, t.Add(s.some(10*second, 10400*milli))
	}
}

// loopback is the client that an API server has of itself.
func (s *sim) loopback(v *server, at time.Time) *client {
	return &client{user: v.user, agent: agent("kube-apiserver", v.minorAt(at), "linux/amd64", ""), ips: []string{"::1"}, server: v.index}
}

// leaders renews the leases by which controller manager and scheduler elect their leaders, every two seconds. Few policies log them, so they are made
// where one does.
func (s *sim) leaders() {
	if s.opts.Profile == "nodetrail" {
		return
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		for t := s.from; t.Before(s.to); t = t.Add(2*second + s.upTo(20*milli)) {
			if _, up := s.other(0, t); up {
				s.request(s.component(name, "/leader-election", t), t, "update", resLeases, "kube-system", name, "", "timeout=5s", 200)
			}
		}
	}
}

// podWrites writes who makes, binds and deletes a pod.
func (s *sim) podWrites(p *pod) {
	made := s.request(s.controller(p.owner, p.created), p.created.Add(-3*milli), "create", resPods, p.namespace, p.name, "", "", 201)
	made.Staged = p.created
	bind := s.request(s.component("kube-scheduler", "/scheduler", p.bound), p.bound.Add(-2*milli), "create", resPods, p.namespace, p.name, "binding", "", 201)
	bind.Staged, bind.Ref.UID = p.bound, p.uid
	bind.Request = []byte(fmt.Sprintf(`{"kind":"Binding","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q},"target":{"kind":"Node","name":%q}}`,
		p.name, p.namespace, p.uid, p.node.name))
	if p.deleting.IsZero() {
		return
	}
	if p.evicted {
		c := s.kubectl(p.deleting)
		s.request(c, p.deleting.Add(-5*milli), "create", resPods, p.namespace, p.name, "eviction", "", 201).Staged = p.deleting
		return
	}
	by := p.deletedBy
	if by == "taint-eviction-controller" && s.opts.Minor < 29 {
		by = "node-controller" // which did it before
	}
	s.request(s.controller(by, p.deleting), p.deleting.Add(-4*milli), "delete", resPods, p.namespace, p.name, "", "", 200).Staged = p.deleting
}

// nodeWrites writes what others do to Node objects.
func (s *sim) nodeWrites(n *node) {
	for _, c := range n.changes {
		switch {
		case c.unschedulable != 0:
			s.request(s.kubectl(c.at), c.at.Add(-3*milli), "patch", resNodes, "", n.name, "", "", 200)
		case c.ready == "Unknown":
			s.request(s.controller("node-controller", c.at), c.at.Add(-3*milli), "update", resNodes, "", n.name, "status", "", 200)
			s.request(s.controller("node-controller", c.at), c.at.Add(20*milli), "patch", resNodes, "", n.name, "", "", 200)
		}
	}
	if !n.gone.IsZero() {
		s.request(s.controller("node-controller", n.gone), n.gone.Add(-4*milli), "delete", resNodes, "", n.name, "", "", 200).Staged = n.gone
	}
	if n.virtual == "" {
		return
	}
	u := s.account(n.virtual)
	for t := s.from.Add(s.upTo(10 * second)); t.Before(s.to); t = t.Add(s.some(10*second, 10400*milli)) {
		i, up := s.other(0, t)
		if !up {
			continue
		}
		c := &client{
			user: u, agent: n.virtual + "/v1.0.0 (linux/amd64) kubernetes/$Format", ips: []string{"10.0.3.4"}, server: i,
			reason: allowedBy("ClusterRoleBinding", n.virtual, "ClusterRole", n.virtual, `ServiceAccount "`+n.virtual+`/kube-system"`),
		}
		s.request(c, t, "update", resLeases, "kube-node-lease", n.name, "", "", 200)
		if s.IntN(30) == 0 {
			s.request(c, t.Add(milli), "patch", resNodes, "", n.name, "status", "", 200)
		}
	}
}
