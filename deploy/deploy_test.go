// Package deploy has the files that nodetrail is deployed with. Its tests read the manifests, which are the chart in helm/ rendered, as an API server
// does and compare them with the program: the tests of the policy, the kubeconfigs and the flags are in pipeline/webhook, next to their endpoint.
package deploy

//go:generate go -C helm run ./cmd/manifests ..

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
)

const namespace = "nodetrail"

// manifest is what one file applies, together with what has to be there before.
type manifest struct {
	text     string
	objects  []runtime.Object
	accounts map[string]*corev1.ServiceAccount
	configs  map[string]*corev1.ConfigMap
	services map[string]*corev1.Service
	roles    map[string]*rbacv1.ClusterRole
	secrets  map[string][]string // the keys, by name, as the commands at the head of the files make them
	pods     map[string]workload
}

// workload is what runs pods.
type workload struct {
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
	service  string
}

var secretCommand = regexp.MustCompile(`(?m)^#\s+kubectl -n nodetrail create secret generic (\S+)(( --from-file=\S+)+)$`)

// read decodes files as an API server does with fieldValidation=Strict: an unknown or doubled field is an error.
func read(t *testing.T, names ...string) *manifest {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	m := &manifest{
		accounts: map[string]*corev1.ServiceAccount{}, configs: map[string]*corev1.ConfigMap{}, services: map[string]*corev1.Service{},
		roles: map[string]*rbacv1.ClusterRole{}, secrets: map[string][]string{}, pods: map[string]workload{},
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m.text += string(text)
		m.objects = append(m.objects, decode(t, scheme, text)...)
	}
	for _, c := range secretCommand.FindAllStringSubmatch(m.text, -1) {
		m.secrets[c[1]] = strings.Fields(strings.ReplaceAll(c[2], "--from-file=", ""))
	}
	for _, o := range m.objects {
		switch o := o.(type) {
		case *corev1.ServiceAccount:
			m.accounts[o.Name] = o
		case *corev1.ConfigMap:
			m.configs[o.Name] = o
		case *corev1.Service:
			m.services[o.Name] = o
		case *rbacv1.ClusterRole:
			m.roles[o.Name] = o
		case *appsv1.Deployment:
			m.pods[o.Name] = workload{selector: o.Spec.Selector, template: o.Spec.Template}
		case *appsv1.StatefulSet:
			m.pods[o.Name] = workload{o.Spec.Selector, o.Spec.Template, o.Spec.VolumeClaimTemplates, o.Spec.ServiceName}
		}
	}
	return m
}

func decode(t *testing.T, scheme *runtime.Scheme, text []byte) []runtime.Object {
	t.Helper()
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var out []runtime.Object
	for docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		o, kind, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		meta := o.(metav1.Object)
		in := namespace
		if kind.Kind == "Role" || kind.Kind == "RoleBinding" {
			in = "kube-system" // where the API servers' Leases are
		}
		if clusterWide := meta.GetNamespace() == ""; meta.GetName() == "" || !clusterWide && meta.GetNamespace() != in ||
			clusterWide != slices.Contains([]string{"Namespace", "ClusterRole", "ClusterRoleBinding"}, kind.Kind) {
			t.Errorf("%s %q in namespace %q", kind.Kind, meta.GetName(), meta.GetNamespace())
		}
		out = append(out, o)
	}
}

func forEach(t *testing.T, f func(t *testing.T, m *manifest)) {
	for _, name := range []string{"nodetrail.yaml", "scale-out.yaml", "fleet.yaml"} {
		t.Run(name, func(t *testing.T) { f(t, read(t, name)) })
	}
}

