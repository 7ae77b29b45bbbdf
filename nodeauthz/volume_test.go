package nodeauthz

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPersistentVolumeOf(t *testing.T) {
	ref := func(ns, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: ns, Name: name}
	}
	in := func(ns string) []NamespacedName { return []NamespacedName{{ns, "s"}} }
	f := func(what string, s corev1.PersistentVolumeSource, bound, unbound []NamespacedName) {
		t.Helper()
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u"}}
		pv.Spec.PersistentVolumeSource = s
		if diff := cmp.Diff(PersistentVolume{Name: "pv", UID: "u", Secrets: unbound}, PersistentVolumeOf(pv)); diff != "" {
			t.Errorf("%s, without a claim (-want +got):\n%s", what, diff)
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "c"}
		want := PersistentVolume{Name: "pv", UID: "u", Claim: &NamespacedName{"shop", "data"}, Secrets: bound}
		if diff := cmp.Diff(want, PersistentVolumeOf(pv)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	type source = corev1.PersistentVolumeSource
	f("azure file", source{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s"}}, in("shop"), in(""))
	f("azure file, no namespace", source{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: ptr("")}},
		in("shop"), in(""))
	f("azure file, own namespace", source{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: ptr("az")}},
		in("az"), in("az"))
	f("azure file, no name", source{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: ptr("az")}}, nil, nil)

	// These fall back to the claim's namespace.
	for what, of := range map[string]func(*corev1.SecretReference) source{
		"ceph": func(r *corev1.SecretReference) source {
			return source{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: r}}
		},
		"flex": func(r *corev1.SecretReference) source {
			return source{FlexVolume: &corev1.FlexPersistentVolumeSource{SecretRef: r}}
		},
		"rbd": func(r *corev1.SecretReference) source {
			return source{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: r}}
		},
		"scaleio": func(r *corev1.SecretReference) source {
			return source{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{SecretRef: r}}
		},
		"iscsi": func(r *corev1.SecretReference) source {
			return source{ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: r}}
		},
	} {
		f(what, of(ref("", "s")), in("shop"), in(""))
		f(what+", own namespace", of(ref("own", "s")), in("own"), in("own"))
		f(what+", no name", of(ref("own", "")), nil, nil)
		f(what+", no reference", of(nil), nil, nil)
	}
	// These do not.
	f("cinder", source{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: ref("", "s")}}, in(""), in(""))
	f("cinder, own namespace", source{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: ref("own", "s")}}, in("own"), in("own"))
	f("cinder, no reference", source{Cinder: &corev1.CinderPersistentVolumeSource{}}, nil, nil)
	f("storageos", source{StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Name: "s"}}}, in(""), in(""))
	f("storageos, own namespace",
		source{StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Namespace: "own", Name: "s"}}}, in("own"), in("own"))
	f("storageos, no reference", source{StorageOS: &corev1.StorageOSPersistentVolumeSource{}}, nil, nil)

	nodes := []NamespacedName{{"a", "publish"}, {"", "stage"}, {"b", "expand"}}
	f("csi", source{CSI: &corev1.CSIPersistentVolumeSource{
		ControllerPublishSecretRef: ref("a", "controller"), ControllerExpandSecretRef: ref("a", "controller"),
		NodePublishSecretRef: ref("a", "publish"), NodeStageSecretRef: ref("", "stage"), NodeExpandSecretRef: ref("b", "expand"),
	}}, nodes, nodes)
	f("csi without", source{CSI: &corev1.CSIPersistentVolumeSource{ControllerPublishSecretRef: ref("a", "controller")}}, nil, nil)
	f("local", source{Local: &corev1.LocalVolumeSource{Path: "/"}}, nil, nil)
	f("nfs", source{NFS: &corev1.NFSVolumeSource{Server: "s"}}, nil, nil)
	f("nothing", source{}, nil, nil)
}

func volume(uid, claim string, secrets ...string) *PersistentVolume {
	v := &PersistentVolume{Name: "pv", UID: uid}
	if claim != "" {
		v.Claim = &NamespacedName{"shop", claim}
	}
	for _, s := range secrets {
		v.Secrets = append(v.Secrets, NamespacedName{"storage", s})
	}
	return v
}

