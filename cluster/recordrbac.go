package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// OwnNamespace is the namespace that RecordRBAC and the manifests below deploy/ create.
const OwnNamespace = "nodetrail"

// RecordRBAC returns, as YAML, the least rights that Record needs: a ServiceAccount of the given namespace and name, a ClusterRole that
// may list and watch the kinds that matter, and the ClusterRoleBinding between them; and the same by a Role for kinds of which only one
// namespace is read. Secrets are not among the kinds. OwnNamespace is created, with the labels that it has in the manifests. Another namespace
// must exist: kubectl apply would change the labels that its owner gave it.
func RecordRBAC(namespace, name string) ([]byte, error) {
	role := name + "-record"
	wide, narrow := recordRules()
	meta := func(name, namespace string) map[string]any {
		m := map[string]any{"name": name}
		if namespace != "" {
			m["namespace"] = namespace
		}
		return m
	}
	grant := func(prefix, in string, rules []rbacv1.PolicyRule) []map[string]any {
		return []map[string]any{
			{"apiVersion": rbacGroup + "/v1", "kind": prefix + "Role", "metadata": meta(role, in), "rules": rules},
			{
				"apiVersion": rbacGroup + "/v1", "kind": prefix + "RoleBinding", "metadata": meta(role, in),
				"roleRef":  rbacv1.RoleRef{APIGroup: rbacGroup, Kind: prefix + "Role", Name: role},
				"subjects": []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
			},
		}
	}
	var docs []map[string]any
	if namespace == OwnNamespace {
		own := meta(namespace, "")
		own["labels"] = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		docs = append(docs, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": own})
	}
	docs = append(docs, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(name, namespace)})
	docs = append(docs, grant("Cluster", "", wide)...)
	for _, in := range slices.Sorted(maps.Keys(narrow)) {
		docs = append(docs, grant("", in, narrow[in])...)
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

// recordRules are the rights to read the kinds, by API group: in all namespaces, and in those of which alone a kind is read.
func recordRules() (wide []rbacv1.PolicyRule, narrow map[string][]rbacv1.PolicyRule) {
	add := func(rules []rbacv1.PolicyRule, k *kind) []rbacv1.PolicyRule {
		for i := range rules {
			if rules[i].APIGroups[0] == k.Group {
				rules[i].Resources = append(rules[i].Resources, k.Resource)
				return rules
			}
		}
		return append(rules, rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{k.Group}, Resources: []string{k.Resource}})
	}
	narrow = map[string][]rbacv1.PolicyRule{}
	for i := range kinds {
		if k := &kinds[i]; k.Namespace == "" {
			wide = add(wide, k)
		} else {
			narrow[k.Namespace] = add(narrow[k.Namespace], k)
		}
	}
	return wide, narrow
}
