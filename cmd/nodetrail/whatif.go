package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

type whatIfFlags struct {
	replayFlags
	out    string
	failOn string
}

func newWhatIf(std streams) *cobra.Command {
	var f whatIfFlags
	cmd := &cobra.Command{
		Use:   "what-if [flags] AUDIT_LOG...",
		Short: "Say which requests of nodes would be refused without some bindings",
		Long: `what-if goes through finished audit logs and says what would become of each request of a node, had some bindings not been there and
others been added: Node allows it anyway, RBAC still allows it by another binding, or it breaks. Each request is judged as of its own time.

AUDIT_LOG is a file, a glob, a folder, or - for standard input; .gz and .zst are read as they are, rotated files in the order of time.

Requests that reached nothing (404, or 403 by admission) and races of a kubelet with the apiserver's graph are listed apart; they do not
count as breaking.

Exit status: 0 done; 1 could not do it; 2 something breaks, by --fail-on.`,
		Example: `  nodetrail what-if --state journal.jsonl audit.log
  nodetrail what-if --state journal.jsonl --without clusterrolebinding/legacy:system:node --fail-on breaks audit.log
  nodetrail what-if --state journal.jsonl --with suggestion.yaml --then-mode Node,RBAC -o json audit.log`,
		Args: needArgs(1, "AUDIT_LOG (a file, a glob, a folder, or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.prepare(args, std)
			if err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			if err := p.find(args); err != nil {
				return err
			}
			return f.run(cmd.Context(), p)
		},
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "output", "o", "text", "form of the report: text or json")
	fs.StringVar(&f.failOn, "fail-on", "", "exit 2 if anything breaks (breaks), or breaks or cannot be told (unknown)")
	fs.StringVar(&f.cluster, "cluster", "", "the cluster's name, for the report")
	for name, values := range map[string][]string{"output": {"text", "json"}, "fail-on": {"breaks", "unknown"}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	return cmd
}

func (f *whatIfFlags) prepare(args []string, std streams) (*replay, error) {
	if f.out != "text" && f.out != "json" {
		return nil, fmt.Errorf("--output: %q is none of text, json", f.out)
	}
	if f.failOn != "" && f.failOn != "breaks" && f.failOn != "unknown" {
		return nil, fmt.Errorf("--fail-on: %q is none of breaks, unknown", f.failOn)
	}
	return f.replayFlags.prepare(args, std)
}

func (f *whatIfFlags) run(ctx context.Context, p *replay) error {
	if err := p.readManifests(); err != nil {
		return err
	}
	var b *report.WhatIfBuilder
	facts, res, err := p.run(ctx, func(state *cluster.State) {
		b = report.NewWhatIfBuilder(p.whatIf(state, p.with))
	}, func(j *pipeline.Judgement) error {
		b.Add(j)
		return nil
	})
	if res == nil {
		return err
	}
	r := b.Report(facts)
	r.Without, r.With = p.without.words(), append(r.With, f.with...)
	for _, x := range p.without.unmet() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("--without %s: no such binding or subject in the state or the log", x))
	}
	if err != nil { // what was not read may hold what breaks
		r.Evidence = "insufficient"
	}
	if werr := f.write(p, r); werr != nil {
		return errors.Join(err, werr)
	}
	if err != nil {
		return err
	}
	n := r.Requests.Breaks
	if f.failOn == "unknown" {
		n += r.Requests.Unknown
	}
	if f.failOn != "" && n > 0 {
		return fmt.Errorf("%w %s: %d requests", errFindings, f.failOn, n)
	}
	if f.failOn == "unknown" && r.Evidence != "sufficient" {
		return fmt.Errorf("%w %s: the log or the state has holes", errFindings, f.failOn)
	}
	return nil
}

func (f *whatIfFlags) write(p *replay, r *report.WhatIfReport) error {
	if f.out == "json" {
		return r.WriteJSON(p.std.out)
	}
	return report.Text{Colour: isTerminal(p.std.out) && os.Getenv("NO_COLOR") == ""}.WriteWhatIf(p.std.out, r)
}
