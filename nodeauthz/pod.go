package nodeauthz

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NamespacedName names an object; Namespace is empty for one that has none.
type NamespacedName struct{ Namespace, Name string }

// Pod is what the graph needs to know of a pod. The lists may name an object more than once; empty names are ignored.
type Pod struct {
	Namespace, Name, UID string
	// NodeName is empty as long as the pod is not bound.
	NodeName string
	// Bound says when the pod was bound, where that is known apart from when it was seen. Zero: when it was seen.
	Bound Stamp
	// Mirror is true for a mirror pod of a static pod. It leads to its node and to nothing else: a node must not be able to give
	// itself access by making a pod.
	Mirror             bool
	ServiceAccountName string
	// Secrets, ConfigMaps, PersistentVolumeClaims and ResourceClaims are names in the pod's namespace.
	Secrets, ConfigMaps, PersistentVolumeClaims, ResourceClaims []string
	// NoPulls and NoSecrets are those of Secrets that no object can have as its name (see [NoName]): of image pull secrets, and all others.
	NoPulls, NoSecrets []string
	// EphemeralContainers is how many there are: a growing number makes the reference look at the pod again.
	EphemeralContainers int
	// ClaimStatuses stands for status.resourceClaimStatuses: see [ClaimStatusSignature].
	ClaimStatuses string
	// ExtendedClaimStatus stands for status.extendedResourceClaimStatus: see [ExtendedClaim.Signature].
	ExtendedClaimStatus string
}

// PodClaims are the resource claims of a pod, apart from [corev1.Pod], whose fields for them are others before k8s.io/api 0.31 (spec) and 0.34
// (status).
type PodClaims struct {
	// Claims are spec.resourceClaims.
	Claims []PodClaim
	// Extended is status.extendedResourceClaimStatus; nil if there is none.
	Extended *ExtendedClaim
}

// PodClaim is an entry of spec.resourceClaims; of the two names of the API at most one is set.
type PodClaim struct {
	Name                    string
	ClaimName, TemplateName *string
}

// ExtendedClaim is status.extendedResourceClaimStatus.
type ExtendedClaim struct {
	ClaimName string
	Mappings  []ExtendedClaimMapping
}

// ExtendedClaimMapping is one of its requestMappings.
type ExtendedClaimMapping struct{ Container, Resource, Request string }

// PodOf extracts what the graph needs. The fields looked at are those of the reference's visitors (k8s.io/kubernetes/pkg/api/v1/pod) and of
// its Graph.AddPod; conformance/ holds them against each other.
func PodOf(p *corev1.Pod, claims PodClaims) Pod {
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), NodeName: p.Spec.NodeName,
		ServiceAccountName:  p.Spec.ServiceAccountName,
		EphemeralContainers: len(p.Spec.EphemeralContainers),
		ClaimStatuses:       ClaimStatusSignature(p.Status.ResourceClaimStatuses),
		ExtendedClaimStatus: claims.Extended.Signature(),
	}
	_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
	for i := range p.Spec.InitContainers {
		out.addEnvironment(p.Spec.InitContainers[i].EnvFrom, p.Spec.InitContainers[i].Env)
	}
	for i := range p.Spec.Containers {
		out.addEnvironment(p.Spec.Containers[i].EnvFrom, p.Spec.Containers[i].Env)
	}
	for i := range p.Spec.EphemeralContainers {
		out.addEnvironment(p.Spec.EphemeralContainers[i].EnvFrom, p.Spec.EphemeralContainers[i].Env)
	}
	for i := range p.Spec.Volumes {
		out.addVolume(&p.Spec.Volumes[i])
	}
	var pulls []string
	for i := range p.Spec.ImagePullSecrets {
		pulls = append(pulls, p.Spec.ImagePullSecrets[i].Name)
	}
	out.NameSecrets(pulls, out.Secrets)
	out.ResourceClaims = claims.Names(p.Status.ResourceClaimStatuses)
	return out
}

// Names returns the names of the claims that there are, with status.resourceClaimStatuses for those that are made from a template.
func (c PodClaims) Names(statuses []corev1.PodResourceClaimStatus) (names []string) {
	for i := range c.Claims {
		if name := c.Claims[i].name(statuses); name != nil {
			names = append(names, *name)
		}
	}
	if c.Extended != nil && c.Extended.ClaimName != "" {
		names = append(names, c.Extended.ClaimName)
	}
	return names
}

