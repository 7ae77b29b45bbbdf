package nodeauthz

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](v T) *T { return &v }

func local(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }

func volumesOf(sources ...corev1.VolumeSource) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	for _, s := range sources {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: s})
	}
	return p
}

// names are what a pod leads to in addition to its node and its service account.
type names struct{ secrets, configMaps, claims, resourceClaims []string }

func namesOf(p Pod) names {
	return names{p.Secrets, p.ConfigMaps, p.PersistentVolumeClaims, p.ResourceClaims}
}

func diffNames(want, got names) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(names{}))
}

func TestPodOfMetadata(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"},
		Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "web", DeprecatedServiceAccount: "old",
			EphemeralContainers: make([]corev1.EphemeralContainer, 2)},
	}
	want := Pod{Namespace: "shop", Name: "web-1", UID: "u1", NodeName: "n1", ServiceAccountName: "web", EphemeralContainers: 2}
	if diff := cmp.Diff(want, PodOf(p, PodClaims{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Annotations = map[string]string{"kubernetes.io/config.mirror": ""}
	if !PodOf(p, PodClaims{}).Mirror {
		t.Error("an empty annotation makes a mirror pod too")
	}
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "x"}
	if PodOf(p, PodClaims{}).Mirror {
		t.Error("other annotations make a mirror pod")
	}
	if diff := cmp.Diff(Pod{}, PodOf(&corev1.Pod{}, PodClaims{})); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

func TestPodOfVolumes(t *testing.T) {
	secret := func(name string) names { return names{secrets: []string{name}} }
	f := func(what string, s corev1.VolumeSource, want names) {
		t.Helper()
		if diff := diffNames(want, namesOf(PodOf(volumesOf(s), PodClaims{}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	f("azure file", corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s"}}, secret("s"))
	f("ceph", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("ceph without", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{}}, names{})
	f("cinder", corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("cinder without", corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}, names{})
	f("flex", corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("flex without", corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}}, names{})
	f("rbd", corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("rbd without", corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}, names{})
	f("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}, secret("s"))
	f("optional secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Optional: ptr(true)}}, secret("s"))
	f("scaleio", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("scaleio without", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}, names{})
	f("iscsi", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("iscsi without", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}, names{})
	f("storageos", corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local("s")}}, secret("s"))
	f("storageos without", corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{}}, names{})
	f("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("s")}}, secret("s"))
	f("csi without", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}, names{})
	f("configmap", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("c")}},
		names{configMaps: []string{"c"}})
	f("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
		names{claims: []string{"data"}})
	f("generic ephemeral", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, names{claims: []string{"web-1-v"}})
	f("glusterfs", corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e"}}, names{})
	f("empty dir", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, names{})
	f("host path", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}, names{})
	f("image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r"}}, names{})
	f("no source", corev1.VolumeSource{}, names{})

	projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *local("kube-root-ca.crt")}},
		{DownwardAPI: &corev1.DownwardAPIProjection{}},
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr("bundle")}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: *local("s1")}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: *local("s2")}, ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *local("c2")}},
	}}
	f("projected", corev1.VolumeSource{Projected: projected},
		names{secrets: []string{"s1", "s2"}, configMaps: []string{"kube-root-ca.crt", "c2"}})

	// Validation forbids several sources in one volume; what came through all the same counts as the reference's switches have it.
	f("projected and flex", corev1.VolumeSource{Projected: projected, FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("s")}},
		names{secrets: []string{"s"}, configMaps: []string{"kube-root-ca.crt", "c2"}})
	f("projected and secret and configmap", corev1.VolumeSource{Projected: projected, Secret: &corev1.SecretVolumeSource{SecretName: "s"},
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("c")}},
		names{secrets: []string{"s1", "s2"}, configMaps: []string{"kube-root-ca.crt", "c2"}})
	f("secret and configmap and claim", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"},
		ConfigMap:             &corev1.ConfigMapVolumeSource{LocalObjectReference: *local("c")},
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}, Ephemeral: &corev1.EphemeralVolumeSource{}},
		names{secrets: []string{"s"}, configMaps: []string{"c"}, claims: []string{"data"}})
}