// withClaims is a graph in which n1 has a pod with the claim data and n2 one with the claim scratch, from the beginning.
func withClaims() *Graph {
	g := covered()
	for node, claim := range map[string]string{"n1": "data", "n2": "scratch"} {
		g.SetPod(&Pod{Namespace: "shop", Name: claim, UID: claim, NodeName: node, PersistentVolumeClaims: []string{claim}}, watched(at(-50_000)))
	}
	return g
}

func TestVolumeHistories(t *testing.T) {
	f := func(what string, tell func(g *Graph), n1, n2 string) {
		t.Helper()
		g := withClaims()
		tell(g)
		checkSound(t, g)
		a := authorizerOver(t, g, 0)
		for node, want := range map[string]string{"n1": n1, "n2": n2} {
			if got := timeline(t, a, node, "get persistentvolumes pv"); got != want {
				t.Errorf("%s: the volume to %s: %q, want %q", what, node, got, want)
			}
			if got := timeline(t, a, node, "get secrets storage/csi"); got != want {
				t.Errorf("%s: its secret to %s: %q, want %q", what, node, got, want)
			}
		}
	}
	set := func(g *Graph, v *PersistentVolume, ms int) { g.SetPersistentVolume(v, watched(at(ms))) }
	f("no claim", func(g *Graph) { set(g, volume("u", "", "csi"), 1000) }, "", "")
	f("a claim of no pod", func(g *Graph) { set(g, volume("u", "other", "csi"), 1000) }, "", "")
	f("bound later", func(g *Graph) {
		set(g, volume("u", "", "csi"), 1000)
		set(g, volume("u", "data", "csi"), 2000)
		set(g, volume("u", "data", "csi"), 3000) // its status changed
	}, "allow 2000-", "")
	f("rebound", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		set(g, volume("u", "scratch", "csi"), 4000)
	}, "allow 1000-4000", "allow 4000-")
	f("released and bound again", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		set(g, volume("u", "", "csi"), 3000)
		set(g, volume("u", "", "csi"), 3500)
		set(g, volume("u", "data", "csi"), 5000)
	}, "allow 1000-3000, allow 5000-", "")
	f("deleted", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		g.DeletePersistentVolume("pv", "u", watched(at(6000)))
	}, "allow 1000-6000", "")
	f("deleted without a UID, twice", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		g.DeletePersistentVolume("pv", "", watched(at(6000)))
		g.DeletePersistentVolume("pv", "", watched(at(7000)))
	}, "allow 1000-6000", "")
	f("another one of the name was deleted", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		g.DeletePersistentVolume("pv", "before", watched(at(6000)))
		g.DeletePersistentVolume("unheard-of", "u", watched(at(6000)))
	}, "allow 1000-", "")
	f("replaced under its name", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		set(g, volume("later", "scratch", "csi"), 4000)
		g.DeletePersistentVolume("pv", "u", watched(at(4500)))
	}, "allow 1000-4000", "allow 4000-")
	f("made again", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 1000)
		g.DeletePersistentVolume("pv", "u", watched(at(2000)))
		set(g, volume("later", "data", "csi"), 3000)
	}, "allow 1000-2000, allow 3000-", "")
	f("given twice", func(g *Graph) {
		for range 2 {
			set(g, volume("u", "data", "csi"), 1000)
			set(g, volume("u", "scratch", "csi"), 2000)
			g.DeletePersistentVolume("pv", "u", watched(at(3000)))
		}
	}, "allow 1000-2000", "allow 2000-3000")
	f("the newer state first", func(g *Graph) {
		set(g, volume("u", "scratch", "csi"), 4000)
		set(g, volume("u", "data", "csi"), 1000)
	}, "allow 1000-4000", "allow 4000-")
	f("seen earlier too", func(g *Graph) {
		set(g, volume("u", "data", "csi"), 4000)
		set(g, volume("u", "data", "csi"), 1000)
	}, "allow 1000-", "")
}

