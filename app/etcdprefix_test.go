package app

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
)

// twoClusters is the database of a k3s that holds two clusters, each with a pod of its name.
func twoClusters(t *testing.T) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := sql.Open("sqlite", path)
	must(err)
	_, err = db.Exec(`CREATE TABLE kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER, created INTEGER, deleted INTEGER, create_revision INTEGER,
		prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)`)
	must(err)
	for i, name := range []string{"registry", "prod"} {
		pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop","uid":"u","creationTimestamp":"2026-11-20T10:00:00Z"},"spec":{"nodeName":"worker-1"}}`, name)
		for key, value := range map[string]string{"/pods/shop/" + name: pod, "/namespaces/kube-system": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system"}}`} {
			_, err = db.Exec(`INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value, old_value) VALUES (?, 1, 0, ?, 0, 0, ?, '')`,
				"/"+name+key, i+1, []byte(value))
			must(err)
		}
	}
	must(db.Close())
	return path
}

// TestEtcdPrefix holds that whatever loads state takes that of the cluster which the prefix names.
func TestEtcdPrefix(t *testing.T) {
	path := twoClusters(t)
	load := map[string]func(prefix string) (*cluster.State, error){
		"commands": func(prefix string) (*cluster.State, error) {
			return startLoading(&Input{State: []string{path}, EtcdPrefix: prefix}).wait(t.Context())
		},
		"run": func(prefix string) (*cluster.State, error) {
			c := &config.Config{State: config.State{Files: []string{path}, EtcdPrefix: prefix}}
			f, err := openStateFeed(c, zerolog.Nop())
			if err != nil {
				return nil, err
			}
			return f.State, nil
		},
	}
	for who, load := range load {
		for prefix, want := range map[string]string{"/registry": "registry", "prod/": "prod"} {
			s, err := load(prefix)
			if err != nil {
				t.Errorf("%s, %s: %v", who, prefix, err)
				continue
			}
			for _, pod := range []string{"registry", "prod"} {
				if _, there := s.Graph.PodNode("shop", pod, time.Now()); there != (pod == want) {
					t.Errorf("%s, %s: pod %s is there: %v", who, prefix, pod, there)
				}
			}
		}
		if _, err := load(""); err == nil || !strings.Contains(err.Error(), `several clusters, under "/prod" and "/registry"`) {
			t.Errorf("%s, no prefix: %v", who, err)
		}
		if _, err := load("/a//b"); err == nil || !strings.Contains(err.Error(), "/a//b") {
			t.Errorf("%s, a wrong prefix: %v", who, err)
		}
	}
}
