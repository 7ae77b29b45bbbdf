package days

import (
	"fmt"
	"time"
)

// writeState makes the journal: what was there when it began, then what changed.
func (s *sim) writeState() error {
	bootstrap, err := bootstrapRBAC()
	if err != nil {
		return err
	}
	for _, e := range bootstrap {
		c := *e
		c.At = s.origin
		s.state = append(s.state, &c)
	}
	old := s.origin.Add(-1000 * time.Hour)
	s.rbac(old)
	for _, v := range s.servers {
		s.serverState(v)
	}
	s.endpoints()
	for _, n := range s.nodes {
		s.nodeState(n)
	}
	for _, namespace := range []string{"kube-system", "shop", "payments", "batch"} {
		s.add(old, object("v1", "ServiceAccount", namespace, "default", uuid(s.Rand), old, nil))
	}
	for i := range apps {
		if a := &apps[i]; a.daemon {
			s.add(old, object("v1", "ServiceAccount", a.namespace, a.name, uuid(s.Rand), old, nil))
		}
	}
	s.claimState(old)
	for _, p := range s.pods {
		s.podState(p)
	}
	s.bookmarks()
	return nil
}

// bookmarks are the end of each kind's list, and the watches' signs of life: one of the five or so that an API server sends in five minutes.
func (s *sim) bookmarks() {
	kinds := [...][2]string{
		{"v1", "Pod"}, {"v1", "Node"}, {"v1", "PersistentVolume"}, {"v1", "PersistentVolumeClaim"}, {"v1", "ServiceAccount"},
		{"storage.k8s.io/v1", "VolumeAttachment"}, {"storage.k8s.io/v1", "CSIDriver"}, {"resource.k8s.io/v1", "ResourceSlice"},
		{"certificates.k8s.io/v1", "PodCertificateRequest"}, {"coordination.k8s.io/v1", "Lease"}, {"discovery.k8s.io/v1", "EndpointSlice"},
		{rbacGroup + "/v1", "ClusterRole"}, {rbacGroup + "/v1", "ClusterRoleBinding"}, {rbacGroup + "/v1", "Role"}, {rbacGroup + "/v1", "RoleBinding"},
	}
	for _, k := range kinds {
		mark := func(at time.Time, annotations map[string]any) {
			s.state = append(s.state, bookmark(at, k[0], k[1], annotations))
		}
		mark(s.origin.Add(50*milli), listEnd)
		for t := s.origin.Add(5 * minute); t.Before(s.from); t = t.Add(5 * minute) {
			mark(t, nil)
		}
		for t := s.from; t.Before(s.to); t = t.Add(5 * minute) {
			mark(t.Add(s.upTo(minute)), nil)
		}
		mark(s.to.Add(-milli), nil)
	}
}

// listEnd are the annotations of the bookmark that ends a list.
var listEnd = map[string]any{"k8s.io/initial-events-end": "true"}

func bookmark(at time.Time, apiVersion any, kind string, annotations map[string]any) *Entry {
	return &Entry{At: at, Type: "BOOKMARK", Kind: kind, Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"annotations": annotations},
	}}
}

// add keeps an object as the journal first has it.
func (s *sim) add(at time.Time, o map[string]any) {
	if at.Before(s.origin) {
		at = s.origin
	}
	s.put(at, "ADDED", o)
}

// put keeps a watch event, if the journal has begun and the day is not over.
func (s *sim) put(at time.Time, kind string, o map[string]any) {
	if !at.Before(s.origin) && at.Before(s.to) {
		s.state = append(s.state, entry(at, kind, o))
	}
}

func (s *sim) rbac(old time.Time) {
	objects := s.kubeadmRBAC(old)
	if !s.opts.NoBinding {
		objects = append(objects, binding(s.Rand, "", legacyBinding, "system:node", old, subject("Group", "", "system:nodes")))
	}
	objects = append(objects, binding(s.Rand, "", "kubeadm:cluster-admins", "cluster-admin", old, subject("Group", "", "kubeadm:cluster-admins")))
	for _, n := range s.nodes {
		if n.virtual != "" {
			objects = append(objects, role(s.Rand, "", n.virtual, old, rule("get,list,watch,create,update,patch", ",coordination.k8s.io", "nodes,nodes/status,leases")),
				binding(s.Rand, "", n.virtual, n.virtual, old, subject("ServiceAccount", "kube-system", n.virtual)))
		}
	}
	for _, o := range objects {
		s.add(old, o)
	}
}

// renewalStep is how exactly nodetrail record keeps when an API server renewed its Lease.
const renewalStep = 10 * minute

