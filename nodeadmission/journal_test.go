package nodeadmission_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/rbac"
)

func unzip(t testing.TB, file io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readJournal fills a store and RBAC from a journal of watch events, whose first lines are the initial lists.
func readJournal(t testing.TB, data []byte) (*nodeadmission.Store, *rbac.Store) {
	t.Helper()
	store, roles := nodeadmission.NewStore(), rbac.NewStore()
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for first := true; lines.Scan(); first = false {
		var e struct {
			ObservedAt time.Time       `json:"observedAt"`
			Type       string          `json:"type"`
			Object     json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if first {
			roles.CoverFrom(e.ObservedAt)
			for _, k := range []nodeadmission.Kind{
				nodeadmission.KindPod, nodeadmission.KindNode, nodeadmission.KindClaim, nodeadmission.KindVolume, nodeadmission.KindServiceAccount,
				nodeadmission.KindSlice,
			} {
				store.CoverFrom(k, e.ObservedAt)
			}
		}
		if !take(store, e.Object, e.Type == "DELETED", nodeadmission.Moment{Time: e.ObservedAt}) {
			takeRole(t, roles, e.Object, e.Type == "DELETED", e.ObservedAt)
		}
	}
	return store, roles
}

// read is what became of an object: nil if it was deleted.
func read[T any](data []byte, deleted bool, f func([]byte) (*T, bool)) *T {
	if deleted {
		return nil
	}
	v, ok := f(data)
	if !ok {
		panic("unreadable: " + string(data))
	}
	return v
}

func readVolume(data []byte) (d *nodeadmission.Driver, ok bool) {
	var pv corev1.PersistentVolume
	err := json.Unmarshal(data, &pv)
	driver := nodeadmission.DriverOf(&pv)
	return &driver, err == nil
}

// take gives an object to the store, and is false for a kind that it does not keep.
func take(s *nodeadmission.Store, data []byte, deleted bool, m nodeadmission.Moment) bool {
	var o struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err)
	}
	namespace, name := o.Metadata.Namespace, o.Metadata.Name
	text := func(s string) func([]byte) (*string, bool) { return func([]byte) (*string, bool) { return &s, true } }
	switch o.Kind {
	case "Pod":
		s.SetPod(namespace, name, read(data, deleted, nodeadmission.ReadPod), m)
	case "Node":
		s.SetNode(name, read(data, deleted, nodeadmission.ReadNode), m)
	case "PersistentVolumeClaim":
		s.SetClaim(namespace, name, read(data, deleted, nodeadmission.ReadClaim), m)
	case "PersistentVolume":
		s.SetVolume(name, read(data, deleted, readVolume), m)
	case "CSIDriver":
		s.SetDriver(name, read(data, deleted, nodeadmission.ReadDriver), m)
	case "ServiceAccount":
		s.SetServiceAccount(namespace, name, read(data, deleted, text(string(o.Metadata.UID))), m)
	case "ResourceSlice":
		s.SetSlice(name, read(data, deleted, text(o.Spec.NodeName)), m)
	default:
		return false
	}
	return true
}

// takeRole gives RBAC what it needs of a journal whose roles do not change.
func takeRole(t testing.TB, store *rbac.Store, data []byte, deleted bool, at time.Time) {
	t.Helper()
	var kind metav1.TypeMeta
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	for _, into := range []any{&kind, &role, &binding} {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case kind.Kind == "ClusterRole":
		store.SetClusterRole(&role, at)
	case kind.Kind == "ClusterRoleBinding" && deleted:
		store.DeleteClusterRoleBinding(binding.Name, at)
	case kind.Kind == "ClusterRoleBinding":
		store.SetClusterRoleBinding(&binding, at)
	}
}
