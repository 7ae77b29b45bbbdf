package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"slices"
	"sync"
)

// write makes a random write of a node to the world, most of them close to what the plugin refuses.
func (g *generator) write(w *World) *Write {
	q := &Write{Node: pick(g, "n1", "n1", "n1", "n1", "n1", "n1", "n2", "n3"), Raw: g.chance(2)}
	if g.chance(300) {
		q.Node = ""
	}
	g.kind(w, q)
	return q
}

// kind makes one of the kinds of writes.
func (g *generator) kind(w *World, q *Write) {
	pick(g, g.mirrorPod, g.mirrorPod, g.podWrite, g.podDelete, g.podEvict, g.podStatus, g.podStatus, g.nodeCreate, g.nodeUpdate, g.nodeUpdate, g.nodePatched,
		g.nodePatched, g.nodeDelete, g.claimWrite, g.claimStatusWrite, g.token, g.token, g.token, g.lease, g.csiNode, g.slice, g.csr,
		g.certificate, g.certificate, g.otherWrite, g.strange)(w, q)
}

// ref sets what is written. An object that does not exist is not written: storage finds out before the plugin is asked.
func (q *Write) ref(group, resource, subresource, kind string) {
	q.Group, q.Resource, q.Subresource, q.Kind = group, resource, subresource, kind
}

// existing picks an object that is there, and is false if there is none.
func (g *generator) existing(q *Write, objects map[string]object) bool {
	keys := slices.Sorted(maps.Keys(objects))
	if len(keys) == 0 {
		return false
	}
	q.Old = objects[pick(g, keys...)]
	m := q.Old["metadata"].(object)
	q.Name, _ = m["name"].(string)
	q.Namespace, _ = m["namespace"].(string)
	return true
}

func (g *generator) mirrorPod(_ *World, q *Write) {
	q.ref("", "pods", "", "Pod")
	q.Verb, q.Namespace = "create", g.namespace()
	owner := object{"apiVersion": "v1", "kind": "Node", "name": q.Node, "uid": uid(q.Node), "controller": true}
	m := object{"name": "mirror", "namespace": q.Namespace, "annotations": object{"kubernetes.io/config.mirror": "x"}, "ownerReferences": []any{owner}}
	spec := object{"nodeName": q.Node, "containers": []any{object{"name": "c"}}}
	for range g.IntN(3) {
		switch g.IntN(20) {
		case 0:
			m["annotations"] = pick(g, nil, any(object{"other": "x"}))
		case 1:
			spec["nodeName"] = pick(g, "n2", "")
		case 2:
			m["ownerReferences"] = []any{}
		case 3:
			m["ownerReferences"] = append([]any{owner}, g.owner())
		case 4:
			owner[pick(g, "apiVersion", "kind", "name", "uid")] = pick(g, "v1", "Node", "n2", "x")
		case 5:
			owner["controller"] = pick(g, any(false), nil)
		case 6:
			owner["blockOwnerDeletion"] = pick(g, any(true), false)
		case 7:
			spec[pick(g, "serviceAccountName", "serviceAccount")] = pick(g, "", "sa-1")
		case 8:
			spec["imagePullSecrets"] = []any{object{"name": pick(g, "", "s1")}}
		case 9:
			spec["resourceClaims"] = pick(g, []any{}, []any{object{"name": "r"}})
		case 10:
			delete(m, "name")
			m["generateName"] = pick(g, "", "mirror-")
		case 11, 12:
			ref := object{"name": pick(g, "", "x"), "key": "k"}
			spec[pick(g, "containers", "initContainers", "ephemeralContainers")] = []any{object{"name": "d",
				"env":     []any{object{"name": "E", "valueFrom": object{pick(g, "secretKeyRef", "configMapKeyRef", "fieldRef"): ref}}},
				"envFrom": []any{object{pick(g, "secretRef", "configMapRef", "prefix2"): ref}}}}
		default:
			spec["volumes"] = g.list(2, func() object { return g.volume(true) })
		}
	}
	q.Object = typedObject("v1", "Pod", m, spec, nil)
}

func (g *generator) podWrite(w *World, q *Write) {
	sub := pick(g, "", "binding", "ephemeralcontainers", "resize", "other")
	q.ref("", "pods", sub, "Pod")
	if !g.existing(q, w.pods) {
		return
	}
	q.Old, q.Verb = nil, pick(g, "update", "patch")
	if sub == "binding" {
		q.Verb = "create"
	}
}

func (g *generator) podDelete(w *World, q *Write) {
	q.ref("", "pods", "", "Pod")
	g.existing(q, w.pods)
	q.Old, q.Verb = nil, "delete"
}