// The program may read what it must to keep the state, and nothing else.
func TestRights(t *testing.T) {
	text, err := cluster.RecordRBAC(namespace, "nodetrail")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	printed := decode(t, scheme, text)
	forEach(t, func(t *testing.T, m *manifest) {
		var rights []runtime.Object
		// Verbs and resources are sets, and labels give no rights.
		sets := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		for _, o := range m.objects {
			switch o.(type) {
			case *corev1.Namespace: // with the same labels, so that kubectl apply of the one keeps those of the other
				if d := cmp.Diff(printed[0], o, cmpopts.IgnoreTypes(metav1.TypeMeta{})); d != "" {
					t.Errorf("not the namespace that nodetrail record --print-rbac prints (-printed +there):\n%s", d)
				}
			case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.Role, *rbacv1.RoleBinding, *corev1.ServiceAccount:
				rights = append(rights, o)
			}
		}
		var want []runtime.Object
		if m.pods["nodetrail-fleet"].selector == nil { // which asks no API server
			want = printed[1:]
		}
		if d := cmp.Diff(want, rights, cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Labels"), sets); d != "" {
			t.Errorf("not what nodetrail record --print-rbac --rbac-service-account nodetrail prints (-printed +there):\n%s", d)
		}
	})
}

// What a pod mounts, runs as and is reached by exists, and it passes the namespace's pod security level.
func TestPods(t *testing.T) {
	forEach(t, func(t *testing.T, m *manifest) {
		for name, w := range m.pods {
			own, spec := w.template.Labels, w.template.Spec
			if d := cmp.Diff(w.selector.MatchLabels, own); d != "" || len(own) == 0 {
				t.Errorf("%s does not select its own pods:\n%s", name, d)
			}
			if account := spec.ServiceAccountName; account == "" {
				if mount := spec.AutomountServiceAccountToken; mount == nil || *mount {
					t.Errorf("%s has the rights of the default account", name)
				}
			} else if m.accounts[account] == nil {
				t.Errorf("%s runs as %q, which is not there", name, account)
			}
			if w.service != "" && m.services[w.service] == nil {
				t.Errorf("%s is a set of the service %q, which is not there", name, w.service)
			}
			restricted(t, name, &spec)
			c := &spec.Containers[0]
			for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p != nil && (p.HTTPGet.Port.String() != "health" || !hasPort(c, "health")) {
					t.Errorf("%s is probed at the port %s, not at a port of its own", name, p.HTTPGet.Port.String())
				}
			}
			if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("%s: %v, %v", name, c.LivenessProbe, c.ReadinessProbe)
			}
			limited(t, name, c)
			mounts(t, m, name, w)
		}
		for name, s := range m.services {
			found := false
			for _, w := range m.pods {
				if !cmp.Equal(s.Spec.Selector, w.template.Labels) {
					continue
				}
				found = true
				for _, p := range s.Spec.Ports {
					if !hasPort(&w.template.Spec.Containers[0], p.TargetPort.String()) {
						t.Errorf("the service %s leads to the port %s, which its pods have not", name, p.TargetPort.String())
					}
				}
			}
			if !found {
				t.Errorf("the service %s leads to no pods", name)
			}
		}
	})
}

