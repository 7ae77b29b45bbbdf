package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/result"
)

// The page says which Kubernetes ran, not one that is written into the program, and has what the upgrade showed.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(result.Env, dir)
	for name, v := range map[string]any{
		"scenarios": result.Scenes{Kubernetes: "v1.98.3", Etcd: "v3.7.9", Judged: 20, Denials: 4, Compared: 10, Agree: 10, Scenes: []result.Scene{{Name: "a scene", Seconds: 3}}},
		"upgrade":   result.Upgrade{From: "v1.97.1", To: "v1.98.3", Versions: []string{"Kubernetes 1.97"}, Judged: 7, Compared: 5, Agree: 5, Differ: 2},
	} {
		if err := result.Write(name, v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := pageOf(dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Kubernetes | v1.98.3 |\n| etcd | v3.7.9 |\n", "| a scene | 3 |\n", "20 requests of nodes were judged, 4 of them denied", "10 of 10 (100.00 %) agree outside of\nraces",
		"An API server of v1.97.1 is replaced by one of v1.98.3", "| requests judged | 7 |", "- Kubernetes 1.97\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q:\n%s", want, text)
		}
	}
	for _, other := range []string{"v1.36", "v1.37", "## The pipeline"} {
		if strings.Contains(text, other) {
			t.Errorf("the page has %q", other)
		}
	}
}
