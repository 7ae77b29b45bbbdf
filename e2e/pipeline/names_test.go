package pipeline

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// TestFlagNames compares the flags of deploy/kube-apiserver.names, among which are those of docs/recipes.md, with the help of a real kube-apiserver.
func TestFlagNames(t *testing.T) {
	programs := plane.Must(plane.Build(t.Context()))(t)
	help := plane.Must(programs.Help(t.Context(), "kube-apiserver"))(t)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +--([a-z0-9-]+)`).FindAllStringSubmatch(help, -1) {
		known[m[1]] = true
	}
	if !known["etcd-servers"] || known["audit-log"] {
		t.Fatalf("%d flags in the help", len(known))
	}
	names := strings.Fields(string(plane.Must(os.ReadFile(filepath.Join(plane.Must(plane.Root())(t), "deploy", "kube-apiserver.names")))(t)))
	if len(names) == 0 {
		t.Error("no names")
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("kube-apiserver %s has no flag --%s", programs.Kubernetes, name)
		}
	}
}