// serverState is an API server's identity Lease: as it was, after each start with another holder, and every ten minutes.
func (s *sim) serverState(v *server) {
	holder := v.lease + "_" + uuid(s.Rand)
	lease := func(renewed time.Time) map[string]any {
		return object("coordination.k8s.io/v1", "Lease", "kube-system", v.lease, v.uid, s.origin.Add(-500*time.Hour), map[string]any{
			"labels": map[string]any{"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": fmt.Sprintf("control-plane-%d", v.index+1)},
			"spec": map[string]any{
				"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": renewed.Truncate(renewalStep).Format("2006-01-02T15:04:05.000000Z"),
			},
		})
	}
	down := v.down
	s.add(s.origin, lease(s.origin.Add(-4*second)))
	for t := s.origin.Truncate(renewalStep).Add(renewalStep + s.upTo(10*second)); t.Before(s.to); t = t.Add(renewalStep) {
		for len(down) > 0 && down[0].to.Before(t) {
			back := down[0].to.Add(second)
			holder, down = v.lease+"_"+uuid(s.Rand), down[1:]
			s.put(back, "MODIFIED", lease(back))
		}
		if _, is := v.isDown(t); !is {
			s.put(t, "MODIFIED", lease(t))
		}
	}
}

// endpoints is the EndpointSlice of the API servers.
func (s *sim) endpoints() {
	uid := uuid(s.Rand)
	slice := func(at time.Time) map[string]any {
		var up []map[string]any
		for _, v := range s.servers {
			if _, down := v.isDown(at); !down {
				up = append(up, map[string]any{"addresses": []string{v.address}, "conditions": map[string]any{"ready": true}})
			}
		}
		return object("discovery.k8s.io/v1", "EndpointSlice", "default", "kubernetes", uid, s.origin.Add(-1000*time.Hour), map[string]any{
			"labels": map[string]any{"kubernetes.io/service-name": "kubernetes"}, "addressType": "IPv4", "endpoints": up,
			"ports": []map[string]any{{"name": "https", "port": 6443, "protocol": "TCP"}},
		})
	}
	s.add(s.origin, slice(s.origin))
	for _, v := range s.servers {
		for _, d := range v.down {
			if len(s.servers) > 1 {
				s.put(d.from.Add(50*milli), "MODIFIED", slice(d.from.Add(50*milli)))
			}
			s.put(d.to.Add(second), "MODIFIED", slice(d.to.Add(second)))
		}
	}
}

// nodeState is a Node: as it came, with each change, and how it went.
func (s *sim) nodeState(n *node) {
	ready, since, unschedulable := "False", n.created, false
	object := func(at time.Time) map[string]any {
		var a addressFrom
		for _, b := range n.addresses {
			if !at.Before(b.from) {
				a = b
			}
		}
		addresses := []map[string]any{{"type": "InternalIP", "address": a.v4}, {"type": "Hostname", "address": n.name}}
		if a.v6 != "" {
			addresses = append(addresses, map[string]any{"type": "InternalIP", "address": a.v6})
		}
		version := s.opts.Minor
		for _, r := range n.runs {
			if !at.Before(r.from) {
				version = r.minor
			}
		}
		labels := map[string]any{"kubernetes.io/hostname": n.name, "kubernetes.io/os": map[bool]string{false: "linux", true: "windows"}[n.windows]}
		if n.controlPlane {
			labels["node-role.kubernetes.io/control-plane"] = ""
		}
		spec := map[string]any{}
		switch n.virtual {
		case "virtual-kubelet":
			labels["type"] = "virtual-kubelet"
		case "kwok":
			labels["type"] = "kwok"
		}
		if unschedulable {
			spec["unschedulable"] = true
		}
		return objectOfNode(n, labels, spec, map[string]any{
			"addresses": addresses, "nodeInfo": map[string]any{"kubeletVersion": fmt.Sprintf("v1.%d.%d", version, patches[version])},
			"conditions": []map[string]any{{
				"type": "Ready", "status": ready, "lastTransitionTime": since.UTC().Format(time.RFC3339),
			}},
		})
	}
	if n.created.Before(s.origin) {
		ready, since = "True", n.created.Add(15*second)
	}
	s.add(n.created.Add(2*milli), object(n.created))
	sortChanges(n.changes)
	for _, c := range n.changes {
		if c.at.Before(s.origin) {
			continue
		}
		if c.ready != "" && c.ready != ready {
			ready, since = c.ready, c.at
		}
		if c.unschedulable != 0 {
			unschedulable = c.unschedulable > 0
		}
		s.put(c.at.Add(s.some(milli, 5*milli)), "MODIFIED", object(c.at))
	}
	if !n.gone.IsZero() {
		s.put(n.gone.Add(s.some(milli, 5*milli)), "DELETED", object(n.gone))
	}
}

