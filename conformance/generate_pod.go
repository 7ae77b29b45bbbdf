package conformance

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (g *generator) podStep() Step {
	ns, name := g.namespace(), g.pick("pod-")
	key := ns + "/" + name
	old := g.pods[key]
	switch {
	case old == nil:
		p := g.pod(ns, name)
		p.Spec.NodeName = g.maybeNode()
		g.pods[key] = p
		return Step{Op: OpSet, Pod: p}
	case g.chance(18):
		delete(g.pods, key)
		return Step{Op: g.removal(), Pod: old}
	case g.chance(12): // deleted and made again while nobody looked
		p := g.pod(ns, name)
		p.Spec.NodeName = g.maybeNode()
		if g.chance(40) {
			p.Spec.NodeName = old.Spec.NodeName
		}
		g.pods[key] = p
		return Step{Op: OpSet, Pod: p}
	}
	p := old.DeepCopy()
	if p.Spec.NodeName == "" && g.chance(50) {
		p.Spec.NodeName = g.node()
	}
	for range 1 + g.r.IntN(2) {
		if g.lawful {
			g.updatePod(p)
		} else {
			g.changePod(p)
		}
	}
	g.pods[key] = p
	return Step{Op: OpSet, Pod: p}
}

// updatePod changes what the API lets change once a pod is there.
func (g *generator) updatePod(p *corev1.Pod) {
	switch g.r.IntN(5) {
	case 0:
		p.Labels = map[string]string{"rev": strconv.Itoa(g.r.IntN(100))}
	case 1, 2:
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(g.container()),
		})
	case 3:
		if len(p.Status.ResourceClaimStatuses) == 0 { // the controller fills them in once
			p.Status.ResourceClaimStatuses = g.claimStatuses(p)
		}
	case 4:
		if p.Spec.NodeName == "" { // the scheduler does this before it binds
			setExtendedClaim(p, g.pick("claim-"), "")
		}
	}
}

// changePod changes anything.
func (g *generator) changePod(p *corev1.Pod) {
	switch g.r.IntN(12) {
	case 0: // nothing that counts
		p.Labels = map[string]string{"rev": strconv.Itoa(g.r.IntN(100))}
	case 1:
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: g.pick("secret-")}}
	case 2, 3:
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(g.container()),
		})
	case 4:
		if n := len(p.Spec.EphemeralContainers); n > 0 {
			p.Spec.EphemeralContainers = p.Spec.EphemeralContainers[:g.r.IntN(n)]
		}
	case 5:
		p.Status.ResourceClaimStatuses = g.claimStatuses(p)
	case 6:
		for i := range p.Status.ResourceClaimStatuses {
			name := g.pick("claim-")
			p.Status.ResourceClaimStatuses[i].ResourceClaimName = &name
		}
	case 7:
		g.changeExtendedClaim(p)
	case 8:
		p.Spec.Volumes = append(p.Spec.Volumes, g.volume())
	case 9:
		if g.chance(30) {
			p.Spec.NodeName = g.maybeNode()
		}
	case 10:
		if g.chance(20) {
			g.mirror(p)
		}
		if g.chance(20) {
			p.Spec.ServiceAccountName = g.pick("sa-")
		}
	case 11:
		if g.chance(20) {
			p.UID = types.UID(g.uid())
		}
	}
}

func (g *generator) mirror(p *corev1.Pod) {
	if p.Annotations != nil {
		p.Annotations = nil
		return
	}
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

func (g *generator) pod(ns, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(g.uid())}}
	if g.chance(8) {
		g.mirror(p)
	}
	if g.chance(70) {
		p.Spec.ServiceAccountName = g.pick("sa-")
	}
	for g.chance(25) {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: g.name("secret-")})
	}
	for g.chance(20) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container(g.container()))
	}
	for g.chance(50) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container(g.container()))
	}
	if g.chance(5) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(g.container())}}
	}
	for g.chance(65) {
		p.Spec.Volumes = append(p.Spec.Volumes, g.volume())
	}
	for i := 0; g.chance(30); i++ {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, g.podClaim(i))
	}
	if g.chance(40) {
		p.Status.ResourceClaimStatuses = g.claimStatuses(p)
	}
	if g.chance(10) {
		setExtendedClaim(p, g.name("claim-"), g.pick("request-"))
	}
	return p
}

// name is now and then empty.
func (g *generator) name(prefix string) string {
	if g.chance(4) {
		return ""
	}
	return g.pick(prefix)
}

func (g *generator) local(prefix string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: g.name(prefix)}
}

func (g *generator) container() corev1.Container {
	var c corev1.Container
	for g.chance(40) {
		var e corev1.EnvFromSource
		if g.chance(50) {
			e.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: g.local("secret-")}
		} else {
			e.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: g.local("cm-")}
		}
		c.EnvFrom = append(c.EnvFrom, e)
	}
	for g.chance(40) {
		e := corev1.EnvVar{Name: "E"}
		switch g.r.IntN(4) {
		case 0:
			e.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: g.local("secret-")}}
		case 1:
			e.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: g.local("cm-")}}
		case 2:
			e.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
		}
		c.Env = append(c.Env, e)
	}
	return c
}

func (g *generator) podClaim(i int) corev1.PodResourceClaim {
	name := g.name("claim-")
	switch k := g.r.IntN(10); {
	case k < 4:
		return podClaim("c"+strconv.Itoa(i), &name, nil)
	case k < 9:
		return podClaim("c"+strconv.Itoa(i), nil, &name)
	}
	return podClaim("c"+strconv.Itoa(i), nil, nil)
}

// changeExtendedClaim changes the claim, or only what is mapped to it.
func (g *generator) changeExtendedClaim(p *corev1.Pod) {
	name, mapping := extendedClaim(p), g.pick("request-")
	if g.chance(70) {
		name = g.pick("claim-")
	}
	if g.chance(30) {
		mapping = ""
	}
	setExtendedClaim(p, name, mapping)
}

func (g *generator) claimStatuses(p *corev1.Pod) []corev1.PodResourceClaimStatus {
	var out []corev1.PodResourceClaimStatus
	for i := range p.Spec.ResourceClaims {
		if g.chance(30) {
			continue
		}
		s := corev1.PodResourceClaimStatus{Name: p.Spec.ResourceClaims[i].Name}
		if g.chance(85) {
			name := g.name("claim-")
			s.ResourceClaimName = &name
		}
		out = append(out, s)
		if g.chance(5) {
			out = append(out, s)
		}
	}
	g.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