// Each network policy is about pods that are there, and lets each of their ports in, from some addresses, but for the one that probes have; where a policy is, all other ports are closed.
func TestAttack03Network(t *testing.T) {
	forEach(t, func(t *testing.T, m *manifest) {
		covered := map[string]bool{}
		for _, o := range m.objects {
			n, ok := o.(*networkingv1.NetworkPolicy)
			if !ok {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			open, found := map[string]bool{}, map[string]bool{}
			for _, rule := range n.Spec.Ingress {
				for _, p := range rule.Ports {
					open[p.Port.String()] = true
				}
				if len(rule.From) == 0 {
					t.Errorf("%s: a rule admits any address", n.Name)
				}
			}
			for name, w := range m.pods {
				if !selector.Matches(labels.Set(w.template.Labels)) {
					continue
				}
				covered[name] = true
				for _, p := range w.template.Spec.Containers[0].Ports {
					if p.Name == "health" { // for the node's own kubelet, which no policy stops
						continue
					}
					if found[p.Name] = true; !open[p.Name] {
						t.Errorf("%s closes the port %s of %s", n.Name, p.Name, name)
					}
				}
			}
			if d := cmp.Diff(found, open); d != "" {
				t.Errorf("%s opens other ports than its pods have (-pods +policy):\n%s", n.Name, d)
			}
		}
		for name := range m.pods {
			if !covered[name] {
				t.Errorf("no network policy is about %s", name)
			}
		}
	})
}

// restricted checks what the level "restricted" of the Pod Security Standards asks for.
func restricted(t *testing.T, name string, spec *corev1.PodSpec) {
	t.Helper()
	if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 || spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Fatalf("%s: %d containers, or the host's namespaces", name, len(spec.Containers))
	}
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(bool), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if d := cmp.Diff(want, spec.Containers[0].SecurityContext); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
	s := spec.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.SeccompProfile == nil ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: %v", name, s)
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil {
			t.Errorf("%s: the volume %s is neither a ConfigMap, a Secret nor empty", name, v.Name)
		}
	}
}

// limited checks that the Go runtime knows the limit, and has some room below it.
func limited(t *testing.T, name string, c *corev1.Container) {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if i < 0 {
		t.Errorf("%s: GOMEMLIMIT is not set", name)
		return
	}
	text, _ := strings.CutSuffix(c.Env[i].Value, "B") // MiB is Mi to Kubernetes
	soft, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	if most := c.Resources.Limits.Memory().Value(); soft.Value() > most*95/100 || soft.Value() < most*80/100 {
		t.Errorf("%s: GOMEMLIMIT is %s, the limit %s", name, c.Env[i].Value, c.Resources.Limits.Memory())
	}
}

func hasPort(c *corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}

// mounts checks that each mount has its volume, and each volume its ConfigMap or Secret; and that the configuration which the container's
// arguments name is there, is good, and names only files and ports that the pod has.
func mounts(t *testing.T, m *manifest, name string, w workload) {
	t.Helper()
	c := &w.template.Spec.Containers[0]
	files := map[string]string{} // by path, with the text of those that are known
	writable := map[string]bool{}
	for _, mount := range c.VolumeMounts {
		if mount.SubPath != "" {
			t.Errorf("%s: %s is mounted by subPath, and would not change with its source", name, mount.Name)
		}
		if slices.ContainsFunc(w.claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == mount.Name }) {
			writable[mount.MountPath] = true
			continue
		}
		i := slices.IndexFunc(w.template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			t.Errorf("%s mounts %s, which is no volume", name, mount.Name)
			continue
		}
		switch v := w.template.Spec.Volumes[i]; {
		case v.ConfigMap != nil:
			if m.configs[v.ConfigMap.Name] == nil {
				t.Errorf("%s mounts the ConfigMap %s, which is not there", name, v.ConfigMap.Name)
				continue
			}
			for key, text := range m.configs[v.ConfigMap.Name].Data {
				files[path.Join(mount.MountPath, key)] = text
			}
		case v.Secret != nil:
			keys := m.secrets[v.Secret.SecretName]
			if len(keys) == 0 {
				t.Errorf("%s mounts the Secret %s, and no command at the head of the file makes it", name, v.Secret.SecretName)
			}
			for _, key := range keys {
				files[path.Join(mount.MountPath, key)] = ""
			}
			if mode := v.Secret.DefaultMode; mode == nil || *mode != 0o440 || w.template.Spec.SecurityContext.FSGroup == nil {
				t.Errorf("%s: others may read the Secret %s, or the program may not", name, v.Secret.SecretName)
			}
		default:
			writable[mount.MountPath] = true
		}
	}
	for _, v := range w.template.Spec.Volumes {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			t.Errorf("%s does not mount its volume %s", name, v.Name)
		}
	}
	if len(c.Args) < 3 || c.Args[1] != "--config" || files[c.Args[2]] == "" {
		t.Fatalf("%s: the arguments %q name no file of %d", name, c.Args, len(files))
	}
	configured(t, name, c, c.Args[2], files[c.Args[2]], files, writable)
}

