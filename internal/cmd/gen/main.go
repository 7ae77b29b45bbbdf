// Command gen writes pages for users from what the code says of itself:
//
//	gen DIR      DIR/<rule>.md for each rule from its Doc, and DIR/README.md; pages of rules that are no more are removed
//	gen FILE.md  the page of metrics
//	gen checks DIR  DIR/<check>.md for each check of readiness from its Doc, and DIR/README.md; pages of checks that are no more are removed
//	gen dashboards ROOT  under the repository's folder ROOT the dashboards, the alerts on findings with their test, and a runbook for each
//	             alert; those that are no more are removed
//
// What goes in: the rules, the checks, the descriptions of the metrics, the dashboards, and alerts.yaml. What comes out: the files. It imports
// rules, checks, sinks/metrics and dashboards; `go generate ./...` runs it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/dashboards"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	var err error
	if len(args) == 2 && args[0] == "dashboards" {
		err = writeDashboards(args[1])
	} else if len(args) == 2 && args[0] == "checks" {
		err = writeChecks(args[1], checks.All())
	} else if len(args) != 1 {
		err = errors.New("want one argument, the folder of the rules' pages or the file of the metrics' page, or two: dashboards ROOT, checks DIR")
	} else if filepath.Ext(args[0]) == ".md" {
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
	return writePages(dir, pages)
}

func writeChecks(dir string, all []checks.Check) error {
	pages := map[string]string{"README.md": checks.Index(all)}
	for i := range all {
		pages[all[i].Name+".md"] = checks.Page(&all[i])
	}
	return writePages(dir, pages)
}

func writePages(dir string, pages map[string]string) error {
	files := map[string]string{}
	for name, text := range pages {
		files[filepath.Join(dir, name)] = text
	}
	return replace(files, filepath.Join(dir, "*.md"))
}

func writeDashboards(root string) error {
	files, err := dashboards.Files(root)
	if err != nil {
		return err
	}
	out := map[string]string{}
	for path, text := range files {
		out[filepath.Join(root, filepath.FromSlash(path))] = text
	}
	return replace(out, filepath.Join(root, "dashboards", "grafana", "*.json"), filepath.Join(root, "docs", "runbooks", "*.md"))
}

// replace writes the files, and removes what the patterns match next to them: pages of what is no more.
func replace(files map[string]string, patterns ...string) error {
	for _, pattern := range patterns {
		old, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("listing the old files: %w", err)
		}
		for _, path := range old {
			if _, stays := files[path]; stays {
				continue
			}
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("removing the page of what is no more: %w", err)
			}
		}
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", filepath.Base(path), err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}
