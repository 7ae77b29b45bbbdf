package helm

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// refused is what the admission plugin PodSecurity has against a pod at the level restricted.
func refused(t *testing.T, template *corev1.PodTemplateSpec) string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	results := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
	if results.Allowed {
		return ""
	}
	return results.ForbiddenDetail()
}

func TestRestricted(t *testing.T) {
	forEach(t, func(t *testing.T, _ string, o *objects) {
		for name, w := range o.pods {
			if why := refused(t, w.template); why != "" {
				t.Errorf("%s: %s", name, why)
			}
			for _, c := range w.template.Spec.Containers {
				if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
					t.Errorf("%s: the root filesystem of %s can be written", name, c.Name)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s: %v", name, c.Resources)
				}
			}
			// The evaluator finds each of these.
			for what, plant := range map[string]func(*corev1.PodTemplateSpec){
				"runAsNonRoot":             func(p *corev1.PodTemplateSpec) { p.Spec.SecurityContext.RunAsNonRoot = nil },
				"seccompProfile":           func(p *corev1.PodTemplateSpec) { p.Spec.SecurityContext.SeccompProfile = nil },
				"capabilities":             func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.Capabilities = nil },
				"allowPrivilegeEscalation": func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
				"hostNetwork":              func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true },
			} {
				defect := w.template.DeepCopy()
				plant(defect)
				if why := refused(t, defect); !strings.Contains(why, what) {
					t.Errorf("%s without %s: %q", name, what, why)
				}
			}
		}
	})
}

// What selects pods selects all pods of one component and no others.
func TestSelectors(t *testing.T) {
	forEach(t, func(t *testing.T, set string, o *objects) {
		selected := map[string]map[string]bool{} // what selects, by component
		selects := func(what string, selector *metav1.LabelSelector) {
			t.Helper()
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for name, w := range o.pods {
				if s.Matches(labels.Set(w.template.Labels)) {
					found = append(found, name)
				}
			}
			if len(found) != 1 || s.Empty() {
				t.Errorf("%s selects the pods of %q", what, found)
				return
			}
			kind, _, _ := strings.Cut(what, " ")
			if selected[kind] == nil {
				selected[kind] = map[string]bool{}
			}
			selected[kind][found[0]] = true
		}
		for name, w := range o.pods {
			selects("workload "+name, w.selector)
			if a := w.template.Spec.Affinity; a != nil {
				for _, term := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					selects("affinity "+name, term.PodAffinityTerm.LabelSelector)
				}
			}
			for _, c := range w.template.Spec.TopologySpreadConstraints {
				selects("spread "+name, c.LabelSelector)
			}
			if !selected["workload"][name] {
				t.Errorf("%s does not select its own pods", name)
			}
		}
		for name, s := range o.services {
			selects("service "+name, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		}
		for name, p := range o.policies {
			selects("policy "+name, &p.Spec.PodSelector)
		}
		for name, b := range o.budgets {
			selects("budget "+name, b.Spec.Selector)
		}
		for _, kind := range []string{"workload", "service", "policy", "affinity", "spread", "budget"} {
			want := len(o.pods)
			if len(o.pods) == 1 && (kind == "affinity" || kind == "spread" || kind == "budget") {
				want = 0 // one pod
			}
			if len(selected[kind]) != want {
				t.Errorf("%s: %v", kind, selected[kind])
			}
		}
	})
}

// Probes have a listener of their own.
func TestProbes(t *testing.T) {
	forEach(t, func(t *testing.T, _ string, o *objects) {
		for name, w := range o.pods {
			c := w.template.Spec.Containers[0]
			for what, p := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
				if p == nil || p.HTTPGet == nil || portOf(&c, p.HTTPGet.Port.String()) != 9878 {
					t.Errorf("%s: %s: %v", name, what, p)
				}
			}
			for service, s := range o.services {
				for _, p := range s.Spec.Ports {
					if p.TargetPort.String() == "health" {
						t.Errorf("the service %s leads to the probes", service)
					}
				}
			}
		}
	})
}

