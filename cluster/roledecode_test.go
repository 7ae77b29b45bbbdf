package cluster

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	kjson "sigs.k8s.io/json"
)

// TestRoles holds what the decoder makes of roles and bindings against what Kubernetes' decoder makes of them.
func TestRoles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	texts := func() []string {
		var out []string
		for range rng.IntN(4) {
			out = append(out, []string{"", "*", "get", "pods/log", "é\"\\\n", "system:node:a"}[rng.IntN(6)])
		}
		return out
	}
	text := func() string { return append(texts(), "last")[0] }
	documents := map[kindID][]string{
		kindClusterRole: {
			`{}`, `{"rules":null}`, `{"rules":[]}`, `{"rules":[null,{}]}`, `{"rules":[{"verbs":null,"resources":[]}]}`, `{"rules":[{"verbs":["get",null]}]}`,
			`{"Rules":[{"verbs":["get"]}]}`, `{"rules":[{"Verbs":["get"]}]}`, `{"rules":{}}`, `{"rules":[1]}`, `{"rules":[{"verbs":"get"}]}`, `{"rules":[{"verbs":[1]}]}`,
			`{"aggregationRule":{"clusterRoleSelectors":[{}]},"rules":[{"verbs":["get"],"unknown":{"a":[1]}}]}`,
		},
		kindClusterRoleBinding: {
			`{}`, `{"roleRef":null,"subjects":null}`, `{"roleRef":{"kind":null,"name":"n","more":1},"subjects":[{"kind":"User","extra":[]},null]}`,
			`{"roleRef":[]}`, `{"subjects":[{"name":1}]}`, `{"subjects":"a"}`,
		},
	}
	for range 300 {
		var rules []rbacv1.PolicyRule
		var subjects []rbacv1.Subject
		for range rng.IntN(4) {
			rules = append(rules, rbacv1.PolicyRule{Verbs: texts(), APIGroups: texts(), Resources: texts(), ResourceNames: texts(), NonResourceURLs: texts()})
			subjects = append(subjects, rbacv1.Subject{Kind: text(), APIGroup: text(), Name: text(), Namespace: text()})
		}
		ref := rbacv1.RoleRef{APIGroup: text(), Kind: text(), Name: text()}
		for id, o := range map[kindID]any{
			kindClusterRole: rbacv1.ClusterRole{Rules: rules}, kindRole: rbacv1.Role{Rules: rules},
			kindClusterRoleBinding: rbacv1.ClusterRoleBinding{RoleRef: ref, Subjects: subjects}, kindRoleBinding: rbacv1.RoleBinding{RoleRef: ref, Subjects: subjects},
		} {
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			documents[id] = append(documents[id], string(data))
		}
	}
	d := newDecoder()
	for id, all := range documents {
		for _, text := range all {
			want := map[kindID]any{
				kindClusterRole: &rbacv1.ClusterRole{}, kindRole: &rbacv1.Role{}, kindClusterRoleBinding: &rbacv1.ClusterRoleBinding{}, kindRoleBinding: &rbacv1.RoleBinding{},
			}[id]
			refused := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), want)
			if role, is := want.(*rbacv1.ClusterRole); is {
				role.AggregationRule = nil // its outcome is in the rules
			}
			o, err := d.object(id, []byte(text))
			if (err == nil) != (refused == nil) {
				t.Errorf("%s %s: %v, Kubernetes says %v", id, text, err, refused)
				continue
			}
			if err == nil && !reflect.DeepEqual(o.role, want) {
				t.Errorf("%s %s:\n%+v, want\n%+v", id, text, o.role, want)
			}
		}
	}
}
