package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row takes the place of the one of its minor, and a page of the newest keeps the rows.
func TestMinors(t *testing.T) {
	row := func(version, rest string) string { return "| v" + version + " | " + rest + " |\n" }
	page := withMinors("# A\n", row("1.29.15", "a"), row("1.35.4", "b"))
	page = withMinors(page, append(minorRows(page), row("1.29.16", "c"))...)
	if want := "# A\n" + minorsHead + row("1.35.4", "b") + row("1.29.16", "c"); page != want {
		t.Errorf("%s\nwant\n%s", page, want)
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(path, t.TempDir(), "# B\n", false); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != strings.Replace(page, "# A", "# B", 1) {
		t.Errorf("%v: %s", err, b)
	}
	if err := writePage(path, t.TempDir(), "", true); err == nil {
		t.Error("a row without results is written")
	}
}
