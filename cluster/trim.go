package cluster

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// kept are the members that remain of an object's spec and status; for kinds that are not here, all do.
type kept struct{ spec, status []string }

var keptOf = [numKinds]*kept{
	kindPod: {
		spec: []string{"nodeName", "serviceAccountName", "imagePullSecrets", "initContainers", "containers", "ephemeralContainers", "volumes",
			"resourceClaims", "hostNetwork", "automountServiceAccountToken", "terminationGracePeriodSeconds"},
		status: []string{"phase", "startTime", "conditions", "resourceClaimStatuses", "extendedResourceClaimStatus",
			"nodeAllocatableResourceClaimStatuses"},
	},
	kindNode:          {spec: []string{"providerID", "unschedulable", "taints", "configSource"}, status: []string{"addresses", "nodeInfo", "conditions"}},
	kindResourceSlice: {spec: []string{"nodeName", "driver", "pool", "allNodes"}},
	kindPodCertificateRequest: {
		spec:   []string{"nodeName", "nodeUID", "podName", "podUID", "serviceAccountName", "serviceAccountUID", "signerName"},
		status: []string{"conditions"},
	},
	kindLease: {spec: []string{"holderIdentity", "leaseDurationSeconds", "renewTime"}},
}

// trim takes out of an object what a journal should not hold.
func trim(id kindID, o map[string]any, cfg *RecordConfig) {
	if meta, ok := o["metadata"].(map[string]any); ok {
		if !cfg.KeepManagedFields {
			trimManagedFields(id, meta)
		}
		if !cfg.KeepValues {
			trimAnnotations(id, meta)
		}
	}
	if cfg.KeepValues {
		return
	}
	if k := keptOf[id]; k != nil {
		keepOnly(o["spec"], k.spec)
		keepOnly(o["status"], k.status)
	}
	spec, _ := o["spec"].(map[string]any)
	switch id {
	case kindPod:
		for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
			for _, c := range objects(spec[list]) {
				keepOnly(c, []string{"name", "image", "env", "envFrom", "targetContainerName"})
				for _, env := range objects(c["env"]) {
					delete(env, "value")
				}
			}
		}
		for _, v := range objects(spec["volumes"]) {
			trimVolume(v)
		}
		if status, ok := o["status"].(map[string]any); ok {
			for _, c := range objects(status["conditions"]) {
				delete(c, "message")
			}
		}
	case kindNode:
		trimConditions(o)
	case kindLease:
		trimRenewal(spec)
	case kindPersistentVolume:
		trimVolume(spec)
	}
}

// trimConditions keeps of a Node's conditions whether it is Ready, and since when: their heartbeats would make each status a new one.
func trimConditions(o map[string]any) {
	status, ok := o["status"].(map[string]any)
	if !ok {
		return
	}
	kept := []any{}
	for _, c := range objects(status["conditions"]) {
		if c["type"] == "Ready" {
			keepOnly(c, []string{"type", "status", "lastTransitionTime"})
			kept = append(kept, c)
		}
	}
	status["conditions"] = kept
}

// RenewalStep is how exactly a journal holds when an API server renewed its Lease, which it does every ten seconds. Of a Lease that is deleted it is exact.
const RenewalStep = 10 * time.Minute

// trimRenewal puts the renewal back to the last full step, so that a Lease is a new one only now and then.
func trimRenewal(spec map[string]any) {
	text, _ := spec["renewTime"].(string)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		spec["renewTime"] = t.UTC().Truncate(RenewalStep).Format(metav1.RFC3339Micro)
	}
}

// trimManagedFields drops them but, of RBAC objects, for who wrote when.
func trimManagedFields(id kindID, meta map[string]any) {
	switch id {
	case kindClusterRole, kindClusterRoleBinding, kindRole, kindRoleBinding:
		for _, f := range objects(meta["managedFields"]) {
			keepOnly(f, []string{"manager", "operation", "time"})
		}
	default:
		delete(meta, "managedFields")
	}
}

// trimAnnotations keeps those that say something of the object's nature; others may hold anything, such as the whole object as it
// was last applied.
func trimAnnotations(id kindID, meta map[string]any) {
	annotations, ok := meta["annotations"].(map[string]any)
	if !ok {
		return
	}
	had := len(annotations)
	for name := range annotations {
		if !strings.HasPrefix(name, "kubernetes.io/config.") && !strings.HasPrefix(name, "rbac.authorization.kubernetes.io/") {
			delete(annotations, name)
		}
	}
	if id == kindPersistentVolumeClaim && len(annotations) < had {
		annotations[nodeadmission.TrimmedAnnotation] = "" // the admission plugin compares all of a claim
	}
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
}

// trimVolume drops the free-form parameters of drivers.
func trimVolume(v map[string]any) {
	if csi, ok := v["csi"].(map[string]any); ok {
		delete(csi, "volumeAttributes")
	}
	if flex, ok := v["flexVolume"].(map[string]any); ok {
		delete(flex, "options")
	}
	if source, ok := v["ephemeral"].(map[string]any); ok && source["volumeClaimTemplate"] != nil {
		source["volumeClaimTemplate"] = map[string]any{}
	}
}

func keepOnly(o any, members []string) {
	m, ok := o.(map[string]any)
	if !ok {
		return
	}
	out := make(map[string]any, len(members))
	for _, name := range members {
		if v, ok := m[name]; ok {
			out[name] = v
		}
	}
	clear(m)
	for name, v := range out {
		m[name] = v
	}
}

func objects(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
