package days

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// RandomPolicy returns an audit policy that the API server takes, YAML, which hides some of what nodes and others do: its rules are made of words that matter
// to what nodetrail needs of a log. It is the same for a seed.
func RandomPolicy(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0x90110c7))
	some := func(words ...string) string {
		var out []string
		for _, i := range r.Perm(len(words))[:1+r.IntN(min(3, len(words)))] {
			out = append(out, fmt.Sprintf("%q", words[i]))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	one := func(words ...string) string { return words[r.IntN(len(words))] }
	stages := func(indent string) string {
		switch r.IntN(6) {
		case 0:
			return indent + "omitStages: " + some("RequestReceived", "ResponseStarted", "ResponseComplete") + "\n"
		case 1, 2:
			return indent + "omitStages: [RequestReceived]\n"
		}
		return ""
	}
	var b strings.Builder
	b.WriteString("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + stages("") + "rules:\n")
	for range 1 + r.IntN(8) {
		fmt.Fprintf(&b, "- level: %s\n%s", one("None", "None", "Metadata", "Request", "RequestResponse"), stages("  "))
		if r.IntN(4) == 0 {
			b.WriteString("  users: " + some("system:apiserver", "system:kube-proxy", "kubelet", "jane", "system:kube-controller-manager") + "\n")
		}
		if r.IntN(3) == 0 {
			b.WriteString("  userGroups: " + some("system:nodes", "system:authenticated", "system:serviceaccounts", "system:masters", "system:bootstrappers") + "\n")
		}
		if r.IntN(3) == 0 {
			b.WriteString("  verbs: " + some("get", "list", "watch", "create", "update", "patch", "delete") + "\n")
		}
		if r.IntN(8) == 0 {
			b.WriteString("  nonResourceURLs: " + some("/healthz*", "/version", "/api*", "*") + "\n")
			continue
		}
		if r.IntN(5) == 0 {
			b.WriteString("  namespaces: " + some("kube-system", "kube-node-lease", "", "default") + "\n")
		}
		if r.IntN(4) == 0 {
			continue
		}
		b.WriteString("  resources:\n")
		for range 1 + r.IntN(3) {
			group, words := "", []string{"nodes", "nodes/status", "pods", "pods/*", "*/status", "secrets", "configmaps", "services", "events", "serviceaccounts/token", "*"}
			switch r.IntN(6) {
			case 0:
				group, words = "coordination.k8s.io", []string{"leases"}
			case 1:
				group, words = "certificates.k8s.io", []string{"certificatesigningrequests", "certificatesigningrequests/approval", "*"}
			case 2:
				group, words = one("storage.k8s.io", "node.k8s.io"), []string{"csidrivers", "runtimeclasses", "csinodes"}
			case 3:
				group = "*"
			}
			fmt.Fprintf(&b, "  - group: %q\n", group)
			if r.IntN(4) > 0 {
				b.WriteString("    resources: " + some(words...) + "\n")
				if r.IntN(6) == 0 {
					b.WriteString("    resourceNames: " + some("controller-leader", "kube-root-ca.crt", "aws-auth") + "\n")
				}
			}
		}
	}
	return b.String()
}
