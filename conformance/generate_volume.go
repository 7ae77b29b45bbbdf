package conformance

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (g *generator) volumeStep() Step {
	name := g.pick("pv-")
	old := g.volumes[name]
	if old != nil && g.chance(20) {
		delete(g.volumes, name)
		return Step{Op: g.removal(), Volume: old}
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(g.uid())}}
	if old != nil && g.chance(85) {
		pv = old.DeepCopy()
	} else {
		pv.Spec.PersistentVolumeSource = g.persistentSource()
	}
	switch g.r.IntN(4) {
	case 0:
		if g.chance(30) {
			pv.Spec.ClaimRef = nil
		}
	case 1, 2:
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: g.namespace(), Name: g.claimName()}
	case 3:
		if g.chance(50) {
			pv.Spec.PersistentVolumeSource = g.persistentSource()
		} else {
			pv.Labels = map[string]string{"rev": strconv.Itoa(g.r.IntN(100))}
		}
	}
	g.volumes[name] = pv
	return Step{Op: OpSet, Volume: pv}
}

// claimName is that of a claim that pods name, or of one made for a pod's generic ephemeral volume.
func (g *generator) claimName() string {
	if g.chance(20) {
		return g.pick("pod-") + "-" + g.pick("vol")
	}
	return g.pick("pvc-")
}

func (g *generator) secretReference() *corev1.SecretReference {
	if g.chance(15) {
		return nil
	}
	ref := &corev1.SecretReference{Name: g.name("secret-")}
	if g.chance(60) {
		ref.Namespace = g.namespace()
	}
	return ref
}

func (g *generator) persistentSource() (s corev1.PersistentVolumeSource) {
	switch g.r.IntN(12) {
	case 0, 1, 2:
		s.CSI = &corev1.CSIPersistentVolumeSource{
			ControllerPublishSecretRef: g.secretReference(), ControllerExpandSecretRef: g.secretReference(),
			NodePublishSecretRef: g.secretReference(), NodeStageSecretRef: g.secretReference(), NodeExpandSecretRef: g.secretReference(),
		}
	case 3, 4:
		s.AzureFile = &corev1.AzureFilePersistentVolumeSource{SecretName: g.name("secret-")}
		if g.chance(60) {
			ns := g.namespace()
			if g.chance(20) {
				ns = ""
			}
			s.AzureFile.SecretNamespace = &ns
		}
	case 5:
		s.CephFS = &corev1.CephFSPersistentVolumeSource{SecretRef: g.secretReference()}
	case 6:
		s.Cinder = &corev1.CinderPersistentVolumeSource{SecretRef: g.secretReference()}
	case 7:
		s.FlexVolume = &corev1.FlexPersistentVolumeSource{SecretRef: g.secretReference()}
	case 8:
		s.RBD = &corev1.RBDPersistentVolumeSource{SecretRef: g.secretReference()}
	case 9:
		s.ScaleIO = &corev1.ScaleIOPersistentVolumeSource{SecretRef: g.secretReference()}
	case 10:
		s.ISCSI = &corev1.ISCSIPersistentVolumeSource{SecretRef: g.secretReference()}
	case 11:
		s.StorageOS = &corev1.StorageOSPersistentVolumeSource{}
		if g.chance(85) {
			s.StorageOS.SecretRef = &corev1.ObjectReference{Namespace: g.namespace(), Name: g.name("secret-")}
		}
	}
	return s
}

func (g *generator) localp(prefix string) *corev1.LocalObjectReference {
	if g.chance(15) {
		return nil
	}
	l := g.local(prefix)
	return &l
}

// volume has one source, now and then two: no API server lets that pass, but both sides must then look at the same one.
func (g *generator) volume() corev1.Volume {
	v := corev1.Volume{Name: "vol" + strconv.Itoa(g.r.IntN(g.names))}
	g.volumeSource(&v.VolumeSource)
	if g.chance(4) {
		g.volumeSource(&v.VolumeSource)
	}
	return v
}

func (g *generator) volumeSource(s *corev1.VolumeSource) {
	switch k := g.r.IntN(100); {
	case k < 16:
		s.Secret = &corev1.SecretVolumeSource{SecretName: g.name("secret-")}
	case k < 30:
		s.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: g.local("cm-")}
	case k < 52:
		s.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.name("pvc-")}
	case k < 60:
		s.Ephemeral = &corev1.EphemeralVolumeSource{}
	case k < 74:
		s.Projected = g.projected()
	case k < 77:
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case k < 79:
		s.HostPath = &corev1.HostPathVolumeSource{Path: "/"}
	case k < 82:
		s.AzureFile = &corev1.AzureFileVolumeSource{SecretName: g.name("secret-")}
	case k < 84:
		s.CephFS = &corev1.CephFSVolumeSource{SecretRef: g.localp("secret-")}
	case k < 86:
		s.Cinder = &corev1.CinderVolumeSource{SecretRef: g.localp("secret-")}
	case k < 88:
		s.FlexVolume = &corev1.FlexVolumeSource{SecretRef: g.localp("secret-")}
	case k < 90:
		s.RBD = &corev1.RBDVolumeSource{SecretRef: g.localp("secret-")}
	case k < 92:
		s.ScaleIO = &corev1.ScaleIOVolumeSource{SecretRef: g.localp("secret-")}
	case k < 94:
		s.ISCSI = &corev1.ISCSIVolumeSource{SecretRef: g.localp("secret-")}
	case k < 96:
		s.StorageOS = &corev1.StorageOSVolumeSource{SecretRef: g.localp("secret-")}
	default:
		s.CSI = &corev1.CSIVolumeSource{NodePublishSecretRef: g.localp("secret-")}
	}
}

func (g *generator) projected() *corev1.ProjectedVolumeSource {
	p := &corev1.ProjectedVolumeSource{}
	for g.chance(65) {
		var s corev1.VolumeProjection
		switch g.r.IntN(6) {
		case 0, 1:
			s.Secret = &corev1.SecretProjection{LocalObjectReference: g.local("secret-")}
		case 2, 3:
			s.ConfigMap = &corev1.ConfigMapProjection{LocalObjectReference: g.local("cm-")}
		case 4:
			s.ServiceAccountToken = &corev1.ServiceAccountTokenProjection{Path: "t"}
		case 5: // both
			s.Secret = &corev1.SecretProjection{LocalObjectReference: g.local("secret-")}
			s.ConfigMap = &corev1.ConfigMapProjection{LocalObjectReference: g.local("cm-")}
		}
		p.Sources = append(p.Sources, s)
	}
	return p
}