func TestPodOfContainers(t *testing.T) {
	from := func(n string) []corev1.EnvFromSource {
		return []corev1.EnvFromSource{
			{Prefix: "X_"},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local("from-" + n)}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: *local("from-" + n)}},
		}
	}
	env := func(n string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: "PLAIN", Value: "x"},
			{Name: "FIELD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *local("key-" + n)}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: *local("key-" + n)}}},
		}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}, {}, {Name: "pull"}},
		InitContainers:   []corev1.Container{{EnvFrom: from("init"), Env: env("init")}},
		Containers:       []corev1.Container{{}, {EnvFrom: from("main"), Env: env("main")}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: from("debug"), Env: env("debug")}},
		},
	}}
	references := []string{"from-init", "key-init", "from-main", "key-main", "from-debug", "key-debug"}
	want := names{secrets: append([]string{"pull", "", "pull"}, references...), configMaps: references}
	if diff := diffNames(want, namesOf(PodOf(p, PodClaims{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodOfResourceClaims(t *testing.T) {
	claims := []PodClaim{
		{Name: "direct", ClaimName: ptr("mine")},
		{Name: "made", TemplateName: ptr("template")},
		{Name: "not-yet", TemplateName: ptr("template")},
		{Name: "needs-none", TemplateName: ptr("template")},
		{Name: "neither"},
	}
	p := &corev1.Pod{
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
			{Name: "direct", ResourceClaimName: ptr("ignored")},
			{Name: "made", ResourceClaimName: ptr("web-1-made-x2x4z")},
			{Name: "made", ResourceClaimName: ptr("second")},
			{Name: "needs-none"},
			{Name: "neither", ResourceClaimName: ptr("ignored")},
			{Name: "stranger", ResourceClaimName: ptr("ignored")},
		}},
	}
	for extended, want := range map[string][]string{
		"":         {"mine", "web-1-made-x2x4z"},
		"extended": {"mine", "web-1-made-x2x4z", "extended"},
	} {
		if diff := cmp.Diff(want, PodOf(p, PodClaims{Claims: claims, Extended: &ExtendedClaim{ClaimName: extended}}).ResourceClaims); diff != "" {
			t.Errorf("extended %q (-want +got):\n%s", extended, diff)
		}
	}
}

// Two statuses have one signature exactly when the reference takes them for equal: by the claim's name and the mappings, entry by entry.
func TestExtendedClaimSignature(t *testing.T) {
	m := func(container, resource, request string) ExtendedClaimMapping {
		return ExtendedClaimMapping{Container: container, Resource: resource, Request: request}
	}
	seen := map[string]int{}
	for i, c := range []*ExtendedClaim{
		nil, {}, {ClaimName: "a"}, {ClaimName: "b"}, {ClaimName: "a", Mappings: []ExtendedClaimMapping{{}}}, {Mappings: []ExtendedClaimMapping{{}}},
		{ClaimName: "a", Mappings: []ExtendedClaimMapping{m("c", "r", "q")}}, {ClaimName: "a", Mappings: []ExtendedClaimMapping{m("cr", "", "q")}},
		{ClaimName: "a", Mappings: []ExtendedClaimMapping{m("c", "r", ""), m("", "", "q")}}, {ClaimName: "a", Mappings: []ExtendedClaimMapping{m("q", "r", "c")}}, {ClaimName: "a", Mappings: []ExtendedClaimMapping{m("c", "r", "x")}},
		{ClaimName: "a", Mappings: []ExtendedClaimMapping{m("c", "r", "q"), m("d", "r", "q")}}, {ClaimName: "a", Mappings: []ExtendedClaimMapping{m("d", "r", "q"), m("c", "r", "q")}},
		{ClaimName: "1:a", Mappings: []ExtendedClaimMapping{m("1:c", "", "")}},
	} {
		sig := c.Signature()
		if j, taken := seen[sig]; taken {
			t.Errorf("the statuses %d and %d have the signature %q", j, i, sig)
		}
		seen[sig] = i
	}
}

// Two lists have one signature exactly when the reference takes them for equal: entry by entry, in order, by name and claim.
func TestClaimStatusSignature(t *testing.T) {
	type list = []corev1.PodResourceClaimStatus
	s := func(name string, claim ...string) corev1.PodResourceClaimStatus {
		st := corev1.PodResourceClaimStatus{Name: name}
		if len(claim) > 0 {
			st.ResourceClaimName = ptr(claim[0])
		}
		return st
	}
	lists := []list{
		{}, {s("")}, {s("", "")}, {s("a")}, {s("a", "")}, {s("a", "b")}, {s("a", "c")}, {s("ab")}, {s("b", "a")},
		{s("a", "b"), s("c", "d")}, {s("c", "d"), s("a", "b")}, {s("a"), s("b")}, {s("a", "b"), s("a", "b")},
		{s("a", "b1:c")}, {s("a", "b"), s("c")}, {s("a1:b")}, {s("-")}, {s("a"), s("-")}, {s("a-"), s("")}, {s("1:a-")},
	}
	seen := map[string]int{}
	for i, l := range lists {
		sig := ClaimStatusSignature(l)
		if j, taken := seen[sig]; taken {
			t.Errorf("%+v and %+v have the signature %q", lists[j], l, sig)
		}
		seen[sig] = i
		again := make(list, len(l))
		for k := range l {
			again[k] = *l[k].DeepCopy()
		}
		if ClaimStatusSignature(again) != sig {
			t.Errorf("%+v has two signatures", l)
		}
	}
	if ClaimStatusSignature(nil) != "" {
		t.Error("no statuses have a signature")
	}
}

// What a pod names leads to its node in the pod's own namespace only; a mirror pod leads there alone.
func TestWhatAPodLeadsTo(t *testing.T) {
	p := webPod("n1")
	p.ResourceClaims = []string{"gpu", ""}
	probes := map[string]bool{
		"get pods shop/web-1": true, "get secrets shop/db": false, "get configmaps shop/cfg": false, "get serviceaccounts shop/web": false,
		"get persistentvolumeclaims shop/data": false, "get resource.k8s.io:resourceclaims shop/gpu": false,
	}
	elsewhere := []string{"get secrets default/db", "get pods shop/db", "get configmaps shop/db", "get serviceaccounts shop/default",
		"get secrets shop/web", "get persistentvolumeclaims shop/pv", "get resource.k8s.io:resourceclaims shop/data"}
	for _, mirror := range []bool{false, true} {
		g := covered()
		p.Mirror = mirror
		g.SetPod(p, watched(at(1000)))
		a := authorizerOver(t, g, 0)
		for text, alsoMirror := range probes {
			want := "allow 1000-"
			if mirror && !alsoMirror {
				want = ""
			}
			if got := timeline(t, a, "n1", text); got != want {
				t.Errorf("mirror %t: %s: %q, want %q", mirror, text, got, want)
			}
			if got := timeline(t, a, "n2", text); got != "" {
				t.Errorf("mirror %t: %s by another node: %q", mirror, text, got)
			}
		}
		for _, text := range elsewhere {
			if got := timeline(t, a, "n1", text); got != "" {
				t.Errorf("mirror %t: %s: %q", mirror, text, got)
			}
		}
	}
}
