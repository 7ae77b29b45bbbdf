package helm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// warnings are the messages for which helm lint --strict fails.
func warnings(chart string, values map[string]any) (out []string) {
	for _, m := range lint.RunAll(chart, values, Namespace).Messages {
		if m.Severity >= support.WarningSev {
			out = append(out, m.Error())
		}
	}
	return out
}

func TestLint(t *testing.T) {
	for _, set := range sets {
		if w := warnings(Chart, values(t, set)); len(w) > 0 {
			t.Errorf("%s: %q", set, w)
		}
	}
}

// A chart with a defect does not pass.
func TestLintFindsDefects(t *testing.T) {
	for name, text := range map[string]string{
		"templates/broken.yaml": "a: {{ .Values.mode",
		"templates/yaml.yaml":   "a: [1",
		"Chart.yaml":            "apiVersion: v2\nname: nodetrail\nversion: one",
	} {
		folder := filepath.Join(t.TempDir(), Chart)
		if err := os.CopyFS(folder, os.DirFS(Chart)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if w := warnings(folder, values(t, "single")); len(w) == 0 {
			t.Errorf("%s passes with %q", name, text)
		}
	}
}

// Each wrong value is refused with one sentence that names it.
func TestWrongValues(t *testing.T) {
	for _, test := range []struct{ values, want string }{
		{`mode: cluster`, `at '/mode': value must be one of 'single', 'scale-out', 'fleet'`},
		{`mod: single`, `at '': additional properties 'mod' not allowed`},
		{`cluster: ""`, `at '/cluster': minLength: got 0, want 1`},
		{`image: {digest: "sha256:12"}`, `at '/image/digest': 'sha256:12' does not match pattern '^(sha256:[0-9a-f]{64})?$'`},
		{`image: {digset: ""}`, `at '/image': additional properties 'digset' not allowed`},
		{`image: {pullPolicy: always}`, `at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'`},
		{`tls: {clients: {names: []}}`, `at '/tls/clients/names': minItems: got 0, want 1`},
		{`tls: {certManager: {enabled: "yes"}}`, `at '/tls/certManager/enabled': got string, want boolean`},
		{`networkPolicy: {controlPlanes: []}`, `at '/networkPolicy/controlPlanes': minItems: got 0, want 1`},
		{`networkPolicy: {controlPlanes: [10.0.0.1]}`, `at '/networkPolicy/controlPlanes/0': '10.0.0.1' does not match pattern`},
		{`networkPolicy: {controlPlanes: [10.0.0.1/33]}`, `at '/networkPolicy/controlPlanes/0': '10.0.0.1/33' does not match pattern`},
		{`networkPolicy: {metricsFrom: []}`, `at '/networkPolicy/metricsFrom': minItems: got 0, want 1`},
		{`networkPolicy: {apiServerPorts: [70000]}`, `at '/networkPolicy/apiServerPorts/0': maximum: got 70,000, want 65,535`},
		{`gateway: {replicas: 0}`, `at '/gateway/replicas': minimum: got 0, want 1`},
		{`single: {replicas: 2}`, `at '/single': additional properties 'replicas' not allowed`},
		{`single: {resources: {memoryLimitMiB: 1Gi}}`, `at '/single/resources/memoryLimitMiB': got string, want integer`},
		{`single: {resources: {cpu: fast}}`, `at '/single/resources/cpu': 'fast' does not match pattern`},
		{`single: {storage: {size: big}}`, `at '/single/storage/size': 'big' does not match pattern`},
		{`single: {config: [1]}`, `at '/single/config': got array, want object`},
		{`single: {egress: [{ports: [{port: 1}]}]}`, `at '/single/egress/0': missing property 'to'`},
		{`scaleOut: {kafka: {brokers: [kafka]}}`, `at '/scaleOut/kafka/brokers/0': 'kafka' does not match pattern`},
		{`scaleOut: {kafka: {sasl: {mechanism: MD5}}}`, `at '/scaleOut/kafka/sasl/mechanism': value must be one of 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'`},
		{`fleet: {secretName: ""}`, `at '/fleet/secretName': '' does not match pattern`},
		{`fleet: {readersFrom: []}`, `at '/fleet/readersFrom': minItems: got 0, want 1`},
		{`fleet: {replicas: 2}`, `at '/fleet': additional properties 'replicas' not allowed`},
		{`fleet: {askKubernetes: "no"}`, `at '/fleet/askKubernetes': got string, want boolean`},
		{`service: {type: ExternalName}`, `at '/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'`},
		{`pod: {annotations: {a: 1}}`, `at '/pod/annotations/a': got number, want string`},
		{`monitoring: {serviceMonitor: {interval: soon}}`, `at '/monitoring/serviceMonitor/interval': 'soon' does not match pattern`},

		{`mode: scale-out`, `scaleOut.kafka.brokers is empty: mode scale-out needs the addresses of Kafka brokers`},
		{`tls: {clients: {configMapName: a, secretName: b}}`, `tls.clients: set configMapName or secretName, not both`},
		{`tls: {clients: {configMapName: a}, certManager: {enabled: true}}`, `tls.certManager.issuer.name is empty: cert-manager needs an issuer`},
		{`tls: {certManager: {enabled: true, issuer: {name: a}}}`, `tls.clients: with certManager set configMapName or secretName`},
		{`{mode: fleet, fleet: {resources: {memoryMiB: 2048}}}`, `fleet.resources.memoryMiB is more than memoryLimitMiB`},
		{`single: {resources: {memoryMiB: 2048}}`, `single.resources.memoryMiB is more than memoryLimitMiB`},
	} {
		v, err := loader.LoadValues(strings.NewReader(test.values))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Render(v)
		if err == nil {
			t.Errorf("%s: accepted", test.values)
			continue
		}
		if lines := strings.Split(strings.TrimSpace(err.Error()), "\n"); !strings.Contains(lines[len(lines)-1], test.want) || len(lines) > 3 { // Helm has two lines before it
			t.Errorf("%s:\n%v\nwant one line with\n%s", test.values, err, test.want)
		}
	}
}

// plain are the objects by kind and name, without what only one of chart and manifest has.
func plain(t *testing.T, o *objects) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, object := range o.all {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if _, ok := object.(*corev1.Namespace); ok { // helm install --create-namespace
			continue
		}
		for _, w := range o.pods {
			delete(w.template.Annotations, "checksum/config")
			if len(w.template.Annotations) == 0 {
				w.template.Annotations = nil
			}
		}
		text, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		meta := object.(metav1.Object)
		key := kind + " " + meta.GetNamespace() + "/" + meta.GetName()
		if out[key] != "" {
			t.Errorf("%s occurs twice", key)
		}
		out[key] = string(text)
	}
	return out
}

