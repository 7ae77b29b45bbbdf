package nodeadmission

import (
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const mirrorAnnotation = "kubernetes.io/config.mirror"

// podBody is what the plugin reads of a pod that a node creates.
type podBody struct {
	Metadata struct {
		Annotations     map[string]string       `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
	} `json:"metadata"`
	Spec podBodySpec `json:"spec"`
}

type podBodySpec struct {
	NodeName            string            `json:"nodeName"`
	ServiceAccountName  string            `json:"serviceAccountName"`
	ServiceAccount      string            `json:"serviceAccount"`
	ImagePullSecrets    []namedRef        `json:"imagePullSecrets"`
	Containers          []containerBody   `json:"containers"`
	InitContainers      []containerBody   `json:"initContainers"`
	EphemeralContainers []containerBody   `json:"ephemeralContainers"`
	ResourceClaims      []json.RawMessage `json:"resourceClaims"`
	Volumes             []volumeBody      `json:"volumes"`
}

type namedRef struct {
	Name string `json:"name"`
}

type containerBody struct {
	EnvFrom []struct {
		SecretRef    *namedRef `json:"secretRef"`
		ConfigMapRef *namedRef `json:"configMapRef"`
	} `json:"envFrom"`
	Env []struct {
		ValueFrom *struct {
			SecretKeyRef    *namedRef `json:"secretKeyRef"`
			ConfigMapKeyRef *namedRef `json:"configMapKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
}

// podCreate is admitPodCreate.
func (e *eval) podCreate() Answer {
	var pod podBody
	if !decode(e.req.Body, &pod) {
		return e.podCreated()
	}
	node := e.req.Node
	if _, mirror := pod.Metadata.Annotations[mirrorAnnotation]; !mirror {
		return e.forbid(formMirrorOnly, mirrorAnnotation, node)
	}
	if pod.Spec.NodeName != node {
		return e.forbid(formMirrorNode, node)
	}
	owners := distinct(pod.Metadata.OwnerReferences)
	switch {
	case len(owners) > 1:
		return e.forbid(formMirrorOwners, node)
	case len(owners) == 0:
		return e.forbid(formMirrorOwner, node)
	}
	if ans := e.mirrorOwner(&owners[0]); ans.Verdict != Allow {
		return ans
	}
	return e.refersTo(&pod.Spec)
}

// podCreated is what the pod that the request made tells, where its body is not known. That it is a mirror pod does not tell that the plugin lets it pass.
func (e *eval) podCreated() Answer {
	if e.req.Done && e.a.state.Pods != nil {
		skew := e.a.skew
		for _, later := range [...]time.Duration{0, skew / 4, skew / 2, skew} { // so far the state is known
			p, s := e.a.state.Pods.Pod(e.namespace, e.name, e.at.Add(later))
			switch {
			case p == nil || s.From < e.at.Add(-skew).UnixNano(): // it was there before
				continue
			case !p.SpecUnknown && !p.Mirror:
				return e.forbid(formMirrorOnly, mirrorAnnotation, e.req.Node)
			}
			break
		}
	}
	return unknown(MissingBody)
}

// distinct drops owner references with a UID that an earlier one has, as the API server does before the plugin is asked.
func distinct(owners []metav1.OwnerReference) []metav1.OwnerReference {
	if len(owners) < 2 {
		return owners
	}
	var out []metav1.OwnerReference
	seen := map[types.UID]bool{}
	for i := range owners {
		if !seen[owners[i].UID] {
			out = append(out, owners[i])
		}
		seen[owners[i].UID] = true
	}
	return out
}

func (e *eval) mirrorOwner(owner *metav1.OwnerReference) Answer {
	name := e.req.Node
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != name:
		return e.forbid(formMirrorOwner, name)
	case owner.Controller == nil || !*owner.Controller:
		return e.forbid(formMirrorController, name)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return e.forbid(formMirrorBlock, name)
	}
	node, known := e.node(name)
	switch {
	case !known:
		return unknown(MissingNode)
	case node == nil:
		return notFound("node", name)
	case string(owner.UID) != node.UID:
		return e.forbid(formMirrorUID, name, owner.UID, node.UID)
	}
	return allowed()
}

// node looks a Node up.
func (e *eval) node(name string) (*Node, bool) {
	if e.a.state.Nodes == nil {
		return nil, false
	}
	n, s := e.a.state.Nodes.Node(name, e.at)
	e.saw(&s)
	return n, n != nil || s.Known
}

// refersTo refuses a mirror pod that names other objects: pkg/api/pod.HasAPIObjectReference, and what the plugin did by itself before 1.34.
func (e *eval) refersTo(spec *podBodySpec) Answer {
	node, old := e.req.Node, e.a.version.Minor < 34
	if spec.ServiceAccountName != "" || spec.ServiceAccount != "" {
		if old {
			return e.forbid(formMirrorRefers, node, "a service account")
		}
		return e.forbid(formMirrorRefers, node, "serviceaccounts")
	}
	if spec.namesSecret() {
		return e.forbid(formMirrorRefers, node, "secrets")
	}
	if spec.namesConfigMap() {
		return e.forbid(formMirrorRefers, node, "configmaps")
	}
	if old {
		return e.refersToOld(spec)
	}
	if len(spec.ResourceClaims) > 0 {
		return e.forbid(formMirrorRefers, node, "resourceclaims")
	}
	for i := range spec.Volumes {
		switch what, unsure := spec.Volumes[i].refersTo(); {
		case unsure != "":
			return e.forbid(formMirrorUnsure, unsure)
		case what != "":
			return e.forbid(formMirrorRefers, node, what)
		}
	}
	return allowed()
}

func (e *eval) refersToOld(spec *podBodySpec) Answer {
	if e.a.version.Minor >= 29 {
		for i := range spec.Volumes {
			if spec.Volumes[i].projects("clusterTrustBundle") {
				return e.forbid(formMirrorRefers, e.req.Node, "clustertrustbundles")
			}
		}
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].has("persistentVolumeClaim") {
			return e.forbid(formMirrorRefers, e.req.Node, "persistentvolumeclaims")
		}
	}
	if len(spec.ResourceClaims) > 0 {
		switch e.a.version.checksClaims() {
		case yes:
			return e.forbid(formMirrorRefers, e.req.Node, "resourceclaims")
		case maybe:
			return unknown(MissingVersionPatch)
		}
	}
	return allowed()
}

