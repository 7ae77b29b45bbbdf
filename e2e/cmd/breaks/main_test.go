package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each text is in its file once, and each test is there: the list is run at night, and the code changes by day.
func TestListIsCurrent(t *testing.T) {
	all, err := parse(list)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("the list has %d entries", len(all))
	}
	for _, b := range all {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(b.file)))
		if err != nil {
			t.Errorf("%s: %v", b.test, err)
			continue
		}
		if n := strings.Count(string(source), b.from); n != 1 {
			t.Errorf("%s: %s has %q %d times", b.test, b.file, b.from, n)
		}
		name, _, _ := strings.Cut(b.test, "/")
		if !hasTest(t, b.packageName, name) {
			t.Errorf("%s: there is no such test in %s", b.test, b.packageName)
		}
	}
}

func hasTest(t *testing.T, packageName, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", packageName, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
