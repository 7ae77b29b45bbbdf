package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const dashboards = "../../dashboards"

// The rules and dashboards in the chart are those of dashboards/, whatever they contain.
func TestRulesAndDashboards(t *testing.T) {
	o := render(t, values(t, "full"))
	var want []any
	for _, file := range []string{"recording", "alerts", "findings"} {
		text, err := os.ReadFile(filepath.Join(dashboards, "prometheus", file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var rules struct{ Groups []any }
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		if len(rules.Groups) == 0 {
			t.Errorf("%s has no groups", file)
		}
		want = append(want, rules.Groups...)
	}
	got, _, err := unstructured.NestedSlice(o.other["PrometheusRule/"+Release].Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-file +chart):\n%s", d)
	}
	files, err := filepath.Glob(filepath.Join(dashboards, "grafana", "*.json"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(file)
		c := o.configs[Release+"-dashboard-"+strings.TrimSuffix(base, ".json")]
		if c == nil || strings.TrimSpace(c.Data[base]) != strings.TrimSpace(string(text)) || c.Labels["grafana_dashboard"] != "1" {
			t.Errorf("%s is not in the chart as it is", base)
		}
	}
}

// The ServiceMonitor selects each Service with its port metrics, and its jobs are those that the alert NodetrailDown looks for.
func TestServiceMonitor(t *testing.T) {
	alerts, err := os.ReadFile(filepath.Join(dashboards, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`expr: up\{job=~"([^"]+)"\}`).FindSubmatch(alerts)
	if m == nil {
		t.Fatal("NodetrailDown looks for no job")
	}
	jobs := regexp.MustCompile("^(?:" + string(m[1]) + ")$")
	v := values(t, "full")
	v["fullnameOverride"] = "other-name"
	o := render(t, v)
	monitor := o.other["ServiceMonitor/other-name"].Object
	match, _, err := unstructured.NestedStringMap(monitor, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	jobLabel, _, _ := unstructured.NestedString(monitor, "spec", "jobLabel")
	endpoints, _, _ := unstructured.NestedSlice(monitor, "spec", "endpoints")
	if len(endpoints) != 1 || endpoints[0].(map[string]any)["port"] != "metrics" {
		t.Errorf("%v", endpoints)
	}
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: match})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range o.services {
		if !selector.Matches(labels.Set(s.Labels)) {
			t.Errorf("the ServiceMonitor leaves out %s", name)
		}
		if job := s.Labels[jobLabel]; !jobs.MatchString(job) {
			t.Errorf("%s: the job %q is not %s", name, job, jobs)
		}
		found := false
		for _, p := range s.Spec.Ports {
			found = found || p.Name == "metrics"
		}
		if !found {
			t.Errorf("%s has no port metrics", name)
		}
	}
}

// cert-manager makes the Secret that pods mount, for the names of the Service that the API servers post to.
func TestCertificate(t *testing.T) {
	for set, service := range map[string]string{"full": "nodetrail-gateway", "single": "nodetrail"} {
		v := values(t, set)
		if set == "single" {
			v["tls"] = map[string]any{"clients": map[string]any{"secretName": "clients"}, "certManager": map[string]any{"enabled": true, "issuer": map[string]any{"name": "internal"}}}
		}
		o := render(t, v)
		c := o.other["Certificate/"+service]
		if c == nil || o.services[service] == nil {
			t.Fatalf("%s: no certificate, or no service, %s", set, service)
		}
		names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
		if d := cmp.Diff([]string{service + ".nodetrail.svc", service + ".nodetrail.svc.cluster.local"}, names); d != "" {
			t.Errorf("%s: %s", set, d)
		}
		secret, _, _ := unstructured.NestedString(c.Object, "spec", "secretName")
		mounted := map[string]bool{}
		for _, v := range o.pods[service].template.Spec.Volumes {
			switch {
			case v.Secret != nil:
				mounted[v.Secret.SecretName] = true
			case v.ConfigMap != nil:
				mounted[v.ConfigMap.Name] = true
			}
		}
		if clients := map[string]string{"full": "apiserver-clients", "single": "clients"}[set]; !mounted[secret] || !mounted[clients] {
			t.Errorf("%s: the pods mount %v", set, mounted)
		}
	}
}
