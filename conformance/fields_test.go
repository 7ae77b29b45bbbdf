package conformance

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

var listFields = flag.Bool("list-fields", false, "print the fields that testdata/fields.txt should hold for this minor")

const fieldsFile = "testdata/fields.txt"

// TestFields sets each string field of a pod and of a persistent volume, alone, to a name and sees what both sides then let the
// node get. It finds the fields by reflection: one that lets the node get something, or whose name or type says that it might, and
// that is not in testdata/fields.txt, makes it fail.
func TestFields(t *testing.T) {
	reviewed := readFields(t)
	f, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	check := func(path string, suspicious bool, grants []string) {
		n++
		got := strings.Join(grants, ",")
		if got == "" {
			if !suspicious {
				return
			}
			got = "-"
		}
		if *listFields {
			fmt.Printf("%s %s\n", path, got)
			return
		}
		if want, ok := reviewed[path]; !ok {
			t.Errorf("%s (lets a node get: %s) has not been reviewed: see whether nodeauthz must look at it, then add it to %s", path, got, fieldsFile)
		} else if want != got {
			t.Errorf("%s lets a node get %s; reviewed as %s", path, got, want)
		}
	}
	leaves(reflect.TypeFor[corev1.Pod](), func(l leaf) {
		p := &corev1.Pod{}
		l.set(reflect.ValueOf(p).Elem(), "found")
		if p.Namespace == "" {
			p.Namespace = "ns"
		}
		if p.Name == "" {
			p.Name = "pod"
		}
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = "node"
		}
		check("pod."+l.path, l.suspicious, grantsOf(t, f, l.path, Step{Op: OpSet, Pod: p}))
	})
	leaves(reflect.TypeFor[corev1.PersistentVolumeSpec](), func(l leaf) {
		grants := map[string]bool{}
		for _, namespace := range []string{"", "other"} {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "claim"}
			v := reflect.ValueOf(&pv.Spec).Elem()
			l.set(v, "found")
			if namespace != "" && !l.setSibling(v, namespace) {
				continue
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{NodeName: "node"}}
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}}
			for _, g := range grantsOf(t, f, l.path, Step{Op: OpSet, Volume: pv}, Step{Op: OpSet, Pod: pod}) {
				if namespace != "" {
					g += " in its own namespace"
				}
				grants[g] = true
			}
		}
		check("pv."+l.path, l.suspicious, sortedKeys(grants))
	})
	t.Logf("%d fields", n)
	result.Fields = n
}

// grantsOf says what of the name "found" the node may get; both sides must say the same.
func grantsOf(t *testing.T, f nodeauthz.Features, path string, steps ...Step) []string {
	t.Helper()
	w := NewWorld(f)
	for i := range steps {
		w.Apply(&steps[i])
	}
	out := map[string]bool{}
	for _, target := range graphTargets() {
		if target.resource == "pods" && !f.AuthorizeNodeWithSelectors {
			continue // a static rule lets nodes get all
		}
		for _, ns := range []string{"ns", "other", "", "found"} {
			for _, name := range []string{"found", "pod-found", "found-"} {
				for _, node := range []string{"node", "found"} {
					q := Request{Verb: "get", APIGroup: target.group, Resource: target.resource, Namespace: ns, Name: name}
					q.User, q.Groups = identity(node)
					if target.resource == "serviceaccounts" {
						q.Verb, q.Subresource = "create", "token"
					}
					a := q.Attributes()
					theirs := w.up.ask(a)
					ans := w.ours.Decide(a, w.now)
					if ours, ok := asOutcome(ans); !ok || ours != theirs {
						t.Errorf("%s: %s\nreference: %s\nnodeauthz: %+v", path, q.String(), words(theirs), ans)
					}
					if theirs.allowed {
						out[target.resource] = true
					}
				}
			}
		}
	}
	return sortedKeys(out)
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// leaf is a string field somewhere in a type.
type leaf struct {
	path       string
	index      []step
	suspicious bool
}

// step leads one level down: into a field, or into the first element of a list or map.
type step struct {
	field int
	enter bool
}

func suspectNames() *regexp.Regexp {
	return regexp.MustCompile(`(?i)secret|configmap|claim|serviceaccount|credential|certificate|trustbundle`)
}

func suspectTypes() []string {
	return []string{
		"LocalObjectReference", "SecretReference", "ObjectReference", "TypedLocalObjectReference", "TypedObjectReference",
		"SecretKeySelector", "ConfigMapKeySelector", "SecretEnvSource", "ConfigMapEnvSource",
	}
}

// leaves finds all string fields below a struct type.
func leaves(typ reflect.Type, visit func(leaf)) {
	suspect := suspectNames()
	var walk func(t reflect.Type, l leaf, depth int)
	walk = func(t reflect.Type, l leaf, depth int) {
		switch t {
		case reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.MicroTime](),
			reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[intstr.IntOrString]():
			return
		}
		switch t.Kind() {
		case reflect.Pointer:
			walk(t.Elem(), l, depth)
		case reflect.String:
			visit(l)
		case reflect.Slice:
			l.path += "[]"
			l.index = append(slices.Clip(l.index), step{enter: true})
			walk(t.Elem(), l, depth)
		case reflect.Map:
			if t.Elem().Kind() == reflect.String && t.Key().Kind() == reflect.String {
				l.path += "{}"
				l.index = append(slices.Clip(l.index), step{enter: true})
				visit(l)
			}
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				if !f.IsExported() || depth > 16 {
					continue
				}
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				child := leaf{path: l.path, suspicious: l.suspicious, index: append(slices.Clip(l.index), step{field: i})}
				if name != "" {
					child.path = strings.TrimPrefix(l.path+"."+name, ".")
				}
				kind := f.Type
				for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
					kind = kind.Elem()
				}
				child.suspicious = child.suspicious || suspect.MatchString(f.Name) || slices.Contains(suspectTypes(), kind.Name())
				walk(f.Type, child, depth+1)
			}
		}
	}
	walk(typ, leaf{}, 0)
}

// set sets the field, making whatever is on the way.
func (l leaf) set(v reflect.Value, value string) { descend(v, l.index, value) }

func descend(v reflect.Value, index []step, value string) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if len(index) == 0 {
		v.SetString(value)
		return
	}
	if !index[0].enter {
		descend(v.Field(index[0].field), index[1:], value)
		return
	}
	if v.Kind() == reflect.Map {
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf(value).Convert(v.Type().Key()), reflect.ValueOf(value).Convert(v.Type().Elem()))
		v.Set(m)
		return
	}
	if v.Len() == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
	descend(v.Index(0), index[1:], value)
}

// setSibling sets the field next to this one that holds a namespace, if there is one.
func (l leaf) setSibling(v reflect.Value, namespace string) bool {
	for _, s := range l.index[:len(l.index)-1] {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if s.enter {
			if v.Kind() == reflect.Map {
				return false
			}
			v = v.Index(0)
		} else {
			v = v.Field(s.field)
		}
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for i := range v.NumField() {
		last := l.index[len(l.index)-1]
		if strings.HasSuffix(v.Type().Field(i).Name, "Namespace") && i != last.field {
			descend(v.Field(i), nil, namespace)
			return true
		}
	}
	return false
}

func readFields(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open(fieldsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for in := bufio.NewScanner(f); in.Scan(); {
		if path, grants, ok := strings.Cut(in.Text(), " "); ok && !strings.HasPrefix(path, "#") {
			out[path] = grants
		}
	}
	return out
}