// The chart has the repository's dashboards and Prometheus rules, as files: Helm, archives and some checkouts do not follow symbolic links.
func TestCopies(t *testing.T) {
	want, err := Copies()
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 6 {
		t.Errorf("%d files", len(want))
	}
	got := map[string][]byte{}
	err = filepath.WalkDir(filepath.Join(Chart, "files"), func(name string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Type().IsRegular():
			relative, err := filepath.Rel(Chart, name)
			if err != nil {
				return err
			}
			got[filepath.ToSlash(relative)], err = os.ReadFile(name)
			return err
		case !e.IsDir():
			t.Errorf("%s is no regular file", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-repository +chart), run go generate ./deploy:\n%s", d)
	}
}

// The plain manifests are the chart with its values sets.
func TestManifests(t *testing.T) {
	for file, set := range map[string]string{"nodetrail.yaml": "single", "scale-out.yaml": "scale-out", "fleet.yaml": "fleet"} {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		want := plain(t, render(t, values(t, set)))
		if len(want) < 8 && set != "fleet" || len(want) < 4 {
			t.Errorf("%s: %d objects", set, len(want))
		}
		if d := cmp.Diff(want, plain(t, decode(t, string(text)))); d != "" {
			t.Errorf("%s (-chart +manifest), run go generate ./deploy:\n%s", file, d)
		}
	}
}

// nodetrail accepts what is rendered.
func TestConfiguration(t *testing.T) {
	forEach(t, func(t *testing.T, _ string, o *objects) {
		for name, w := range o.pods {
			path := w.template.Spec.Containers[0].Args[2]
			file := filepath.Base(path)
			if got := configCheck(t, file, o.mounted(t, w, path)); !strings.HasPrefix(got, file+" is good") { // that of a fleet has no source
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// A defect in it would be found.
func TestConfigurationIsChecked(t *testing.T) {
	v := values(t, "single")
	v["single"] = map[string]any{"config": map[string]any{"skwe": "2s"}}
	if got := configCheck(t, "nodetrail.yaml", render(t, v).configs[Release].Data["nodetrail.yaml"]); !strings.Contains(got, "skew") {
		t.Errorf("skwe: %s", got)
	}
}

func configCheck(t *testing.T, file, text string) string {
	t.Helper()
	cmd := exec.Command(program, "config", "check", "--config", file)
	cmd.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(cmd.Dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// Keys of the values come over those of the chart, also where they are false, and leave their neighbours alone.
func TestOwnConfiguration(t *testing.T) {
	v := values(t, "single")
	v["single"] = map[string]any{"config": map[string]any{
		"state": map[string]any{"live": map[string]any{"enabled": false}, "files": []any{"/state"}}, "log": map[string]any{"level": "debug"}, "cluster": "",
	}}
	o := render(t, v)
	var got struct {
		Cluster *string
		State   struct {
			Live  struct{ Enabled *bool }
			Files []string
		}
		Log map[string]string
	}
	if err := yaml.Unmarshal([]byte(o.configs[Release].Data["nodetrail.yaml"]), &got); err != nil {
		t.Fatal(err)
	}
	if got.State.Live.Enabled == nil || *got.State.Live.Enabled || got.Cluster == nil || *got.Cluster != "" || !cmp.Equal(got.State.Files, []string{"/state"}) ||
		!cmp.Equal(got.Log, map[string]string{"format": "json", "level": "debug"}) {
		t.Errorf("%s", o.configs[Release].Data["nodetrail.yaml"])
	}
}

// The service account may do what nodetrail record --print-rbac prints, and nothing else.
func TestRights(t *testing.T) {
	printed, err := exec.Command(program, "record", "--print-rbac", "--rbac-service-account", Release, "--rbac-namespace", Namespace).Output()
	if err != nil {
		t.Fatal(err)
	}
	rights := func(o *objects) (out []runtime.Object) {
		for _, object := range o.all {
			switch object.(type) {
			case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.Role, *rbacv1.RoleBinding, *corev1.ServiceAccount:
				out = append(out, object)
			}
		}
		return out
	}
	want := rights(decode(t, string(printed)))
	if len(want) != 5 {
		t.Fatalf("%d objects", len(want))
	}
	forEach(t, func(t *testing.T, set string, o *objects) {
		if strings.HasPrefix(set, "fleet") {
			fleetRights(t, o, rights(o), set == "fleet-full")
			return
		}
		sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
		if d := cmp.Diff(want, rights(o), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Labels"), sorted); d != "" {
			t.Errorf("(-printed +chart):\n%s", d)
		}
		for name, w := range o.pods {
			automount, account := w.template.Spec.AutomountServiceAccountToken, w.template.Spec.ServiceAccountName
			if gateway := strings.HasSuffix(name, "-gateway"); gateway && (account != "" || automount == nil || *automount) || !gateway && account != Release {
				t.Errorf("%s runs as %q", name, account)
			}
		}
	})
}

// The page of all clusters has no rights. Where it asks Kubernetes who reads, it may do that with an account of its own, and nothing else.
func fleetRights(t *testing.T, o *objects, rights []runtime.Object, asks bool) {
	t.Helper()
	const name = Release + "-fleet"
	spec := &o.pods[name].template.Spec
	if !asks {
		if len(rights) > 0 || spec.ServiceAccountName != "" || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			t.Errorf("%d objects of RBAC; it runs as %q", len(rights), spec.ServiceAccountName)
		}
		return
	}
	if len(rights) != 2 || spec.ServiceAccountName != name || spec.AutomountServiceAccountToken != nil {
		t.Fatalf("%d objects of RBAC; it runs as %q", len(rights), spec.ServiceAccountName)
	}
	account, _ := rights[0].(*corev1.ServiceAccount)
	binding, _ := rights[1].(*rbacv1.ClusterRoleBinding)
	if account == nil || account.Name != name || binding == nil {
		t.Fatalf("%v", rights)
	}
	want := rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: Namespace}},
	}
	if d := cmp.Diff(&want, binding, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Labels", "Name"), cmpopts.IgnoreTypes(metav1.TypeMeta{})); d != "" {
		t.Errorf("(-want +chart):\n%s", d)
	}
}
