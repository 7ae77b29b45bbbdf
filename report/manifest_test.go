package report

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const someManifest = `# comments alone
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: a, namespace: n}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cr, creationTimestamp: null, labels: {a: b}}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [a]}
---
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: rb}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
  subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:nodes"}]
- {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "n"}, "rules": []}
---
{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "crb"}, "roleRef": {"kind": "ClusterRole", "name": "cr"}}
`

func TestReadManifest(t *testing.T) {
	o, others, err := ReadManifest(strings.NewReader(someManifest))
	if err != nil {
		t.Fatal(err)
	}
	if others != 1 || o.Len() != 4 || o.RoleBindings[0].Namespace != "default" || o.Roles[0].Namespace != "n" || o.ClusterRoles[0].Rules[0].ResourceNames[0] != "a" {
		t.Errorf("%d others, %+v", others, o)
	}
	for in, want := range map[string]string{
		"a: [":   "document 1: ",
		"just":   "document 1: no Kubernetes object",
		"a: b":   "document 1: no Kubernetes object",
		"[1, 2]": "document 1: no Kubernetes object",
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules: []":                                           "document 1: metadata.name is missing",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules:\n- verb: [get]":               `unknown field "verb"`,
		"kind: List\nitems:\n- kind: List\n  items: [{}]":                                                                "item 1: ",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []\n---\nmetadata: {}": "document 2: ",
	} {
		if _, _, err := ReadManifest(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

// FuzzReadManifest: nothing that is read makes it panic, and what it gives is the same when written and read again.
func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(someManifest))
	f.Add([]byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: [{verbs: ['*']}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		o, _, err := ReadManifest(bytes.NewReader(in))
		if err != nil {
			return
		}
		var out bytes.Buffer
		for i := range o.ClusterRoles {
			b, err := yaml.Marshal(&o.ClusterRoles[i])
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n")
			out.Write(b)
		}
		again, _, err := ReadManifest(&out)
		if err != nil || len(again.ClusterRoles) != len(o.ClusterRoles) {
			t.Errorf("%d roles, then %v: %v", len(o.ClusterRoles), again, err)
		}
	})
}
