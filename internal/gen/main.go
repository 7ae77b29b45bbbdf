// Command gen writes pages for users from what the code says of itself:
//
//	gen DIR      DIR/<rule>.md for each rule from its Doc, and DIR/README.md; pages of rules that are no more are removed
//	gen FILE.md  the page of metrics
//
// What goes in: the rules, and the descriptions of the metrics. What comes out: the files. It imports rules and sinks/metrics;
// `go generate ./...` runs it.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "gen: want one argument, the folder of the rules' pages or the file of the metrics' page")
		return 1
	}
	var err error
	if filepath.Ext(args[0]) == ".md" {
		err = writeMetrics(args[0])
	} else {
		err = write(args[0], rules.All())
	}
	if err != nil {
		fmt.Fprintln(stderr, "gen:", err)
		return 1
	}
	return 0
}

func writeMetrics(path string) error {
	if err := os.WriteFile(path, []byte(metrics.Page()), 0o644); err != nil {
		return fmt.Errorf("writing the page of metrics: %w", err)
	}
	return nil
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
