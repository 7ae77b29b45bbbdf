package cluster

import (
	"bytes"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// RecordRBAC returns, as YAML, the least rights that Record needs: a ServiceAccount of the given namespace and name, a ClusterRole that
// may list and watch the kinds that matter, and the ClusterRoleBinding between them. Secrets are not among the kinds.
func RecordRBAC(namespace, name string) ([]byte, error) {
	role := name + "-record"
	rules := make([]rbacv1.PolicyRule, 0, 4)
	at := map[string]int{}
	for i := range kinds {
		k := &kinds[i]
		j, ok := at[k.Group]
		if !ok {
			j = len(rules)
			at[k.Group] = j
			rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{k.Group}})
		}
		rules[j].Resources = append(rules[j].Resources, k.Resource)
	}
	meta := func(name, namespace string) map[string]any {
		m := map[string]any{"name": name}
		if namespace != "" {
			m["namespace"] = namespace
		}
		return m
	}
	docs := []map[string]any{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(name, namespace)},
		{"apiVersion": rbacGroup + "/v1", "kind": "ClusterRole", "metadata": meta(role, ""), "rules": rules},
		{
			"apiVersion": rbacGroup + "/v1", "kind": "ClusterRoleBinding", "metadata": meta(role, ""),
			"roleRef":  rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole", Name: role},
			"subjects": []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
	}
	var out bytes.Buffer
	for i, d := range docs {
		text, err := yaml.Marshal(d)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", d["kind"], err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
