package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
)

// TestBindingsAreIdentified holds that the state knows which object each binding of the capture is, in its latest version.
func TestBindingsAreIdentified(t *testing.T) {
	want := map[rbac.BindingRef][2]string{}
	for _, line := range captureLines(t) {
		var entry struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct{ Namespace, Name, UID, ResourceVersion string }
			}
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		o := &entry.Object
		ref := rbac.BindingRef{Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
		switch {
		case o.Kind != rbac.KindClusterRoleBinding && o.Kind != rbac.KindRoleBinding:
		case entry.Type == "DELETED":
			delete(want, ref)
		default:
			want[ref] = [2]string{o.Metadata.UID, o.Metadata.ResourceVersion}
		}
	}
	s := NewState()
	if err := s.Load([]string{"../internal/demo/capture/journal.jsonl.gz"}, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for b := range s.RBAC.Bindings(s.Summary().To.Add(time.Hour)) {
		n++
		if got := [2]string{b.UID, b.ResourceVersion}; got != want[b.Binding] || got[0] == "" || got[1] == "" {
			t.Errorf("%+v is %q, want %q", b.Binding, got, want[b.Binding])
		}
	}
	if n != len(want) || n < 10 {
		t.Errorf("%d bindings, want %d", n, len(want))
	}
}
