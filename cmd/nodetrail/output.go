package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// reportOutput are the flags that say how a report is written, and which findings it lists.
type reportOutput struct {
	output, out, severity string
	all, quiet, noColor   bool
	onlyIncidents         bool
	filter                report.Filter
}

func (o *reportOutput) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.output, "output", "o", "text", "form of the report: "+strings.Join(report.Forms(), ", "))
	fs.BoolVar(&o.all, "all", false, "print everything, in text, Markdown and HTML: every check, the evidence, the findings, the nodes and the plan")
	fs.BoolVar(&o.onlyIncidents, "incidents", false, "print the incidents alone, each with its timeline, what to rotate and how to contain it, as text or json")
	fs.StringVar(&o.out, "out", "", "write the report to `FILE`; - for standard output (default)")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print only the two answers in text, and no progress")
	fs.BoolVar(&o.noColor, "no-color", false, "print no colors; NO_COLOR in the environment does the same")
	fs.StringSliceVar(&o.filter.Namespaces, "namespace", nil, "list only findings about objects of these `NAMESPACES`; answers and --fail-on are about all")
	fs.StringSliceVar(&o.filter.Clients, "client", nil, "list only findings of clients with these `USER_AGENTS`, such as calico-node")
	fs.StringSliceVar(&o.filter.Rules, "rule", nil, "list only findings of these `RULES`")
	fs.StringVar(&o.severity, "severity", "", "list only findings that are at least this severe: "+strings.Join(rules.SeverityNames(), ", "))
}

// completions are what the flags can be.
func (o *reportOutput) completions() map[string][]string {
	return map[string][]string{"output": report.Forms(), "severity": rules.SeverityNames(), "rule": rules.Names()}
}

// prepare understands the flags. own are the names of the user's own rules.
func (o *reportOutput) prepare(own ...string) (err error) {
	if err := cli.OneOf("output", o.output, report.Forms()...); err != nil {
		return err
	}
	if o.onlyIncidents && o.output != "text" && o.output != "json" {
		return fmt.Errorf("--incidents: incidents are printed as text or json, not as %s", o.output)
	}
	for _, name := range o.filter.Rules {
		if all := append(rules.Names(), own...); !slices.Contains(all, name) {
			return cli.NoRule("rule", name, all)
		}
	}
	if o.severity != "" {
		if o.filter.Severity, err = rules.ParseSeverity(o.severity); err != nil {
			return fmt.Errorf("--severity: %w", err)
		}
	}
	return nil
}

// after is s after what separates it, "" for nothing.
func after(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}

// write writes the report, to the file if one was named. What the filter leaves out is not written and stays in the report.
func (o *reportOutput) write(w io.Writer, r *report.Report) (err error) {
	narrowed := *r
	narrowed.Narrow(o.filter)
	if o.out != "" && o.out != "-" {
		f, err := os.Create(o.out)
		if err != nil {
			return fmt.Errorf("--out: cannot write %w", app.PathError(o.out, err))
		}
		return errors.Join(o.to(f, &narrowed), f.Close())
	}
	return o.to(w, &narrowed)
}

func (o *reportOutput) to(w io.Writer, r *report.Report) error {
	switch {
	case o.onlyIncidents && o.output == "json":
		return report.WriteIncidentsJSON(w, r)
	case o.onlyIncidents:
		return o.text(w).WriteIncidents(w, r)
	}
	return o.text(w).WriteAs(w, o.output, r)
}

func (o *reportOutput) text(w io.Writer) report.Text {
	t := text(w)
	t.All, t.Brief, t.Colour = o.all, o.quiet, t.Colour && !o.noColor
	return t
}
