package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/rbac"
)

// maxManifest bounds a document of a manifest, in bytes: more than an API server would take.
const maxManifest = 16 << 20

// ReadManifest reads the RBAC objects of a manifest, as kubectl apply would take it: YAML documents or JSON, single objects or lists.
// Fields that RBAC does not have are errors, so that a slip does not pass for less access. Objects of other kinds are left out; how
// many is the second result.
func ReadManifest(r io.Reader) (*rbac.Objects, int, error) {
	out := &rbac.Objects{}
	others := 0
	docs := utilyaml.NewYAMLReader(bufio.NewReader(io.LimitReader(r, maxManifest+1)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, others, nil
		}
		if err == nil && len(doc) > maxManifest {
			err = fmt.Errorf("longer than %d bytes", maxManifest)
		}
		if err == nil {
			err = readObject(doc, out, &others, 0)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func readObject(doc []byte, out *rbac.Objects, others *int, depth int) error {
	if len(bytes.TrimSpace(doc)) == 0 {
		return nil
	}
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	text, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return err
	}
	if string(text) == "null" {
		return nil // only comments
	}
	if err := json.Unmarshal(text, &head); err != nil { // what it is not is said in Go's words
		return errors.New("no Kubernetes object: apiVersion, kind or items has another type, or it is no map")
	}
	if head.Kind == "" && head.APIVersion == "" && len(head.Items) == 0 {
		return errors.New("no Kubernetes object: it has neither apiVersion nor kind")
	}
	if len(head.Items) > 0 {
		if depth > 0 {
			return errors.New("a list within a list")
		}
		for i, item := range head.Items {
			if err := readObject(item, out, others, depth+1); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return nil
	}
	if head.APIVersion != rbacv1.SchemeGroupVersion.String() {
		*others++
		return nil
	}
	switch head.Kind {
	case rbac.KindClusterRole:
		return readInto(doc, &out.ClusterRoles, func(o *rbacv1.ClusterRole) *metav1.ObjectMeta { return &o.ObjectMeta })
	case rbac.KindRole:
		return readInto(doc, &out.Roles, namespaced(func(o *rbacv1.Role) *metav1.ObjectMeta { return &o.ObjectMeta }))
	case rbac.KindClusterRoleBinding:
		return readInto(doc, &out.ClusterRoleBindings, func(o *rbacv1.ClusterRoleBinding) *metav1.ObjectMeta { return &o.ObjectMeta })
	case rbac.KindRoleBinding:
		return readInto(doc, &out.RoleBindings, namespaced(func(o *rbacv1.RoleBinding) *metav1.ObjectMeta { return &o.ObjectMeta }))
	}
	*others++
	return nil
}

// namespaced is meta, with the namespace that kubectl takes where there is none.
func namespaced[T any](meta func(*T) *metav1.ObjectMeta) func(*T) *metav1.ObjectMeta {
	return func(o *T) *metav1.ObjectMeta {
		m := meta(o)
		if m.Namespace == "" {
			m.Namespace = metav1.NamespaceDefault
		}
		return m
	}
}

func readInto[T any](doc []byte, list *[]T, meta func(*T) *metav1.ObjectMeta) error {
	var o T
	if err := yaml.UnmarshalStrict(doc, &o); err != nil {
		return err
	}
	if meta(&o).Name == "" {
		return errors.New("metadata.name is missing")
	}
	*list = append(*list, o)
	return nil
}
