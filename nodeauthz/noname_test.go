package nodeauthz

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A secret that cannot be there is only an image pull secret as long as no pod on a node has named it otherwise, in whatever order.
func TestOnlyPulls(t *testing.T) {
	const name = "registry/team"
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	pod := func(of string, change func(*corev1.PodSpec)) *Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Spec.NodeName = "shop", of, "u-"+p.UID, "n1"
		change(&p.Spec)
		out := PodOf(p, PodClaims{})
		return &out
	}
	pulls := func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: name}} }
	needs := map[string]func(*corev1.PodSpec){
		"a variable": func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *local(name), Optional: ptr(true)}}}}}}
		},
		"all variables": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local(name)}}}}}
		},
		"a volume": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: ptr(true)}}}}
		},
		"a projected volume": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: *local(name)}},
			}}}}}
		},
	}
	both := func(a, b func(*corev1.PodSpec)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { a(s); b(s) }
	}
	f := func(what string, want bool, pods ...*Pod) {
		t.Helper()
		g := NewGraph()
		for i, p := range pods {
			p.UID = "u" + strconv.Itoa(i)
			g.SetPod(p, Stamp{Time: now})
		}
		if got := g.OnlyPulls("shop", name); got != want {
			t.Errorf("%s: %t", what, got)
		}
		if g.OnlyPulls("pay", name) || g.OnlyPulls("shop", "db") {
			t.Errorf("%s: what no pod names", what)
		}
	}
	f("nothing", false)
	f("an image pull secret", true, pod("a", pulls))
	f("of two pods", true, pod("a", pulls), pod("b", pulls))
	for what, need := range needs {
		f(what, false, pod("a", need))
		f(what+" of the same pod", false, pod("a", both(need, pulls)))
		f(what+" before", false, pod("a", need), pod("b", pulls))
		f(what+" after", false, pod("a", pulls), pod("b", need))
	}
	unbound, mirror := pod("a", pulls), pod("a", pulls)
	unbound.NodeName, mirror.Mirror = "", true
	f("a pod that is on no node", false, unbound)
	f("a mirror pod, which nodes write", false, mirror)

	many := pod("many", pulls)
	for i := range maxNoNames {
		many.NoPulls = append(many.NoPulls, "x/"+strconv.Itoa(i))
	}
	f("more than are kept", false, pod("a", pulls), many)
}
