package helm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// sets are the chart's values sets.
var sets = []string{"single", "scale-out", "full", "fleet", "fleet-full"}

// program is the main module's, built once.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "chart")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		program = filepath.Join(folder, "nodetrail")
		build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", program, "./cmd/nodetrail")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// objects are what is rendered, decoded as an API server does with fieldValidation=Strict: an unknown or doubled field is an error.
type objects struct {
	all      []runtime.Object
	pods     map[string]*workload
	configs  map[string]*corev1.ConfigMap
	services map[string]*corev1.Service
	policies map[string]*networkingv1.NetworkPolicy
	budgets  map[string]*policyv1.PodDisruptionBudget
	other    map[string]*unstructured.Unstructured // by kind and name: what an operator defines
}

// workload is what runs pods.
type workload struct {
	selector *metav1.LabelSelector
	template *corev1.PodTemplateSpec
}

// mounted is what a ConfigMap has for a workload's container, by the path of its volume.
func (o *objects) mounted(t *testing.T, w *workload, path string) string {
	t.Helper()
	spec := &w.template.Spec
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.ConfigMap != nil && m.MountPath == filepath.Dir(path) && o.configs[v.ConfigMap.Name] != nil {
				return o.configs[v.ConfigMap.Name].Data[filepath.Base(path)]
			}
		}
	}
	t.Fatalf("no volume has %s", path)
	return ""
}

// forEach runs f on each values set, rendered.
func forEach(t *testing.T, f func(t *testing.T, set string, o *objects)) {
	for _, set := range sets {
		t.Run(set, func(t *testing.T) { f(t, set, render(t, values(t, set))) })
	}
}

func values(t *testing.T, set string) map[string]any {
	t.Helper()
	v, err := Values(set)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func render(t *testing.T, values map[string]any) *objects {
	t.Helper()
	rendered, err := Render(values)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, part := range rendered {
		text.WriteString("\n---\n" + part)
	}
	return decode(t, text.String())
}

func decode(t *testing.T, text string) *objects {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	out := &objects{
		pods: map[string]*workload{}, configs: map[string]*corev1.ConfigMap{}, services: map[string]*corev1.Service{},
		policies: map[string]*networkingv1.NetworkPolicy{}, budgets: map[string]*policyv1.PodDisruptionBudget{}, other: map[string]*unstructured.Unstructured{},
	}
	for docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &u.Object); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if len(u.Object) == 0 {
			continue
		}
		if group := u.GroupVersionKind().Group; group == "monitoring.coreos.com" || group == "cert-manager.io" {
			out.all, out.other[u.GetKind()+"/"+u.GetName()] = append(out.all, u), u
			continue
		}
		o, _, err := strict.Decode(bytes.TrimSpace(doc), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		out.all = append(out.all, o)
		switch o := o.(type) {
		case *appsv1.Deployment:
			out.pods[o.Name] = &workload{o.Spec.Selector, &o.Spec.Template}
		case *appsv1.StatefulSet:
			out.pods[o.Name] = &workload{o.Spec.Selector, &o.Spec.Template}
		case *corev1.ConfigMap:
			out.configs[o.Name] = o
		case *corev1.Service:
			out.services[o.Name] = o
		case *networkingv1.NetworkPolicy:
			out.policies[o.Name] = o
		case *policyv1.PodDisruptionBudget:
			out.budgets[o.Name] = o
		}
	}
}
