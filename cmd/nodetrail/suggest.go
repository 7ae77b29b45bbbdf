package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

type suggestFlags struct {
	replayFlags
	out    string
	verify bool
	opt    report.SuggestOptions
}

func newSuggest(std streams) *cobra.Command {
	var f suggestFlags
	cmd := &cobra.Command{
		Use:   "suggest [flags] AUDIT_LOG...",
		Short: "Write the RBAC that clients need instead of a node's credential",
		Long: `suggest finds the programs whose requests would break without some bindings (see what-if), and writes for each a service account
with the roles and bindings that it needs: what it did in the log, and nothing else. A program is told by its user agent's product.

Names of objects are in a rule where they are few and were asked for in both halves of the time in which the program was seen. There are
no wildcards; what could only be allowed by one is named and left out.

A program that is no kubelet gets all that it does, for the Node authorizer will not know it any more. Of one that calls itself a kubelet
only what would break is covered, with a warning.

--verify reads the logs a second time and makes each request of these programs as its service account.

Exit status: 0 done; 1 could not do it, or --verify found something that breaks or is given and was not used.`,
		Example: `  nodetrail suggest --state journal.jsonl --verify audit.log > rbac.yaml
  kubectl apply --dry-run=server -f rbac.yaml`,
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
	fs.BoolVar(&f.verify, "verify", false, "replay the logs against the suggestion; the proof is at the head of the output")
	fs.StringVar(&f.opt.Namespace, "namespace", "kube-system", "the `NAMESPACE` of the service accounts")
	fs.IntVar(&f.opt.MaxNames, "max-names", 8, "limit a rule to the names of objects when there are at most so many")
	fs.IntVar(&f.opt.MaxNamespaces, "max-namespaces", 20, "write a role for each namespace when there are at most so many, else a cluster role")
	fs.StringVarP(&f.out, "output", "o", "yaml", "form of the output: yaml or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"yaml", "json"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *suggestFlags) prepare(args []string, std streams) (*replay, error) {
	switch {
	case f.out != "yaml" && f.out != "json":
		return nil, fmt.Errorf("--output: %q is none of yaml, json", f.out)
	case f.opt.MaxNames < 1:
		return nil, fmt.Errorf("--max-names: %d is less than 1", f.opt.MaxNames)
	case f.opt.MaxNamespaces < 1:
		return nil, fmt.Errorf("--max-namespaces: %d is less than 1", f.opt.MaxNamespaces)
	case len(validation.IsDNS1123Label(f.opt.Namespace)) > 0:
		return nil, fmt.Errorf("--namespace: %q is no name of a namespace", f.opt.Namespace)
	case f.verify && slices.Contains(slices.Concat(f.state, args), "-"):
		return nil, errors.New("--verify reads the log and the state twice, and standard input (-) can be read only once")
	}
	f.opt.Kubelets = f.kubelets
	return f.replayFlags.prepare(args, std)
}

func (f *suggestFlags) run(ctx context.Context, p *replay) error {
	if err := p.readManifests(); err != nil {
		return err
	}
	var s *report.Suggester
	_, res, err := p.run(ctx, func(state *cluster.State) {
		s = report.NewSuggester(p.whatIf(state, p.with), f.opt)
	}, func(j *pipeline.Judgement) error {
		s.Add(j)
		return nil
	})
	if res == nil {
		return err
	}
	out := s.Suggestion()
	if f.verify && err == nil {
		out.Verified, err = f.replay(ctx, p, s, out)
		if out.Verified == nil {
			return err
		}
	}
	return errors.Join(f.write(p, out), err)
}

// replay goes through the logs again, over state that is read again: what the first pass learnt came later than the requests.
func (f *suggestFlags) replay(ctx context.Context, p *replay, s *report.Suggester, out *report.Suggestion) (*report.Verification, error) {
	var v *report.Verifier
	var verr error
	_, res, err := p.run(ctx, func(state *cluster.State) {
		v, verr = s.NewVerifier(p.whatIf(state, p.with), out, p.without.removes, p.with)
	}, func(j *pipeline.Judgement) error {
		if verr != nil {
			return verr
		}
		v.Add(j)
		return nil
	})
	if res == nil || verr != nil {
		return nil, errors.Join(verr, err)
	}
	proof := v.Verification()
	switch {
	case err != nil:
	case proof.Broken > 0:
		err = fmt.Errorf("--verify: %d requests would break with the suggestion", proof.Broken)
	case !proof.OK():
		err = fmt.Errorf("--verify: %d rights are given that were not used", len(proof.Beyond))
	}
	return proof, err
}

func (f *suggestFlags) write(p *replay, s *report.Suggestion) error {
	if f.out == "json" {
		return s.WriteJSON(p.std.out)
	}
	return s.WriteYAML(p.std.out)
}
