package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/spelling"
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
	fs.StringVarP(&o.output, "output", "o", "text", "form of the report: "+strings.Join(reportForms[:len(reportForms)-1], ", ")+" or "+reportForms[len(reportForms)-1])
	fs.BoolVar(&o.all, "all", false, "print everything, in text, Markdown and HTML: every check, the evidence, the findings, the nodes and the plan")
	fs.BoolVar(&o.onlyIncidents, "incidents", false, "print the incidents alone, each with its timeline, what to rotate and how to contain it, as text or json")
	fs.StringVar(&o.out, "out", "", "write the report to `FILE` in place of standard output")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print only the two answers in text, and no progress")
	fs.BoolVar(&o.noColor, "no-color", false, "print no colors; NO_COLOR in the environment does the same")
	fs.StringSliceVar(&o.filter.Namespaces, "namespace", nil, "list only findings about objects of these `NAMESPACES`; answers and --fail-on are about all")
	fs.StringSliceVar(&o.filter.Clients, "client", nil, "list only findings of clients with these `USER_AGENTS`, such as calico-node")
	fs.StringSliceVar(&o.filter.Rules, "rule", nil, "list only findings of these `RULES`")
	fs.StringVar(&o.severity, "severity", "", "list only findings that are at least this severe: "+strings.Join(severities, ", "))
}

// completions are what the flags can be.
func (o *reportOutput) completions() map[string][]string {
	return map[string][]string{"output": reportForms, "severity": severities, "rule": ruleNames()}
}

// prepare understands the flags. own are the names of the user's own rules.
func (o *reportOutput) prepare(own ...string) (err error) {
	if err := known("output", o.output, reportForms...); err != nil {
		return err
	}
	if o.onlyIncidents && o.output != "text" && o.output != "json" {
		return fmt.Errorf("--incidents: incidents are printed as text or json, not as %s", o.output)
	}
	for _, name := range o.filter.Rules {
		if all := append(ruleNames(), own...); !slices.Contains(all, name) {
			return fmt.Errorf("--rule: there is no rule %q%s", name, after(": ", spelling.Meant(name, all)))
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
	if o.out != "" {
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
		return report.WriteIncidentsJSON(w, r.Incidents)
	case o.onlyIncidents:
		return o.text(w).WriteIncidents(w, r.Incidents)
	}
	switch o.output {
	case "json":
		return r.WriteJSON(w)
	case "yaml":
		return r.WriteYAML(w)
	case "markdown":
		return r.WriteMarkdown(w, o.all)
	case "html":
		return r.WriteHTML(w, o.all)
	case "sarif":
		return r.WriteSARIF(w)
	case "junit":
		return r.WriteJUnit(w)
	case "csv":
		return r.WriteCSV(w)
	}
	return o.text(w).Write(w, r)
}

func (o *reportOutput) text(w io.Writer) report.Text {
	t := text(w)
	t.All, t.Brief, t.Colour = o.all, o.quiet, t.Colour && !o.noColor
	return t
}

// environment gives each flag that was not given the value of its variable: NODETRAIL_ and its name in capital letters, such as NODETRAIL_STATE.
func environment(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := "NODETRAIL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if !set || f.Changed || f.Name == "help" || f.Name == "version" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			if what := wants(f); what != "" {
				err = fmt.Errorf("%q is not %s", value, what)
			}
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[fromEnvironment] = []string{name}
	})
	return errors.Join(errs...)
}

// fromEnvironment is the annotation of a flag whose value comes from the environment.
const fromEnvironment = "nodetrail-environment"

// given reports whether a flag was given on the command line.
func given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f.Changed && f.Annotations[fromEnvironment] == nil
}

// overInput refuses to write to one of the inputs.
func overInput(flag, path string, inputs []string) error {
	out, err := os.Stat(path)
	if err != nil || !out.Mode().IsRegular() {
		return nil //nolint:nilerr // what is not there is written over by nobody
	}
	for _, p := range inputs {
		if in, err := os.Stat(p); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("--%s: %s is also an input, and would be overwritten", flag, path)
		}
	}
	return nil
}