func (g *generator) podEvict(_ *World, q *Write) {
	q.ref("", "pods", "eviction", "Eviction")
	q.Verb, q.Namespace, q.Name = "create", g.namespace(), g.name("pod-", 6)
	q.Object = typedObject(pick(g, "policy/v1", "policy/v1beta1"), "Eviction", object{"name": q.Name, "namespace": q.Namespace}, nil, nil)
}

func (g *generator) podStatus(w *World, q *Write) {
	q.ref("", "pods", "status", "Pod")
	if !g.existing(q, w.pods) {
		return
	}
	if g.chance(2) {
		g.patch(q, g.podStatusPatch, g.podStatusOperation)
		return
	}
	q.Verb, q.Object = "update", clone(q.Old)
	if g.chance(3) {
		member(q.Object, "metadata")["labels"] = g.labels(1)
	}
	if g.chance(2) {
		q.Object["status"] = g.claimStatuses()
	}
	status := member(q.Object, "status")
	if all, _ := status["nodeAllocatableResourceClaimStatuses"].([]any); len(all) > 0 && g.chance(2) {
		g.alter(all[g.IntN(len(all))].(object))
	} else if g.chance(2) {
		status["nodeAllocatableResourceClaimStatuses"] = g.list(2, g.allocatableStatus)
	}
}

func (g *generator) nodeCreate(_ *World, q *Write) {
	q.ref("", "nodes", "", "Node")
	q.Verb = "create"
	m := object{"name": pick(g, q.Node, q.Node, q.Node, "ghost"), "labels": g.labels(3)}
	if g.chance(10) {
		delete(m, "name")
		m["generateName"] = "n"
	}
	spec := object{"taints": g.list(1, g.taint)}
	if g.chance(4) {
		spec["configSource"] = g.configSource()
	}
	q.Object = typedObject("v1", "Node", m, spec, nil)
}

func (g *generator) nodeUpdate(w *World, q *Write) {
	q.ref("", "nodes", pick(g, "", "status"), "Node")
	if !g.existing(q, w.nodes) {
		return
	}
	q.Verb, q.Object = "update", clone(q.Old)
	m, spec := member(q.Object, "metadata"), member(q.Object, "spec")
	if g.chance(2) {
		if g.chance(3) {
			m["labels"] = g.labels(3)
		} else {
			labels := member(m, "labels")
			key := pick(g, labelKeys...)
			labels[key] = pick(g, "1", "2")
			if g.chance(2) {
				delete(labels, key)
			}
		}
	}
	if g.chance(4) {
		m["ownerReferences"] = g.list(2, g.owner)
	}
	if g.chance(4) {
		spec["taints"] = g.list(2, g.taint)
	}
	if g.chance(4) {
		spec["configSource"] = pick(g, any(g.configSource()), nil)
	}
}

func (g *generator) nodePatched(w *World, q *Write) {
	q.ref("", "nodes", pick(g, "", "status"), "Node")
	if g.existing(q, w.nodes) {
		g.patch(q, g.nodePatch, g.nodeOperation)
	}
}

func (g *generator) nodeDelete(w *World, q *Write) {
	q.ref("", "nodes", "", "Node")
	g.existing(q, w.nodes)
	q.Old, q.Verb = nil, "delete"
}

func (g *generator) claimWrite(w *World, q *Write) {
	q.ref("", "persistentvolumeclaims", "", "PersistentVolumeClaim")
	q.Verb = pick(g, "create", "update", "patch", "delete")
	g.existing(q, w.claims)
	if q.Old = nil; q.Verb == "create" {
		q.Name, q.Object = "", typedObject("v1", "PersistentVolumeClaim", object{"name": pick(g, "x", ""), "generateName": pick(g, "", "y-"), "namespace": q.Namespace}, object{}, nil)
	}
}

func (g *generator) claimStatusWrite(w *World, q *Write) {
	q.ref("", "persistentvolumeclaims", "status", "PersistentVolumeClaim")
	if !g.existing(q, w.claims) {
		return
	}
	if g.chance(2) {
		g.patch(q, g.claimPatch, g.claimOperation)
		return
	}
	q.Verb, q.Object = "update", clone(q.Old)
	status := member(q.Object, "status")
	for range g.IntN(3) {
		for key, value := range g.claimStatus() {
			status[key] = value
		}
	}
	m := member(q.Object, "metadata")
	switch g.IntN(8) {
	case 0:
		m["labels"] = g.labels(1)
	case 1:
		m["resourceVersion"] = ""
	case 2:
		m["managedFields"] = []any{object{"manager": "kubelet", "operation": "Update", "apiVersion": "v1"}}
	case 3:
		delete(m, "uid")
	case 4:
		member(q.Object, "spec")["volumeMode"] = pick(g, any("Block"), "Filesystem", nil)
	case 5:
		m["ownerReferences"] = g.list(2, g.owner)
	}
}

