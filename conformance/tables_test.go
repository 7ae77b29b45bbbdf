package conformance

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// TestTables runs the cases of upstream's own tests through both sides.
func TestTables(t *testing.T) {
	cases := readCases(t, "testdata/node-authorizer-cases.txt")
	variants, err := Variants()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	seen := map[int]bool{}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			restore, err := v.Use()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := restore(); err != nil {
					t.Error(err)
				}
			}()
			w := NewWorld(v.Features)
			for _, s := range sampleCluster() {
				w.Apply(&s)
			}
			for i, c := range cases {
				if c.applies() {
					ran++
					seen[i] = true
					c.check(t, w)
				}
			}
		})
	}
	result.Table = ran
	t.Logf("%d cases, of which %d under some of the %d settings of the gates; %d in all", len(cases), len(seen), len(variants), ran)
}

// tableCase is one line of a table, for one verb.
type tableCase struct {
	line    int
	gates   []string
	request Request
	allow   bool
	reason  string
}

func readCases(t *testing.T, file string) []tableCase {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []tableCase
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		cs, err := parseCase(line)
		if err != nil {
			t.Fatalf("%s:%d: %v", file, n, err)
		}
		for _, c := range cs {
			c.line = n
			out = append(out, c)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func parseCase(line string) ([]tableCase, error) {
	col := strings.SplitN(line, "|", 7)
	if len(col) != 7 {
		return nil, fmt.Errorf("%d columns instead of 7", len(col))
	}
	for i := range col {
		col[i] = strings.TrimSpace(col[i])
	}
	c := tableCase{gates: strings.Fields(col[4]), allow: col[5] == "allow", reason: col[6]}
	if !c.allow && col[5] != "deny" {
		return nil, fmt.Errorf("the answer is %q", col[5])
	}
	node, verbs, other := strings.Cut(col[0], ": ")
	if !other {
		node, verbs = "node0", col[0]
	}
	q := &c.request
	q.User, q.Groups = "system:node:"+node, []string{"system:nodes"}
	resource, group, _ := strings.Cut(col[1], ".")
	q.APIGroup = group
	q.Resource, q.Subresource, _ = strings.Cut(resource, "/")
	q.Namespace, q.Name, _ = strings.Cut(col[2], "/")
	if col[3] != "" {
		s, err := fields.ParseSelector(col[3])
		if err != nil {
			return nil, err
		}
		for _, r := range s.Requirements() {
			q.Selector = append(q.Selector, Selector{r.Field, string(r.Operator), r.Value})
		}
	}
	var out []tableCase
	for _, verb := range strings.Split(verbs, ",") {
		c.request.Verb = verb
		out = append(out, c)
	}
	return out, nil
}

// applies says whether the case is about the reference's gates as they are set now.
func (c *tableCase) applies() bool {
	for _, g := range c.gates {
		if from, ok := strings.CutPrefix(g, ">="); ok {
			if fmt.Sprint(Minor()) < from { // both have two digits
				return false
			}
			continue
		}
		if below, ok := strings.CutPrefix(g, "<"); ok {
			if fmt.Sprint(Minor()) >= below {
				return false
			}
			continue
		}
		name := map[string]string{
			"sel": "AuthorizeNodeWithSelectors", "sa": "KubeletServiceAccountTokenForCredentialProviders",
			"pcr": "PodCertificateRequest", "dra": "DynamicResourceAllocation", "csi": "CSIVolumeHealth",
		}[g[1:]]
		on := enabled(name) || name == "AuthorizeNodeWithSelectors" && Minor() >= 37 // which has no such gate any more
		if on != (g[0] == '+') {
			return false
		}
	}
	return true
}

func (c *tableCase) check(t *testing.T, w *World) {
	t.Helper()
	a := c.request.Attributes()
	want := answer(c.allow, named(c.reason))
	if got := w.up.ask(a); got != want {
		t.Errorf("line %d, %s: the reference says %s, the table %s", c.line, c.request.String(), words(got), words(want))
	}
	ans := w.ours.Decide(a, w.now)
	if got, ok := asOutcome(ans); !ok || got != want {
		t.Errorf("line %d, %s: we say %+v, the table %s", c.line, c.request.String(), ans, words(want))
	}
}

// sampleCluster has the shape of that of upstream's tests.
func sampleCluster() (steps []Step) {
	set := func(s Step) { s.Op = OpSet; steps = append(steps, s) }
	for n := range 2 {
		node := fmt.Sprintf("node%d", n)
		for p := range 2 {
			ns, pod := fmt.Sprintf("ns%d", p), fmt.Sprintf("pod%d-%s", p, node)
			set(Step{Pod: samplePod(ns, pod, node)})
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + pod}}
			pv.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{SecretRef: &corev1.SecretReference{Name: "secret-of-pv-" + pod}}
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ns, Name: "pvc-" + pod}
			set(Step{Volume: pv})
			set(Step{PodRequest: &OnNode{Namespace: ns, Name: "pcr-" + pod, Node: node}})
		}
		set(Step{Attachment: &OnNode{Name: "attachment-" + node, Node: node}})
		set(Step{Slice: &OnNode{Name: "slice-" + node, Node: node}})
	}
	set(Step{Pod: secretPod("shared", "a", "shared1", "one", "two", "all")})
	set(Step{Pod: secretPod("shared", "b", "shared2", "two", "all")})
	set(Step{Pod: secretPod("shared", "c", "shared3", "all")})
	gone := secretPod("shared", "d", "gone", "all")
	gone.UID = "1"
	set(Step{Pod: gone})
	without := secretPod("shared", "d", "gone")
	without.UID = "2"
	set(Step{Pod: without})

	e := secretPod("ephemeral", "e", "ephemeral", "own")
	set(Step{Pod: e})
	e = e.DeepCopy()
	e.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "added"}}}},
	}}}
	set(Step{Pod: e})
	e = e.DeepCopy()
	e.Spec.EphemeralContainers = append(e.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "added"}}}},
	}})
	set(Step{Pod: e})

	x := secretPod("extended", "x", "extended")
	set(Step{Pod: x})
	x = x.DeepCopy()
	setExtendedClaim(x, "generated", "request")
	set(Step{Pod: x})
	return steps
}

func secretPod(ns, name, node string, secrets ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: "0"}}
	p.Spec.NodeName = node
	for _, s := range secrets {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: s}}})
	}
	return p
}

func samplePod(ns, name, node string) *corev1.Pod {
	p := secretPod(ns, name, node, "secret-"+name, "shared")
	p.Spec.ServiceAccountName = "sa-" + name
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "configmap-" + name}}}},
		corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-" + name}}},
	)
	claim, template, generated := "claim-"+name, "template-"+name, "generated-"+name
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{
		podClaim("claim", &claim, nil), podClaim("template", nil, &template), podClaim("made", nil, &template),
	}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: &generated}}
	return p
}
