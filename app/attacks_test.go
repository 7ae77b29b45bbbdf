package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// config check says where and why, and no password.
func TestAttack18ConfigCheck(t *testing.T) {
	for text, want := range map[string]string{
		"sources: {files: [{paths: [a]}]}\nsinks:\n  alertmanager:\n  - urls: [\"http://127.0.0.1:9093/?k=hunter2\"]\n": ":4: sinks.alertmanager[0].urls[0]: leave out the query",
		"sources: {files: [{paths: [a]}]}\nstore:\n  postgres:\n    dsn: postgres://u:hunter2@a:port/b\n":               ":4: store.postgres.dsn: it is not a PostgreSQL DSN",
		"sources: {files: [{paths: [a]}]}\nstore: {postgres: {dsn: host=a password=hunter2 sslmode=maybe}}\n":           ":2: store.postgres.dsn: it is not a PostgreSQL DSN",
		"sources: {files: [{paths: [a]}]}\nstore: {postgres: {dsn: host=a password=hunter2}}\n":                         "",
	} {
		path := filepath.Join(t.TempDir(), "nodetrail.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ConfigCheck(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// An answer about a node that the state does not know says that.
func TestAttack19UnknownNode(t *testing.T) {
	for node, want := range map[string]string{"nowhere": "has no Node nowhere", "worker-1": ""} {
		ex, err := Explain(t.Context(), ExplainOptions{
			Authorization: Authorization{Skew: DefaultSkew, AuthorizationMode: "Node,RBAC"},
			Input:         Input{State: []string{capture + "/journal.jsonl.gz"}}, Window: time.Minute,
			Request: &authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup}}, Verb: "get", Resource: "secrets", APIVersion: "v1",
				Namespace: "shop", Name: "db", ResourceRequest: true,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(ex.Notes, " ")
		if (want == "") == strings.Contains(notes, "Node "+node) || !strings.Contains(notes, want) {
			t.Errorf("%s: %q, want %q", node, notes, want)
		}
	}
}
