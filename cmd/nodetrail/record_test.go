package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// emptyCluster serves lists without items and watches without events, and returns a kubeconfig for it.
func emptyCluster(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
		_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, version) // the client tells
	}))
	t.Cleanup(s.Close)
	name := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}],`+
		`"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, s.URL)
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// writer calls a function.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestRecordUntilInterrupted holds that an interrupt is how a recording ends, and that all was written then.
func TestRecordUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"record", "--kubeconfig", emptyCluster(t)}, nil, writer(func(p []byte) (int, error) {
		interrupt()
		return out.Write(p)
	}), &errs)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs.String())
	}
	if !strings.HasPrefix(out.String(), `{"observedAt":"`) || !strings.HasSuffix(out.String(), "}\n") {
		t.Errorf("journal %q", out.String())
	}
}

// TestRecordCannotWrite holds that a journal that cannot be written ends the recording, with the cause.
func TestRecordCannotWrite(t *testing.T) {
	var errs bytes.Buffer
	code := run(t.Context(), []string{"record", "--kubeconfig", emptyCluster(t)}, nil,
		writer(func([]byte) (int, error) { return 0, errors.New("the disk is full") }), &errs)
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	if last := lines[len(lines)-1]; code != 1 || last != "nodetrail: writing the journal: the disk is full" {
		t.Errorf("exit status %d, standard error %q", code, errs.String())
	}
}

// TestPrintRBAC holds that the rights are objects that an API server takes, that they fit together, and that they are for reading alone,
// secrets excepted.
func TestPrintRBAC(t *testing.T) {
	code, out, errs := invoke(t, "", "record", "--print-rbac", "--rbac-namespace", "watch", "--rbac-service-account", "eye")
	if code != 0 || errs != "" {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	docs := strings.Split(out, "---\n")
	if len(docs) != 5 {
		t.Fatalf("%d documents:\n%s", len(docs), out)
	}
	var account corev1.ServiceAccount
	var role rbacv1.ClusterRole
	var bound rbacv1.ClusterRoleBinding
	for i, into := range []any{&account, &role, &bound} {
		if err := yaml.UnmarshalStrict([]byte(docs[i]), into); err != nil {
			t.Fatalf("%v in\n%s", err, docs[i])
		}
	}
	if account.Kind != "ServiceAccount" || account.APIVersion != "v1" || account.Namespace != "watch" || account.Name != "eye" {
		t.Errorf("service account %+v", account)
	}
	if role.Kind != "ClusterRole" || role.APIVersion != "rbac.authorization.k8s.io/v1" || len(role.Rules) == 0 {
		t.Errorf("role %+v", role)
	}
	kinds := 0
	for _, rule := range role.Rules {
		kinds += len(rule.Resources)
		if !slices.Equal(rule.Verbs, []string{"list", "watch"}) || slices.Contains(rule.Resources, "secrets") ||
			slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
			t.Errorf("rule %+v", rule)
		}
	}
	if kinds != 13 {
		t.Errorf("rights to %d kinds, want 13", kinds)
	}
	wantRole := rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name}
	wantSubjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "watch", Name: "eye"}}
	if bound.Kind != "ClusterRoleBinding" || bound.RoleRef != wantRole || !slices.Equal(bound.Subjects, wantSubjects) {
		t.Errorf("binding %+v", bound)
	}
}