func portOf(c *corev1.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// reach says which addresses of a list are among peers, by a word for each peer that is no address.
func reach(t *testing.T, peers []networkingv1.NetworkPolicyPeer, addresses map[string]string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range peers {
		if p.IPBlock == nil {
			out["pods"] = true
			continue
		}
		block, err := netip.ParsePrefix(p.IPBlock.CIDR)
		if err != nil {
			t.Fatal(err)
		}
		for who, address := range addresses {
			if block.Contains(netip.MustParseAddr(address)) {
				out[who] = true
			}
		}
	}
	return out
}

// The policies of the full set admit the control planes to the webhook, nodes to the probes, pods to the metrics, and nobody else; and pods reach what
// they need.
func TestNetwork(t *testing.T) {
	addresses := map[string]string{"control plane": "192.0.2.10", "other control plane": "192.0.2.11", "neighbour": "192.0.2.12", "node": "198.51.100.7", "broker": "203.0.113.5", "internet": "8.8.8.8"}
	all := map[string]*networkingv1.NetworkPolicy{}
	for _, set := range []string{"full", "fleet-full"} {
		maps.Copy(all, render(t, values(t, set)).policies)
	}
	type way struct{ from, port string }
	in := map[string]map[way]bool{
		"nodetrail-gateway":  {{"control plane", "audit"}: true, {"other control plane", "audit"}: true, {"pods", "metrics"}: true, {"node", "health"}: true},
		"nodetrail-analyzer": {{"pods", "metrics"}: true, {"node", "health"}: true},
		"nodetrail-fleet":    {{"pods", "pages"}: true, {"node", "health"}: true},
	}
	out := map[string]map[way]bool{
		"nodetrail-gateway": {{"pods", "53"}: true, {"broker", "9093"}: true},
		"nodetrail-fleet": {
			{"pods", "53"}: true, {"broker", "5432"}: true, {"control plane", "443"}: true, {"control plane", "6443"}: true,
		},
		"nodetrail-analyzer": {
			{"pods", "53"}: true, {"broker", "9093"}: true, {"broker", "5432"}: true,
			{"control plane", "443"}: true, {"control plane", "6443"}: true, {"other control plane", "443"}: true, {"other control plane", "6443"}: true,
		},
	}
	if len(all) != len(in) {
		t.Fatalf("%d policies", len(all))
	}
	for name, p := range all {
		got := map[way]bool{}
		add := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
			if len(peers) == 0 || len(ports) == 0 {
				t.Errorf("%s: a rule for any address or any port", name)
			}
			for who := range reach(t, peers, addresses) {
				for _, port := range ports {
					got[way{who, port.Port.String()}] = true
				}
			}
		}
		for _, r := range p.Spec.Ingress {
			add(r.From, r.Ports)
		}
		compare(t, name+" in", in[name], got)
		got = map[way]bool{}
		for _, r := range p.Spec.Egress {
			add(r.To, r.Ports)
		}
		compare(t, name+" out", out[name], got)
		if len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("%s: %v", name, p.Spec.PolicyTypes)
		}
	}
	// Without nodes nobody but the pod's own node, which no policy stops, reaches the probes.
	for name, p := range render(t, values(t, "single")).policies {
		for _, r := range p.Spec.Ingress {
			for _, port := range r.Ports {
				if port.Port.String() == "health" {
					t.Errorf("%s opens the probes", name)
				}
			}
		}
	}
}

func compare[K comparable](t *testing.T, what string, want, got map[K]bool) {
	t.Helper()
	for k := range want {
		if !got[k] {
			t.Errorf("%s: %v is missing", what, k)
		}
	}
	for k := range got {
		if !want[k] {
			t.Errorf("%s: %v is open", what, k)
		}
	}
}

// An image by digest is that image whatever its tag becomes.
func TestImage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		image map[string]any
		want  string
	}{
		{nil, "ghcr.io/nodetrail/nodetrail:0.1.0"},
		{map[string]any{"tag": "1.2.3"}, "ghcr.io/nodetrail/nodetrail:1.2.3"},
		{map[string]any{"digest": digest}, "ghcr.io/nodetrail/nodetrail@" + digest},
		{map[string]any{"digest": digest, "tag": "1.2.3", "repository": "registry:5000/a/b"}, "registry:5000/a/b:1.2.3@" + digest},
	} {
		v := values(t, "single")
		if test.image != nil {
			v["image"] = test.image
		}
		if got := render(t, v).pods[Release].template.Spec.Containers[0].Image; got != test.want {
			t.Errorf("%v: %s, want %s", test.image, got, test.want)
		}
	}
}
