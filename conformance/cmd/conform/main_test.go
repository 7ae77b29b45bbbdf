package main

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// TestMutationsFit sees that the planted errors have their place in the code as it is.
func TestMutationsFit(t *testing.T) {
	t.Chdir("../..")
	for r, least := range map[*room]int{&authorizerRoom: 30, &pluginRoom: 40} {
		if err := r.check(); err != nil {
			t.Error(err)
		}
		list, err := r.planted()
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < least {
			t.Errorf("%s: %d planted errors are not enough", r.folder, len(list))
		}
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
	speed := func(theirs, ours float64) []speedCase { return []speedCase{{"a case", theirs, ours}} }
	if err := writePage(file, []*result{{Kubernetes: "1.35.1"}, {Kubernetes: "1.36.3", Speed: speed(300, 100)}, {Kubernetes: "1.37.1", Speed: speed(500, 200)}}, caught{}); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(file); err != nil || !strings.Contains(string(data), "| a case | 300 ns | 100 ns | 3.0 | 500 ns | 200 ns | 2.5 |\n") {
		t.Errorf("the speed next to each other: %v\n%s", err, data)
	}
}

func TestHistoriesOf(t *testing.T) {
	c := &comparison{histories: 20000}
	if n := c.historiesOf(target{between: true}); n != 20000 {
		t.Errorf("%d histories in the full run", n)
	}
	c.between = 1000
	if n, most := c.historiesOf(target{between: true}), c.historiesOf(target{}); n != 1000 || most != 20000 {
		t.Errorf("CI's share: %d, and %d of the newest and the oldest", n, most)
	}
}

func TestTags(t *testing.T) {
	if got := tags(35, false); got != "k8s1_35,k8s1_36" {
		t.Errorf("1.35 has the tags %q", got)
	}
	if got := tags(37, true); got != "" {
		t.Errorf("the newest has the tags %q", got)
	}
}
