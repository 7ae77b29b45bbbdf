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

func (g *generator) onNodeStep(have map[string]*OnNode, ns, prefix string, step func(*OnNode, Op) Step) Step {
	name := g.pick(prefix)
	key := ns + "/" + name
	old := have[key]
	if old != nil && g.chance(30) {
		delete(have, key)
		return step(old, g.removal())
	}
	o := &OnNode{Namespace: ns, Name: name, Node: g.maybeNode()}
	if prefix == "pcr-" && o.Node == "" {
		o.Node = g.node()
	}
	if old != nil && g.chance(80) {
		o.UID = old.UID
		if g.lawful || prefix != "va-" {
			o.Node = old.Node // the API does not let it change, though the reference would see it in an attachment
		}
	} else {
		o.UID = g.onNodeUID()
	}
	have[key] = o
	return step(o, OpSet)
}

// onNodeUID is never empty: without it nothing tells a replaced slice from the old one.
func (g *generator) onNodeUID() string {
	g.uids++
	return "b1b2c3d4-0000-4000-8000-" + strconv.Itoa(100000000000+g.uids)
}

// crowd is a history in which many pods name the same few objects.
func (g *generator) crowd(h *History) {
	g.crowded = true
	g.nodes = 2 + g.r.IntN(8)
	size := 196 + g.r.IntN(30)
	twice := g.r.IntN(60)
	add := func(i int) {
		p := g.crowdPod(i, twice, i >= size-8)
		g.pods[p.Name] = p
		h.Steps = append(h.Steps, Step{Op: OpSet, Pod: p})
	}
	for i := range size {
		add(i)
	}
	g.gathered = size
	for range 60 + g.r.IntN(100) {
		i := size - 8 + g.r.IntN(16) // these come and go; the rest keeps the crowd about as large
		if g.chance(15) {
			i = g.r.IntN(size)
		}
		old := g.pods["pod-"+strconv.Itoa(i)]
		switch {
		case old == nil:
			add(i)
		case g.chance(60):
			delete(g.pods, old.Name)
			h.Steps = append(h.Steps, Step{Op: g.removal(), Pod: old})
		case g.chance(50):
			add(i) // another pod under the name
		case g.chance(50):
			p := old.DeepCopy()
			p.Spec.NodeName = g.node()
			g.pods[p.Name] = p
			h.Steps = append(h.Steps, Step{Op: OpSet, Pod: p})
		default:
			h.Steps = append(h.Steps, g.volumeStep())
		}
	}
}

// lonelyNode is one of those with about one pod of a crowd, so that with the pod the last path to the node goes.
func (g *generator) lonelyNode() string { return "node-" + strconv.Itoa(10+g.r.IntN(4)) }

func (g *generator) crowdPod(i, twice int, restless bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: "pod-" + strconv.Itoa(i), UID: types.UID(g.uid())}}
	p.Spec.NodeName = g.node()
	if restless && g.chance(60) {
		p.Spec.NodeName = g.lonelyNode()
	}
	p.Spec.ServiceAccountName = "sa-0"
	add := func(v corev1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: v})
	}
	for _, f := range []func(){
		func() { add(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret-0"}}) },
		func() {
			add(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm-0"}}})
		},
		func() {
			add(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-0"}})
		},
		func() {
			name := "claim-0"
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "c", ResourceClaimName: &name})
		},
	} {
		if g.chance(97) {
			f()
		}
		if g.chance(twice) {
			f()
		}
	}
	return p
}