func configured(t *testing.T, name string, c *corev1.Container, file, text string, files map[string]string, writable map[string]bool) {
	t.Helper()
	cfg, err := config.Parse(file, []byte(text), func(name string) (string, bool) {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value, true
			}
		}
		return "", false
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !writable[cfg.Data] && c.Args[0] != "report" { // which only reads the database
		t.Errorf("%s: its data folder %s is no volume", name, cfg.Data)
	}
	for _, word := range regexp.MustCompile(`/etc/[^\s,}\]"]+`).FindAllString(text, -1) {
		if _, ok := files[word]; !ok {
			t.Errorf("%s: %s is in no volume", name, word)
		}
	}
	ports, more := map[string]string{"metrics": cfg.Listen, "health": cfg.Health}, []string(nil)
	switch c.Args[0] {
	case "report":
		if cfg.Store.Postgres == nil {
			t.Errorf("%s has no database of several clusters", name)
		}
		ports, more = map[string]string{"pages": cfg.Pages.Listen, "health": ":9878"}, []string{"--fleet", "--serve", cfg.Pages.Listen, "--health", ":9878"}
	case "run":
		if cfg.Sources.Webhook == nil && cfg.Sources.Kafka == nil {
			t.Errorf("%s has no source", name)
		}
		if cfg.Sources.Webhook != nil {
			ports["audit"] = cfg.Sources.Webhook.Listen
		}
	case "gateway":
		if cfg.Gateway == nil {
			t.Fatalf("%s has no section gateway", name)
		}
		ports["audit"] = cfg.Gateway.Webhook.Listen
	default:
		t.Errorf("%s: %q", name, c.Args)
	}
	if !slices.Equal(c.Args[3:], more) {
		t.Errorf("%s: %q", name, c.Args)
	}
	got := map[string]string{}
	for _, p := range c.Ports {
		got[p.Name] = fmt.Sprintf(":%d", p.ContainerPort)
	}
	if d := cmp.Diff(ports, got); d != "" {
		t.Errorf("%s listens elsewhere than it says (-configuration +container):\n%s", name, d)
	}
}

// The gateway writes what the analyzers read.
func TestScaleOutFitsTogether(t *testing.T) {
	m := read(t, "scale-out.yaml")
	none := func(string) (string, bool) { return "", false }
	data := m.configs["nodetrail"].Data
	gateway, err := config.Parse("gateway.yaml", []byte(data["gateway.yaml"]), none)
	if err != nil {
		t.Fatal(err)
	}
	analyzer, err := config.Parse("analyzer.yaml", []byte(data["analyzer.yaml"]), none)
	if err != nil {
		t.Fatal(err)
	}
	from, to := analyzer.Sources.Kafka, gateway.Gateway.Kafka
	if !cmp.Equal(from.Brokers, to.Brokers) || !cmp.Equal(from.Topics, []string{to.Topic}) || from.TLS != to.TLS {
		t.Errorf("the gateway writes to %s of %v, the analyzers read %v of %v", to.Topic, to.Brokers, from.Topics, from.Brokers)
	}
	if analyzer.Store.Postgres == nil {
		t.Error("the analyzers do not share a store")
	}
}

// A document that a manifest names is there.
func TestLinks(t *testing.T) {
	for _, name := range []string{"nodetrail.yaml", "scale-out.yaml", "fleet.yaml", "audit-policy.yaml", "kube-apiserver.flags", "audit-webhook.kubeconfig", "audit-webhook-token.kubeconfig"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\b(docs|deploy)/[A-Za-z0-9./-]*[A-Za-z0-9]`).FindAllString(string(text), -1) {
			if _, err := os.Stat(path.Join("..", link)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
