package nodeauthz

import corev1 "k8s.io/api/core/v1"

// PersistentVolume is what the graph needs to know of one.
type PersistentVolume struct {
	Name, UID string
	// Claim is spec.claimRef, nil as long as there is none.
	Claim *NamespacedName
	// Secrets are those that a kubelet needs to mount the volume; a CSI controller's own are not among them.
	Secrets []NamespacedName
}

// PersistentVolumeOf extracts what the graph needs, with the namespaces and the visibility of the reference's visitor
// (k8s.io/kubernetes/pkg/api/v1/persistentvolume); conformance/ holds them against each other.
func PersistentVolumeOf(pv *corev1.PersistentVolume) PersistentVolume {
	out := PersistentVolume{Name: pv.Name, UID: string(pv.UID)}
	if ref := pv.Spec.ClaimRef; ref != nil {
		out.Claim = &NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	s := &pv.Spec.PersistentVolumeSource
	switch {
	case s.AzureFile != nil:
		ns := ""
		if s.AzureFile.SecretNamespace != nil {
			ns = *s.AzureFile.SecretNamespace
		}
		out.addSecret(ns, s.AzureFile.SecretName, true)
	case s.CephFS != nil:
		out.addReference(s.CephFS.SecretRef, true)
	case s.Cinder != nil:
		out.addReference(s.Cinder.SecretRef, false)
	case s.FlexVolume != nil:
		out.addReference(s.FlexVolume.SecretRef, true)
	case s.RBD != nil:
		out.addReference(s.RBD.SecretRef, true)
	case s.ScaleIO != nil:
		out.addReference(s.ScaleIO.SecretRef, true)
	case s.ISCSI != nil:
		out.addReference(s.ISCSI.SecretRef, true)
	case s.StorageOS != nil:
		if ref := s.StorageOS.SecretRef; ref != nil {
			out.addSecret(ref.Namespace, ref.Name, false)
		}
	case s.CSI != nil:
		out.addReference(s.CSI.NodePublishSecretRef, false)
		out.addReference(s.CSI.NodeStageSecretRef, false)
		out.addReference(s.CSI.NodeExpandSecretRef, false)
	}
	return out
}

func (v *PersistentVolume) addReference(ref *corev1.SecretReference, claimNamespace bool) {
	if ref != nil {
		v.addSecret(ref.Namespace, ref.Name, claimNamespace)
	}
}

// addSecret falls back to the claim's namespace for the sources that once had no namespace of their own.
func (v *PersistentVolume) addSecret(namespace, name string, claimNamespace bool) {
	if name == "" {
		return
	}
	if namespace == "" && claimNamespace && v.Claim != nil {
		namespace = v.Claim.Namespace
	}
	v.Secrets = append(v.Secrets, NamespacedName{Namespace: namespace, Name: name})
}
