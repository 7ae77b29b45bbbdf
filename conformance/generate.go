package conformance

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// generator makes random histories. Name spaces are small, so that names collide and are used again.
type generator struct {
	r *rand.Rand
	// names is how many of each kind there are; nodes apart.
	names, nodes int
	uids         int
	noUIDs       bool
	crowded      bool
	gathered     int // steps until a crowd is there
	// lawful histories hold only what an apiserver lets happen: of others both sides must make the same too.
	lawful bool

	pods        map[string]*corev1.Pod
	volumes     map[string]*corev1.PersistentVolume
	attachments map[string]*OnNode
	slices      map[string]*OnNode
	requests    map[string]*OnNode
}

// byteSource is a source of randomness that a fuzzer can steer: each byte is one choice, and when they are used up a generator
// seeded by them goes on.
type byteSource struct {
	data []byte
	then rand.Source
}

// Uint64 implements rand.Source.
func (s *byteSource) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.then.Uint64()
	}
	b := uint64(s.data[0])
	s.data = s.data[1:]
	return b * 0x0101010101010101
}

// SeedSource is the source of randomness of a numbered history.
func SeedSource(seed uint64) rand.Source { return rand.NewPCG(seed, 0x6e6f6465747261) }

// BytesSource is the source of randomness for a fuzzer's input.
func BytesSource(data []byte) rand.Source {
	h := uint64(len(data))
	for _, b := range data {
		h = h*1099511628211 ^ uint64(b)
	}
	return &byteSource{data: data, then: SeedSource(h)}
}

func newGenerator(src rand.Source) *generator {
	r := rand.New(src)
	g := &generator{
		r: r, names: 2 + r.IntN(4), nodes: 2 + r.IntN(3), noUIDs: r.IntN(20) == 0, lawful: r.IntN(2) == 0,
		pods: map[string]*corev1.Pod{}, volumes: map[string]*corev1.PersistentVolume{},
		attachments: map[string]*OnNode{}, slices: map[string]*OnNode{}, requests: map[string]*OnNode{},
	}
	if g.lawful {
		g.noUIDs = false
	}
	return g
}

// generate makes a random history of about n steps; one in fifty is a crowd of pods around the size at which the reference begins
// to keep an index.
func generate(g *generator, n int) *History {
	h := &History{}
	if g.r.IntN(50) == 0 {
		g.crowd(h)
		return h
	}
	for range n/2 + g.r.IntN(n) {
		h.Steps = append(h.Steps, g.step())
	}
	return h
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) pick(prefix string) string { return prefix + strconv.Itoa(g.r.IntN(g.names)) }

func (g *generator) node() string      { return "node-" + strconv.Itoa(g.r.IntN(g.nodes)) }
func (g *generator) namespace() string { return "ns-" + strconv.Itoa(g.r.IntN(2)) }

// maybeNode is a node, or none.
func (g *generator) maybeNode() string {
	if g.chance(30) {
		return ""
	}
	return g.node()
}

func (g *generator) uid() string {
	if g.noUIDs {
		return ""
	}
	g.uids++
	switch k := g.r.IntN(8); {
	case k == 0:
		return "uid-" + strconv.Itoa(g.uids)
	case k == 1 && !g.lawful:
		return fmt.Sprintf("ABCDEF00-0000-4000-8000-%012X", g.uids%4) // these do come again, also in lower case
	case k == 2 && !g.lawful:
		return fmt.Sprintf("abcdef00-0000-4000-8000-%012x", g.uids%4)
	}
	return fmt.Sprintf("a1b2c3d4-0000-4000-8000-%012x", g.uids)
}

func (g *generator) step() Step {
	switch k := g.r.IntN(100); {
	case k < 62:
		return g.podStep()
	case k < 80:
		return g.volumeStep()
	case k < 87:
		return g.onNodeStep(g.attachments, "", "va-", func(o *OnNode, op Op) Step { return Step{Op: op, Attachment: o} })
	case k < 94:
		return g.onNodeStep(g.slices, "", "slice-", func(o *OnNode, op Op) Step { return Step{Op: op, Slice: o} })
	}
	return g.onNodeStep(g.requests, g.namespace(), "pcr-", func(o *OnNode, op Op) Step { return Step{Op: op, PodRequest: o} })
}

func (g *generator) removal() Op {
	if g.chance(30) {
		return OpTombstone
	}
	return OpDelete
}

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
			setExtendedClaim(p, g.pick("claim-"))
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
		setExtendedClaim(p, g.pick("claim-"))
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
		setExtendedClaim(p, g.name("claim-"))
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
	c := corev1.PodResourceClaim{Name: "c" + strconv.Itoa(i)}
	name := g.name("claim-")
	switch k := g.r.IntN(10); {
	case k < 4:
		c.ResourceClaimName = &name
	case k < 9:
		c.ResourceClaimTemplateName = &name
	}
	return c
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

func (g *generator) localp(prefix string) *corev1.LocalObjectReference {
	if g.chance(15) {
		return nil
	}
	l := g.local(prefix)
	return &l
}

// volume has one source, now and then two: no apiserver lets that pass, but both sides must then look at the same one.
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