func (p *Pod) addEnvironment(from []corev1.EnvFromSource, env []corev1.EnvVar) {
	for i := range from {
		if ref := from[i].SecretRef; ref != nil {
			p.Secrets = append(p.Secrets, ref.Name)
		}
		if ref := from[i].ConfigMapRef; ref != nil {
			p.ConfigMaps = append(p.ConfigMaps, ref.Name)
		}
	}
	for i := range env {
		from := env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.SecretKeyRef; ref != nil {
			p.Secrets = append(p.Secrets, ref.Name)
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			p.ConfigMaps = append(p.ConfigMaps, ref.Name)
		}
	}
}

// addVolume follows the order of the reference's switches: should a volume hold several sources (validation forbids it), the first
// one counts, for secrets, for configmaps and for claims separately.
func (p *Pod) addVolume(v *corev1.Volume) {
	if name, ok := volumeSecret(&v.VolumeSource); ok {
		p.Secrets = append(p.Secrets, name)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if ref := v.Projected.Sources[i].ConfigMap; ref != nil {
				p.ConfigMaps = append(p.ConfigMaps, ref.Name)
			}
		}
	} else if v.ConfigMap != nil {
		p.ConfigMaps = append(p.ConfigMaps, v.ConfigMap.Name)
	}
	if volumeSecretIsProjected(&v.VolumeSource) {
		for i := range v.Projected.Sources {
			if ref := v.Projected.Sources[i].Secret; ref != nil {
				p.Secrets = append(p.Secrets, ref.Name)
			}
		}
	}
	switch {
	case v.PersistentVolumeClaim != nil:
		p.PersistentVolumeClaims = append(p.PersistentVolumeClaims, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		p.PersistentVolumeClaims = append(p.PersistentVolumeClaims, p.Name+"-"+v.Name)
	}
}

// volumeSecret is the one secret that a volume other than a projected one names.
func volumeSecret(s *corev1.VolumeSource) (string, bool) {
	local := func(ref *corev1.LocalObjectReference) (string, bool) {
		if ref == nil {
			return "", false
		}
		return ref.Name, true
	}
	switch {
	case s.AzureFile != nil:
		return s.AzureFile.SecretName, true
	case s.CephFS != nil:
		return local(s.CephFS.SecretRef)
	case s.Cinder != nil:
		return local(s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		return local(s.FlexVolume.SecretRef)
	case s.Projected != nil:
		return "", false
	case s.RBD != nil:
		return local(s.RBD.SecretRef)
	case s.Secret != nil:
		return s.Secret.SecretName, true
	case s.ScaleIO != nil:
		return local(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		return local(s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		return local(s.StorageOS.SecretRef)
	case s.CSI != nil:
		return local(s.CSI.NodePublishSecretRef)
	}
	return "", false
}

func volumeSecretIsProjected(s *corev1.VolumeSource) bool {
	return s.Projected != nil && s.AzureFile == nil && s.CephFS == nil && s.Cinder == nil && s.FlexVolume == nil
}

// name is the claim that the entry stands for, or nil when there is none (yet), as k8s.io/dynamic-resource-allocation/resourceclaim.Name has it.
func (c *PodClaim) name(statuses []corev1.PodResourceClaimStatus) *string {
	if c.ClaimName != nil {
		return c.ClaimName
	}
	if c.TemplateName == nil {
		return nil
	}
	for i := range statuses {
		if statuses[i].Name == c.Name {
			return statuses[i].ResourceClaimName
		}
	}
	return nil
}

// ClaimStatusSignature returns a string that differs for two lists exactly when the reference takes them for different
// (k8s.io/dynamic-resource-allocation/resourceclaim.PodStatusEqual); the order of the entries counts. Empty for an empty list.
func ClaimStatusSignature(statuses []corev1.PodResourceClaimStatus) string {
	if len(statuses) == 0 {
		return ""
	}
	var b strings.Builder
	for i := range statuses {
		appendCounted(&b, statuses[i].Name)
		if n := statuses[i].ResourceClaimName; n != nil {
			appendCounted(&b, *n)
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

// Signature returns a string that differs for two statuses exactly when the reference takes them for different
// (k8s.io/dynamic-resource-allocation/resourceclaim.PodExtendedStatusEqual). Empty for nil.
func (c *ExtendedClaim) Signature() string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	appendCounted(&b, c.ClaimName)
	for i := range c.Mappings {
		m := &c.Mappings[i]
		appendCounted(&b, m.Container)
		appendCounted(&b, m.Resource)
		appendCounted(&b, m.Request)
	}
	return b.String()
}

func appendCounted(b *strings.Builder, s string) {
	b.WriteString(strconv.Itoa(len(s)))
	b.WriteByte(':')
	b.WriteString(s)
}