func objectOfNode(n *node, labels, spec, status map[string]any) map[string]any {
	return object("v1", "Node", "", n.name, n.uid, n.created, map[string]any{"labels": labels, "spec": spec, "status": status})
}

// claimState is the one claim with its volume, and where the volume is attached.
func (s *sim) claimState(old time.Time) {
	for i := range apps {
		a := &apps[i]
		if a.claim == "" {
			continue
		}
		s.add(old, object("v1", "PersistentVolumeClaim", a.namespace, a.claim, uuid(s.Rand), old, map[string]any{
			"spec": map[string]any{"volumeName": "pv-" + a.claim, "storageClassName": "standard"}, "status": map[string]any{"phase": "Bound"},
		}))
		s.add(old, object("v1", "PersistentVolume", "", "pv-"+a.claim, uuid(s.Rand), old, map[string]any{
			"spec": map[string]any{
				"claimRef": map[string]any{"namespace": a.namespace, "name": a.claim},
				"csi":      map[string]any{"driver": "csi.example", "volumeHandle": "vol-" + a.claim},
			},
		}))
		for _, p := range s.pods {
			if p.app == a {
				o := object("storage.k8s.io/v1", "VolumeAttachment", "", attachment(p), uuid(s.Rand), p.bound, map[string]any{
					"spec": map[string]any{"attacher": "csi.example", "nodeName": p.node.name, "source": map[string]any{"persistentVolumeName": "pv-" + a.claim}},
				})
				s.add(p.bound.Add(60*milli), o)
				if !p.gone.IsZero() {
					s.put(p.gone.Add(300*milli), "DELETED", o)
				}
			}
		}
	}
	s.add(old, object("storage.k8s.io/v1", "CSIDriver", "", "csi.example", uuid(s.Rand), old, map[string]any{"spec": map[string]any{"attachRequired": true}}))
}

// podState is a Pod: made, bound, running, to be deleted, gone.
func (s *sim) podState(p *pod) {
	phase, bound, since := "Pending", false, ""
	pod := func() map[string]any {
		more := map[string]any{"labels": map[string]any{"app": p.app.name}, "spec": p.spec(bound), "status": map[string]any{"phase": phase}}
		if since != "" {
			more["deletionTimestamp"], more["deletionGracePeriodSeconds"] = since, 30
		}
		return object("v1", "Pod", p.namespace, p.name, p.uid, p.created, more)
	}
	seen := func() time.Duration { return s.some(time.Millisecond, 5*milli) }
	if p.ready.Before(s.origin) {
		phase, bound = "Running", true
		s.add(s.origin, pod())
	} else {
		s.put(p.created.Add(seen()), "ADDED", pod())
		bound = true
		s.put(p.bound.Add(seen()), "MODIFIED", pod())
		phase = "Running"
		s.put(p.ready.Add(7*milli), "MODIFIED", pod())
	}
	if p.deleting.IsZero() {
		return
	}
	since = p.deleting.Add(30 * second).UTC().Format(time.RFC3339)
	s.put(p.deleting.Add(seen()), "MODIFIED", pod())
	s.put(later(p.gone, p.deleting.Add(6*milli)).Add(seen()), "DELETED", pod())
}

// spec is what of a pod's spec matters for what its node may read.
func (p *pod) spec(bound bool) map[string]any {
	sources := []map[string]any{
		{"serviceAccountToken": map[string]any{"expirationSeconds": 3607, "path": "token"}},
		{"configMap": map[string]any{"name": "kube-root-ca.crt"}},
	}
	volumes := []map[string]any{}
	if !p.bare {
		volumes = append(volumes, map[string]any{"name": "kube-api-access", "projected": map[string]any{"sources": sources}})
	}
	for _, name := range p.secrets {
		volumes = append(volumes, map[string]any{"name": "s-" + name, "secret": map[string]any{"secretName": name}})
	}
	for _, name := range p.configMaps {
		volumes = append(volumes, map[string]any{"name": "c-" + name, "configMap": map[string]any{"name": name}})
	}
	if p.claim != "" {
		volumes = append(volumes, map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": p.claim}})
	}
	spec := map[string]any{
		"serviceAccountName": p.account(), "volumes": volumes, "containers": []map[string]any{{"name": "c", "image": "registry.example/" + p.app.name}},
	}
	if bound {
		spec["nodeName"] = p.node.name
	}
	return spec
}
