package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/e2e/result"
)

// minorsHead is the section of the page with a row for each older minor; it is the last one.
const minorsHead = `
## Older minors

The same scenarios on each minor's own control plane and kubelets, by make e2e-minors. What needs a newer Kubernetes is not run, and listed.
Each request that does not agree outside of races was refused by an API server that had just started, whose own graph was incomplete; a test requires that
nodetrail says so (authorizer-lag).

| Kubernetes | scenes | judged | denied | agree outside of races | in races | not run |
|---|---|---|---|---|---|---|
`

// minorRow is what the tests measured on an older minor.
func minorRow(dir string) (string, error) {
	var s result.Scenes
	if ok, err := read(dir, "scenarios", &s); err != nil || !ok {
		return "", errors.Join(err, errors.New("the scenarios have not run"))
	}
	var left []result.Left
	if _, err := read(dir, "left", &left); err != nil {
		return "", err
	}
	names := []string{}
	for _, l := range left {
		names = append(names, fmt.Sprintf("%s (needs %s)", l.Name, l.Needs))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %s | %s | %d: %s |\n", s.Kubernetes, len(s.Scenes), s.Judged, s.Denials, share(s.Agree, s.Compared),
		share(s.RacesAgree, s.RacesCompared), len(left), strings.Join(names, ", ")), nil
}

// minorRows are the rows of a page.
func minorRows(page string) []string {
	_, section, _ := strings.Cut(page, minorsHead)
	return slices.Collect(strings.Lines(section))
}

// withMinors puts rows at the end of a page, each in place of the one of the same minor, the newest first.
func withMinors(page string, rows ...string) string {
	page, _, _ = strings.Cut(page, minorsHead)
	byMinor := map[string]string{}
	for _, row := range rows {
		minor, _, _ := strings.Cut(strings.TrimPrefix(row, "| v1."), ".")
		byMinor[minor] = row
	}
	if len(byMinor) == 0 {
		return page
	}
	page += minorsHead
	for n := 99; n > 0; n-- {
		page += byMinor[fmt.Sprint(n)]
	}
	return page
}

// writePage writes the page of the newest Kubernetes, or the row of an older one into it.
func writePage(path, dir, text string, older bool) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the page: %w", err)
	}
	rows := minorRows(string(old))
	if older {
		row, err := minorRow(dir)
		if err != nil {
			return err
		}
		text, rows = string(old), append(rows, row)
	}
	return os.WriteFile(path, []byte(withMinors(text, rows...)), 0o644)
}
