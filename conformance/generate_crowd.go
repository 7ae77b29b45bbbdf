package conformance

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, podClaim("c", &name, nil))
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
