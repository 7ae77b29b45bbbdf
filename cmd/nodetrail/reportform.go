package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nodetrail/nodetrail/report"
)

// knownForm refuses what is no form of a report.
func knownForm(form string) error {
	if !slices.Contains([]string{"text", "json", "markdown", "html"}, form) {
		return fmt.Errorf("--output: %q is none of text, json, markdown, html", form)
	}
	return nil
}

func writeReport(w io.Writer, r *report.Report, form string) error {
	switch form {
	case "json":
		return r.WriteJSON(w)
	case "markdown":
		return r.WriteMarkdown(w)
	case "html":
		return r.WriteHTML(w)
	}
	return report.Text{Colour: isTerminal(w) && os.Getenv("NO_COLOR") == ""}.Write(w, r)
}