func (g *generator) token(_ *World, q *Write) {
	q.ref("", "serviceaccounts", "token", "TokenRequest")
	q.Verb, q.Namespace, q.Name = "create", g.namespace(), g.name("sa-", 3)
	if g.chance(40) {
		q.Subresource, q.Kind, q.Verb = "", "ServiceAccount", pick(g, "update", "delete")
		return
	}
	pod := g.name("pod-", 5)
	ref := object{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid(pod)}
	spec := object{"boundObjectRef": ref}
	if !g.chance(4) {
		spec["audiences"] = []any{pick(g, audiences...)}
	}
	if g.chance(4) {
		switch g.IntN(4) {
		case 0:
			spec["boundObjectRef"] = nil
		case 1:
			ref[pick(g, "apiVersion", "kind", "name", "uid")] = pick(g, "", "Secret", "v1", "Pod")
		case 2:
			ref["uid"] = "other"
		case 3:
			spec["audiences"] = []any{pick(g, audiences...), pick(g, audiences...)}
		}
	}
	q.Object = typedObject("authentication.k8s.io/v1", "TokenRequest", object{}, spec, nil)
}

func (g *generator) lease(_ *World, q *Write) {
	q.ref("coordination.k8s.io", "leases", "", "Lease")
	q.Verb, q.Namespace = pick(g, "create", "update", "patch", "delete"), pick(g, "kube-node-lease", "kube-node-lease", "kube-system")
	q.Name = pick(g, q.Node, q.Node, "n2", "x")
	if q.Verb == "create" {
		m := object{"name": q.Name, "namespace": q.Namespace}
		if g.chance(8) {
			m["name"], m["generateName"] = "", pick(g, "", "n")
		}
		q.Name, q.Object = "", typedObject("coordination.k8s.io/v1", "Lease", m, object{}, nil)
	}
}

func (g *generator) csiNode(w *World, q *Write) {
	q.ref("storage.k8s.io", "csinodes", pick(g, "", "status"), "CSINode")
	if q.Subresource == "" && g.chance(3) {
		m := object{"name": pick(g, q.Node, "x", "")}
		if g.chance(4) {
			m["generateName"] = "n"
		}
		q.Verb, q.Object = "create", typedObject("storage.k8s.io/v1", "CSINode", m, g.csiNodeSpec(), nil)
		return
	}
	if !g.existing(q, w.csiNodes) {
		return
	}
	switch {
	case q.Subresource == "" && g.chance(2):
		q.Old, q.Verb = nil, "delete"
	case g.chance(2):
		g.patch(q, func() object { return object{"spec": pick(g, g.csiNodeSpec(), object{}), "status": object{}} }, func() object {
			return object{"op": pick(g, "add", "test"), "path": pick(g, "/spec/drivers", "/metadata/labels"), "value": []any{}}
		})
	default:
		q.Verb, q.Object = "update", clone(q.Old)
		if g.chance(2) {
			q.Object["spec"] = g.csiNodeSpec()
		}
	}
}

func (g *generator) slice(w *World, q *Write) {
	q.ref("resource.k8s.io", "resourceslices", "", "ResourceSlice")
	gv, ok := g.served("resource.k8s.io", "ResourceSlice")
	if !ok {
		g.lease(w, q)
		return
	}
	q.Verb = pick(g, "create", "create", "update", "delete")
	if q.Verb == "create" {
		m := object{"name": pick(g, "s", ""), "generateName": pick(g, "", "s-")}
		spec := object{"driver": "d"}
		if !g.chance(4) {
			spec["nodeName"] = pick(g, q.Node, "n2")
		}
		q.Object = typedObject(gv.String(), "ResourceSlice", m, spec, nil)
		if gv.Version == "v1alpha2" {
			q.Object["nodeName"] = spec["nodeName"]
		}
		return
	}
	if !g.existing(q, w.slices) {
		return
	}
	q.Old = clone(q.Old)
	q.Old["apiVersion"] = gv.String()
	if gv.Version == "v1alpha2" {
		q.Old["nodeName"] = q.Old["spec"].(object)["nodeName"]
	}
}

// requests are certificate requests in PEM by common name, made once.
var requests = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{"garbage": []byte("x"), "broken": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}),
		"typed": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return out
	}
	for _, cn := range []string{"system:node:n1", "system:node:n2", "system:node:", "n1", "other"} {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn}}, secret)
		if err == nil {
			out[cn] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
	}
	return out
})

