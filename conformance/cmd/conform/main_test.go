package main

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// TestMutationsFit sees that the planted errors have their place in nodeauthz as it is.
func TestMutationsFit(t *testing.T) {
	t.Chdir("../..")
	if err := checkMutations(); err != nil {
		t.Error(err)
	}
	list, err := readMutations()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 30 {
		t.Errorf("%d planted errors are not enough", len(list))
	}
}

func TestNewestPatches(t *testing.T) {
	got := newestPatches([]string{"v1.32.9", "v1.33.2", "v1.33.10", "v1.33.9", "v1.37.0-rc.1", "v1.36.0"}, 33)
	if want := map[int]string{33: "1.33.10", 36: "1.36.0"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPage(t *testing.T) {
	file := t.TempDir() + "/sub/page.md"
	if err := writePage(file, []*result{{Kubernetes: "1.36.3", Known: map[string]int{"a new one": 1}}}, caught{}); err == nil || !strings.Contains(err.Error(), "a new one") {
		t.Errorf("an unknown bug: %v", err)
	}
	if err := writePage(file, []*result{{Kubernetes: "1.36.3", Histories: 20000}}, caught{found: 8, tried: 8, all: 70}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), "| 1.36.3 | 0 | 20,000 |") {
		t.Errorf("the page: %v\n%s", err, data)
	}
}