// BeyondStatic is what the body of a pod that a node creates names, and no static pod can use in any version: its kubelet has no object of the API for it. The plugin of
// Kubernetes 1.34 refuses that, earlier ones do not refuse all of it. It is empty for nothing, and where there is no body.
func BeyondStatic(body []byte) string {
	var pod podBody
	if !decode(body, &pod) {
		return ""
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for _, v := range pod.Spec.Volumes {
		if what, _ := v.refersTo(); what == refersWords["ephemeral"] || what == projectedWords["serviceAccountToken"] || what == projectedWords["podCertificate"] {
			return what
		}
	}
	return ""
}

func (s *podBodySpec) containers(f func(*containerBody) bool) bool {
	for _, list := range [][]containerBody{s.InitContainers, s.Containers, s.EphemeralContainers} {
		for i := range list {
			if f(&list[i]) {
				return true
			}
		}
	}
	return false
}

func (s *podBodySpec) namesSecret() bool {
	for _, r := range s.ImagePullSecrets {
		if r.Name != "" {
			return true
		}
	}
	if s.containers(func(c *containerBody) bool {
		for i := range c.EnvFrom {
			if r := c.EnvFrom[i].SecretRef; r != nil && r.Name != "" {
				return true
			}
		}
		for i := range c.Env {
			if v := c.Env[i].ValueFrom; v != nil && v.SecretKeyRef != nil && v.SecretKeyRef.Name != "" {
				return true
			}
		}
		return false
	}) {
		return true
	}
	for i := range s.Volumes {
		if s.Volumes[i].namesSecret() {
			return true
		}
	}
	return false
}

func (s *podBodySpec) namesConfigMap() bool {
	if s.containers(func(c *containerBody) bool {
		for i := range c.EnvFrom {
			if r := c.EnvFrom[i].ConfigMapRef; r != nil && r.Name != "" {
				return true
			}
		}
		for i := range c.Env {
			if v := c.Env[i].ValueFrom; v != nil && v.ConfigMapKeyRef != nil && v.ConfigMapKeyRef.Name != "" {
				return true
			}
		}
		return false
	}) {
		return true
	}
	for i := range s.Volumes {
		if s.Volumes[i].namesConfigMap() {
			return true
		}
	}
	return false
}

// volumeBody is a volume by its members; a null is as good as none.
type volumeBody map[string]json.RawMessage

func (v volumeBody) has(source string) bool {
	raw, ok := v[source]
	return ok && string(raw) != "null"
}

// first returns the first of the sources that the volume has.
func (v volumeBody) first(sources []string) string {
	for _, s := range sources {
		if v.has(s) {
			return s
		}
	}
	return ""
}

func (v volumeBody) name() string {
	var name string
	decode(v["name"], &name)
	return name
}

// sources are those of a projected volume.
func (v volumeBody) sources() []volumeBody {
	var projected struct {
		Sources []volumeBody `json:"sources"`
	}
	decode(v["projected"], &projected)
	return projected.Sources
}

func (v volumeBody) projects(source string) bool {
	for _, s := range v.sources() {
		if s.has(source) {
			return true
		}
	}
	return false
}

// secretSources are the sources that can name a secret, in upstream's order: of two sources the first counts.
var secretSources = []string{"azureFile", "cephfs", "cinder", "flexVolume", "projected", "rbd", "secret", "scaleIO", "iscsi", "storageos", "csi"}

func (v volumeBody) namesSecret() bool {
	source := v.first(secretSources)
	if source == "projected" {
		for _, s := range v.sources() {
			if s.has("secret") && s.refName("secret") != "" {
				return true
			}
		}
		return false
	}
	var body struct {
		SecretName           string    `json:"secretName"`
		SecretRef            *namedRef `json:"secretRef"`
		NodePublishSecretRef *namedRef `json:"nodePublishSecretRef"`
	}
	if source == "" || !decode(v[source], &body) {
		return false
	}
	switch source {
	case "azureFile", "secret":
		return body.SecretName != ""
	case "csi":
		return body.NodePublishSecretRef != nil && body.NodePublishSecretRef.Name != ""
	}
	return body.SecretRef != nil && body.SecretRef.Name != ""
}

func (v volumeBody) refName(source string) string {
	var ref namedRef
	decode(v[source], &ref)
	return ref.Name
}

func (v volumeBody) namesConfigMap() bool {
	if v.has("projected") {
		for _, s := range v.sources() {
			if s.has("configMap") && s.refName("configMap") != "" {
				return true
			}
		}
		return false
	}
	return v.has("configMap") && v.refName("configMap") != ""
}

// The sources of a volume in the order of upstream's switch: those that name no object of the API, and the words for the others.
var (
	localSources = []string{
		"awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
		"gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte",
		"rbd", "scaleIO", "storageos", "vsphereVolume",
	}
	refersSources = []string{"configMap", "secret", "csi", "glusterfs", "persistentVolumeClaim", "ephemeral", "azureFile", "projected"}
	refersWords   = map[string]string{
		"configMap": "configmaps (via configmap volumes)", "secret": "secrets (via secret volumes)",
		"csi": "csidrivers (via CSI volumes)", "glusterfs": "endpoints (via glusterFS volumes)",
		"persistentVolumeClaim": "persistentvolumeclaims", "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
		"azureFile": "secrets (via azureFile volumes)",
	}
	projectedSources = []string{"configMap", "secret", "serviceAccountToken", "clusterTrustBundle", "podCertificate", "downwardAPI"}
	projectedWords   = map[string]string{
		"configMap": "configmaps (via projected volumes)", "secret": "secrets (via projected volumes)",
		"serviceAccountToken": "serviceaccounts (via projected volumes)", "clusterTrustBundle": "clustertrustbundles",
		"podCertificate": "podcertificates",
	}
)

// refersTo says which objects the volume names, or why upstream cannot tell. A volume without a source is an emptyDir.
func (v volumeBody) refersTo() (what, unsure string) {
	if v.first(localSources) != "" {
		return "", ""
	}
	source := v.first(refersSources)
	if source != "projected" {
		return refersWords[source], ""
	}
	for _, s := range v.sources() {
		switch kind := s.first(projectedSources); kind {
		case "":
			return "", "unknown source for projected volume " + strconv.Quote(v.name())
		case "downwardAPI":
		default:
			return projectedWords[kind], ""
		}
	}
	return "", ""
}
