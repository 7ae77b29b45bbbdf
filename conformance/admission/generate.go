package admission

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
)

// generator makes random objects whose names and values come from small pools, so that they meet.
type generator struct{ *rand.Rand }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) node() string { return pick(g, "n1", "n1", "n1", "n2", "n3") }

func (g *generator) namespace() string { return pick(g, "a", "a", "b") }

func (g *generator) name(prefix string, n int) string { return prefix + strconv.Itoa(g.IntN(n)) }

func uid(name string) string { return "uid-" + name }

func metadata(namespace, name string) object {
	m := object{"name": name, "uid": uid(name), "resourceVersion": "7"}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

func typedObject(apiVersion, kind string, metadata, spec, status object) object {
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	if spec != nil {
		o["spec"] = spec
	}
	if status != nil {
		o["status"] = status
	}
	return o
}

var labelKeys = []string{
	"app", "example.com/x", "kubernetes.io/hostname", "kubernetes.io/evil", "node-restriction.kubernetes.io/x", "a.node-restriction.kubernetes.io/y",
	"node-role.kubernetes.io/control-plane", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubelet.kubernetes.io/z",
	"x.kubelet.kubernetes.io/z", "node.kubernetes.io/instance-type", "a.node.kubernetes.io/z", "k8s.io/x", "a.k8s.io/x", "notk8s.io/x", "xkubernetes.io/y",
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region", "kubernetes.io/os", "kubernetes.io/arch", "node-restriction.kubernetes.io/a/b", "kubernetes.io",
	"xnode-restriction.kubernetes.io/z", "beta.kubernetes.io/other",
}

func (g *generator) labels(most int) object {
	out := object{}
	for range g.IntN(most + 1) {
		out[pick(g, labelKeys...)] = pick(g, "", "1", "2")
	}
	return out
}

func (g *generator) taint() object {
	t := object{"key": pick(g, "dedicated", "x"), "effect": pick(g, "NoSchedule", "NoExecute")}
	if g.chance(2) {
		t["value"] = pick(g, "", "1")
	}
	if g.chance(4) {
		t["timeAdded"] = pick(g, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00")
	}
	return t
}

func (g *generator) list(most int, f func() object) []any {
	out := []any{}
	for range g.IntN(most + 1) {
		out = append(out, f())
	}
	return out
}

func (g *generator) owner() object {
	name := g.node()
	o := object{"apiVersion": pick(g, "v1", "apps/v1"), "kind": pick(g, "Node", "Machine"), "name": name, "uid": pick(g, uid(name), "u1", "u2")}
	if g.chance(2) {
		o["controller"] = g.chance(2)
	}
	if g.chance(3) {
		o["blockOwnerDeletion"] = g.chance(2)
	}
	return o
}

func (g *generator) configSource() object {
	return object{"configMap": object{"namespace": "kube-system", "name": pick(g, "c1", "c2"), "kubeletConfigKey": "kubelet"}}
}

func (g *generator) nodes() (out []object) {
	for _, name := range []string{"n1", "n2"} {
		m, spec := metadata("", name), object{}
		if g.chance(2) {
			m["labels"] = g.labels(5)
		}
		if g.chance(3) {
			m["ownerReferences"] = g.list(2, g.owner)
		}
		if g.chance(2) {
			spec["taints"] = g.list(3, g.taint)
		}
		if g.chance(4) {
			spec["configSource"] = g.configSource()
		}
		out = append(out, typedObject("v1", "Node", m, spec, object{}))
	}
	return out[:len(out)-g.IntN(2)*g.IntN(2)]
}

var audiences = []string{"", "vault", "granted", "erring", "https://kubernetes.default.svc"}

func (g *generator) source(kind string) object {
	switch kind {
	case "configMap":
		return object{"name": pick(g, "", "c1")}
	case "secret":
		return object{"name": pick(g, "", "s1")}
	case "serviceAccountToken":
		return object{"path": "t", "audience": pick(g, audiences...)}
	case "clusterTrustBundle":
		return object{"path": "b", "name": "b1"}
	case "podCertificate":
		return object{"signerName": pick(g, signers...), "keyType": "ED25519"}
	}
	return object{}
}

var signers = []string{"example.com/one", "example.com/granted", "example.com/a/b", "example.com/erring"}

// volumeSources are a source of each kind, some with references and some without.
func (g *generator) volumeSource(kind string) object {
	ref := object{"name": pick(g, "", "s1")}
	switch kind {
	case "projected":
		return object{"sources": g.list(3, func() object {
			kind := pick(g, "configMap", "secret", "serviceAccountToken", "clusterTrustBundle", "podCertificate", "downwardAPI", "none")
			if kind == "none" {
				return object{}
			}
			return object{kind: g.source(kind)}
		})}
	case "configMap":
		return object{"name": pick(g, "", "c1")}
	case "secret":
		return object{"secretName": pick(g, "", "s1")}
	case "azureFile":
		return object{"secretName": pick(g, "", "s1"), "shareName": "x"}
	case "csi":
		return object{"driver": g.name("driver-", 3), "nodePublishSecretRef": ref}
	case "persistentVolumeClaim":
		return object{"claimName": g.name("claim-", 4)}
	case "ephemeral":
		if g.chance(4) {
			return object{}
		}
		return object{"volumeClaimTemplate": object{"spec": object{}}}
	case "awsElasticBlockStore":
		return object{"volumeID": pick(g, "vol-1", "aws://zone/vol-12345678", "aws://zone/other")}
	case "azureDisk":
		return object{"diskName": "d", "diskURI": "u", "kind": pick(g, "Managed", "Dedicated")}
	case "gcePersistentDisk":
		return object{"pdName": "p"}
	case "portworxVolume":
		return object{"volumeID": "p"}
	case "vsphereVolume":
		return object{"volumePath": "p"}
	case "cinder", "cephfs", "rbd", "iscsi", "scaleIO", "storageos", "flexVolume":
		return object{"volumeID": "v", "secretRef": pick(g, any(ref), nil)}
	case "hostPath":
		return object{"path": "/"}
	}
	return object{}
}

var volumeKinds = []string{
	"projected", "projected", "projected", "configMap", "secret", "azureFile", "csi", "csi", "persistentVolumeClaim", "persistentVolumeClaim", "ephemeral",
	"awsElasticBlockStore", "azureDisk", "gcePersistentDisk", "portworxVolume", "vsphereVolume", "cinder", "cephfs", "rbd", "iscsi", "scaleIO", "storageos",
	"flexVolume", "hostPath", "emptyDir", "downwardAPI", "glusterfs", "nfs", "image", "fc", "flocker", "gitRepo", "photonPersistentDisk", "quobyte",
}

// volume has one source, or none, or more than the API server's validation lets through later.
func (g *generator) volume(several bool) object {
	v := object{"name": g.name("v", 3)}
	n := 1
	if several && g.chance(3) {
		n = g.IntN(4)
	}
	for range n {
		kind := pick(g, volumeKinds...)
		v[kind] = g.volumeSource(kind)
	}
	return v
}

func (g *generator) claimStatuses() object {
	out := object{}
	if g.chance(2) {
		out["resourceClaimStatuses"] = g.list(2, func() object {
			return object{"name": g.name("c", 3), "resourceClaimName": pick(g, any("r1"), "", nil)}
		})
	}
	if g.chance(3) {
		out["extendedResourceClaimStatus"] = g.extendedStatus()
	}
	if g.chance(3) {
		out["nodeAllocatableResourceClaimStatuses"] = g.list(2, g.allocatableStatus)
	}
	return out
}

func (g *generator) extendedStatus() object {
	return object{"resourceClaimName": pick(g, "r1", "r2"), "requestMappings": g.list(2, func() object {
		return object{"containerName": pick(g, "c1", "c2"), "resourceName": pick(g, "x/y", "x/z"), "requestName": pick(g, "q1", "q2")}
	})}
}

func (g *generator) allocatableStatus() object {
	quantity := func() any { return pick(g, any("1"), "1000m", "2", nil) }
	return object{"resourceClaimName": pick(g, "r1", "r2"), "containers": pick(g, []any{}, []any{"c1"}, []any{"c2"}),
		"mapping":  g.list(1, func() object { return object{"name": pick(g, "cpu", "memory"), "quantity": quantity()} }),
		"overhead": g.list(1, func() object { return object{"name": "cpu", "perPod": quantity(), "perContainer": quantity()} })}
}

func (g *generator) pods() (out []object) {
	for _, ns := range []string{"a", "b"} {
		for i := range 4 {
			m := metadata(ns, "pod-"+strconv.Itoa(i))
			if g.chance(2) {
				m["labels"] = g.labels(2)
			}
			if g.chance(4) {
				m["annotations"] = object{"kubernetes.io/config.mirror": "x"}
			}
			spec := object{"serviceAccountName": g.name("sa-", 3), "volumes": g.list(3, func() object { return g.volume(false) })}
			if !g.chance(6) {
				spec["nodeName"] = g.node()
			}
			out = append(out, typedObject("v1", "Pod", m, spec, g.claimStatuses()))
		}
	}
	return out
}

func (g *generator) claims() (out []object) {
	for _, ns := range []string{"a", "b"} {
		for i := range 3 {
			out = append(out, g.claim(ns, "claim-"+strconv.Itoa(i)))
		}
		out = append(out, g.claim(ns, g.name("pod-", 4)+"-"+g.name("v", 3)))
	}
	return out
}

func (g *generator) claim(ns, name string) object {
	m := metadata(ns, name)
	m["creationTimestamp"] = "2026-01-01T00:00:00Z"
	if g.chance(2) {
		m["labels"] = g.labels(2)
	}
	spec := object{"accessModes": []any{pick(g, "ReadWriteOnce", "ReadOnlyMany")}, "resources": object{"requests": object{"storage": "1Gi"}}}
	if !g.chance(5) {
		spec["volumeName"] = g.name("pv-", 9)
	}
	return typedObject("v1", "PersistentVolumeClaim", m, spec, g.claimStatus())
}

func (g *generator) claimStatus() object {
	s := object{}
	if g.chance(2) {
		s["phase"] = pick(g, "Bound", "Pending", "Lost")
	}
	if g.chance(2) {
		s["capacity"] = object{"storage": pick(g, "1Gi", "2Gi")}
	}
	if g.chance(2) {
		s["conditions"] = []any{object{"type": pick(g, "Resizing", "FileSystemResizePending"), "status": "True"}}
	}
	if g.chance(3) {
		s["allocatedResources"] = object{"storage": pick(g, "1Gi", "1024Mi", "2Gi")}
	}
	if g.chance(3) {
		s["allocatedResourceStatuses"] = object{"storage": "NodeResizePending"}
	}
	if g.chance(3) {
		s["accessModes"] = []any{"ReadWriteOnce"}
	}
	return s
}

func (g *generator) volumes() (out []object) {
	for i := range 9 {
		spec := object{}
		switch kind := pick(g, "csi", "csi", "csi", "awsElasticBlockStore", "azureDisk", "azureFile", "gcePersistentDisk", "cinder", "vsphereVolume", "portworxVolume",
			"nfs"); kind {
		case "csi":
			spec["csi"] = object{"driver": g.name("driver-", 3), "volumeHandle": "h"}
		case "azureFile":
			spec[kind] = pick(g, object{"secretName": "s"}, object{"secretName": "s", "secretNamespace": pick(g, "", "x")})
			if g.chance(2) {
				spec["claimRef"] = object{"namespace": pick(g, "a", "")}
			}
		default:
			spec[kind] = g.volumeSource(kind)
		}
		m := metadata("", "pv-"+strconv.Itoa(i))
		if g.chance(3) {
			m["labels"] = object{"topology.kubernetes.io/zone": pick(g, "z1", "us-a__us-b")}
		}
		out = append(out, typedObject("v1", "PersistentVolume", m, spec, nil))
	}
	return out
}

var migratedDrivers = []string{
	"ebs.csi.aws.com", "pd.csi.storage.gke.io", "cinder.csi.openstack.org", "disk.csi.azure.com", "file.csi.azure.com", "csi.vsphere.vmware.com", "pxd.portworx.com",
}

func (g *generator) drivers() (out []object) {
	for _, name := range slices.Concat([]string{"driver-0", "driver-1"}, migratedDrivers) {
		if g.chance(4) {
			continue
		}
		out = append(out, typedObject("storage.k8s.io/v1", "CSIDriver", metadata("", name), object{"tokenRequests": g.list(2, func() object {
			return object{"audience": pick(g, audiences...)}
		})}, nil))
	}
	return out
}

func (g *generator) accounts() (out []object) {
	for _, ns := range []string{"a", "b"} {
		for i := range 2 + g.IntN(2) {
			out = append(out, typedObject("v1", "ServiceAccount", metadata(ns, "sa-"+strconv.Itoa(i)), nil, nil))
		}
	}
	return out
}

func (g *generator) slices() (out []object) {
	for i := range 3 {
		spec := object{"driver": "d", "pool": object{"name": "p", "resourceSliceCount": 1}}
		if !g.chance(4) {
			spec["nodeName"] = g.node()
		}
		out = append(out, typedObject("resource.k8s.io/v1", "ResourceSlice", metadata("", "slice-"+strconv.Itoa(i)), spec, nil))
	}
	return out
}

func (g *generator) csiNodes() (out []object) {
	for _, name := range []string{"n1", "n2"} {
		out = append(out, typedObject("storage.k8s.io/v1", "CSINode", metadata("", name), g.csiNodeSpec(), nil))
	}
	return out
}

func (g *generator) csiNodeSpec() object {
	drivers := []any{}
	for _, name := range []string{"d1", "d2"} {
		if g.chance(2) {
			drivers = append(drivers, object{"name": name, "nodeID": pick(g, "i1", "i2"), "topologyKeys": pick(g, any([]any{"k"}), nil)})
		}
	}
	return object{"drivers": drivers}
}

// grants are what the authorizer allows, or answers with an error.
func (g *generator) grants() map[string]error {
	out := map[string]error{}
	for i := range 3 {
		name := " sa-" + strconv.Itoa(i)
		if g.chance(2) {
			out["request-serviceaccounts-token-audience granted"+name] = nil
			out["request-serviceaccounts-podcertificate-signer example.com:granted"+name] = nil
		}
		if g.chance(4) {
			out["request-serviceaccounts-podcertificate-signer example.com:a:b"+name] = nil
		}
		out["request-serviceaccounts-token-audience erring"+name] = errors.New("webhook is down")
		out["request-serviceaccounts-podcertificate-signer example.com:erring"+name] = errors.New("webhook is down")
	}
	return out
}

// clone copies an object.
func clone(o object) object {
	data, err := json.Marshal(o)
	if err != nil {
		return maps.Clone(o)
	}
	var out object
	if json.Unmarshal(data, &out) != nil {
		return maps.Clone(o)
	}
	return out
}

// member returns a member of an object as an object, and makes it if there is none.
func member(o object, name string) object {
	m, ok := o[name].(object)
	if !ok {
		m = object{}
		o[name] = m
	}
	return m
}