func TestVolumeSecrets(t *testing.T) {
	g := withClaims()
	g.SetPersistentVolume(volume("u", "data", "publish", "publish", "", "stage"), watched(at(1000)))
	g.SetPersistentVolume(volume("u", "data", "stage", "expand"), watched(at(3000)))
	g.DeletePersistentVolume("pv", "u", watched(at(5000)))
	checkSound(t, g)
	a := authorizerOver(t, g, 0)
	for name, want := range map[string]string{
		"publish": "allow 1000-3000", "stage": "allow 1000-5000", "expand": "allow 3000-5000", "other": "",
	} {
		if got := timeline(t, a, "n1", "get secrets storage/"+name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The path by a volume lives while its pod, its claim's edge and the volume's state all do.
func TestVolumePathNeedsAllItsEdges(t *testing.T) {
	g := covered()
	pod := &Pod{Namespace: "shop", Name: "web", UID: "1", NodeName: "n1", PersistentVolumeClaims: []string{"web-scratch"}}
	g.SetPersistentVolume(&PersistentVolume{Name: "pv", UID: "u", Claim: &NamespacedName{"shop", "web-scratch"}}, watched(at(2000)))
	g.SetPod(pod, watched(at(1000)))
	g.DeletePod("shop", "web", "1", watched(at(3000)))
	later := *pod
	later.UID, later.NodeName = "2", "n2"
	g.SetPod(&later, watched(at(4000)))
	g.DeletePersistentVolume("pv", "u", watched(at(5000)))
	other := &Pod{Namespace: "default", Name: "web", UID: "3", NodeName: "n3", PersistentVolumeClaims: []string{"web-scratch"}}
	g.SetPod(other, watched(at(1000)))
	a := authorizerOver(t, g, 0)
	for node, want := range map[string]string{"n1": "allow 2000-3000", "n2": "allow 4000-5000", "n3": ""} {
		if got := timeline(t, a, node, "get persistentvolumes pv"); got != want {
			t.Errorf("to %s: %q, want %q", node, got, want)
		}
	}
	if got := timeline(t, a, "n2", "get persistentvolumeclaims shop/web-scratch"); got != "allow 4000-" {
		t.Errorf("the claim to n2: %q", got)
	}
}

// A claim that many pods share is found in another way.
func TestVolumeOfManyPods(t *testing.T) {
	g := covered()
	for i := range 2 * manyRefs {
		node, end := []string{"n1", "n2", "n3"}[i%3], 3000+i*10
		name := string(rune('A' + i))
		g.SetPod(&Pod{Namespace: "shop", Name: name, UID: name, NodeName: node, PersistentVolumeClaims: []string{"data"}}, watched(at(1000)))
		if node != "n3" {
			g.DeletePod("shop", name, name, watched(at(end)))
		}
	}
	g.SetPersistentVolume(volume("u", "data", "csi"), watched(at(2000)))
	checkSound(t, g)
	a := authorizerOver(t, g, 0)
	for node, want := range map[string]string{"n1": "allow 2000-3630", "n2": "allow 2000-3610", "n3": "allow 2000-", "n4": ""} {
		for _, text := range []string{"get persistentvolumes pv", "get secrets storage/csi"} {
			if got := timeline(t, a, node, text); got != want {
				t.Errorf("%s by %s: %q, want %q", text, node, got, want)
			}
		}
	}
}

// A state of which only the object's own second is known begins in it; the watcher's word of the same state says when.
func TestVolumeTimesGetBetter(t *testing.T) {
	g := withClaims()
	g.SetPersistentVolume(volume("u", "data", "csi"), ownStamp(at(1000)))
	a := authorizerOver(t, g, 0)
	if got := timeline(t, a, "n1", "get persistentvolumes pv"); got != "allow~ 1000-2000, allow 2000-" {
		t.Errorf("by its own word: %q", got)
	}
	g.SetPersistentVolume(volume("u", "data", "csi"), watched(at(1300)))
	if got := timeline(t, a, "n1", "get persistentvolumes pv"); got != "allow 1300-" {
		t.Errorf("once a watcher saw it: %q", got)
	}
	g.SetPersistentVolume(volume("u", "data", "csi"), ownStamp(at(1000)))
	g.SetPersistentVolume(volume("u", "data", "csi"), watched(at(1800))) // a relist
	if got := timeline(t, a, "n1", "get persistentvolumes pv"); got != "allow 1300-" {
		t.Errorf("given again: %q", got)
	}
	g.SetPersistentVolume(volume("u", "data", "csi"), ownStamp(at(0)))
	if got := timeline(t, a, "n1", "get persistentvolumes pv"); got != "allow~ 0-1000, allow 1000-" {
		t.Errorf("an older word than agrees with the watcher's: %q", got)
	}
}
