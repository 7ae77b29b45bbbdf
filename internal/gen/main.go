// Command gen writes the rules' pages from their Doc:
//
//	gen DIR
//
// What goes in: the rules. What comes out: DIR/<rule>.md for each and DIR/README.md; pages of rules that are no more are removed. It
// imports rules; `go generate ./...` runs it.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nodetrail/nodetrail/rules"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "gen: want one argument, the folder of the rules' pages")
		return 1
	}
	if err := write(args[0], rules.All()); err != nil {
		fmt.Fprintln(stderr, "gen:", err)
		return 1
	}
	return 0
}

func write(dir string, all []*rules.Rule) error {
	pages := map[string]string{"README.md": rules.Index(all)}
	for _, r := range all {
		pages[r.Name+".md"] = rules.Page(r)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of pages: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return fmt.Errorf("listing the old pages: %w", err)
	}
	for _, path := range old {
		if _, stays := pages[filepath.Base(path)]; stays {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing the page of a rule that is no more: %w", err)
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}