func (g *generator) csr(_ *World, q *Write) {
	q.ref("certificates.k8s.io", "certificatesigningrequests", "", "CertificateSigningRequest")
	q.Verb, q.Name = "create", ""
	if g.chance(10) {
		q.Verb, q.Name, q.Subresource = "update", "csr", pick(g, "", "approval", "status")
		return
	}
	known := requests()
	gv, _ := g.served("certificates.k8s.io", "CertificateSigningRequest")
	q.Object = typedObject(gv.String(), "CertificateSigningRequest", object{"name": pick(g, "csr", ""), "generateName": pick(g, "", "csr-")}, object{
		"signerName": pick(g, "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kube-apiserver-client", "x/y"),
		"request":    known[pick(g, slices.Sorted(maps.Keys(known))...)], "usages": []any{"client auth"},
	}, nil)
}

func (g *generator) certificate(w *World, q *Write) {
	q.ref("certificates.k8s.io", "podcertificaterequests", "", "PodCertificateRequest")
	gv, ok := g.served("certificates.k8s.io", "PodCertificateRequest")
	if !ok {
		g.token(w, q)
		return
	}
	q.Verb, q.Namespace = "create", g.namespace()
	if g.chance(20) {
		q.Verb, q.Name, q.Subresource = pick(g, "update", "patch", "delete"), "c", pick(g, "", "status")
		return
	}
	pod := g.name("pod-", 4)
	account := "sa-0"
	if p, ok := w.pods[q.Namespace+"/"+pod]; ok {
		account, _ = p["spec"].(object)["serviceAccountName"].(string)
	}
	spec := object{"signerName": pick(g, signers...), "podName": pod, "podUID": uid(pod), "serviceAccountName": account, "serviceAccountUID": uid(account),
		"nodeName": q.Node, "nodeUID": uid(q.Node)}
	if g.chance(2) {
		spec[pick(g, "podName", "podUID", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID")] = pick(g, "pod-9", "sa-9", "sa-1", "n2", "uid-x", "")
	}
	q.Object = typedObject(gv.String(), "PodCertificateRequest", object{"name": pick(g, "", "c"), "generateName": pick(g, "c-", ""), "namespace": q.Namespace}, spec, nil)
}

// alter changes a member of an object, however deep.
func (g *generator) alter(o object) {
	key := pick(g, slices.Sorted(maps.Keys(o))...)
	switch v := o[key].(type) {
	case object:
		g.alter(v)
	case []any:
		if len(v) > 0 {
			if inner, ok := v[g.IntN(len(v))].(object); ok {
				g.alter(inner)
				return
			}
		}
		o[key] = []any{}
	default:
		o[key] = pick(g, any("3"), nil)
	}
}

// strange makes a request that the API server has no route for, or that no kubelet makes: the plugin has an answer for each.
func (g *generator) strange(w *World, q *Write) {
	switch g.IntN(6) {
	case 0:
		q.ref("", "pods", pick(g, "status", "eviction"), "Pod")
		if g.existing(q, w.pods); q.Subresource == "eviction" || g.chance(2) {
			q.Old, q.Verb = nil, pick(g, "update", "delete")
		}
		if q.Subresource == "status" {
			q.Old, q.Verb = nil, pick(g, "create", "delete")
		}
	case 1:
		q.ref("", "persistentvolumeclaims", "status", "PersistentVolumeClaim")
		g.existing(q, w.claims)
		q.Old, q.Verb = nil, pick(g, "create", "delete")
	case 2:
		q.ref("", "serviceaccounts", pick(g, "", "other"), "ServiceAccount")
		q.Verb, q.Namespace, q.Name = "create", g.namespace(), "sa-new"
	case 3:
		q.ref("storage.k8s.io", "csinodes", "status", "CSINode")
		g.existing(q, w.csiNodes)
		q.Old, q.Verb = nil, "delete"
	case 4:
		if g.certificate(w, q); q.Resource == "podcertificaterequests" && q.Verb == "create" {
			q.Subresource = pick(g, "status", "other")
		}
	default: // a user who is no node
		g.kind(w, q)
		q.Stranger = true
	}
}

func (g *generator) otherWrite(_ *World, q *Write) {
	q.Verb, q.Name = pick(g, "create", "update", "delete"), "x"
	q.ref(pick(g, "", "apps"), pick(g, "configmaps", "events", "secrets", "nodes2"), "", "ConfigMap")
	if g.chance(4) { // the resource of another group
		q.ref("example.com", pick(g, "pods", "nodes", "leases", "serviceaccounts"), "", "X")
	}
}
