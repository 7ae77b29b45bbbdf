package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/report"
)

type suggestFlags struct {
	app.SuggestOptions
	logFlags
	output string
}

func newSuggest(std streams) *cobra.Command {
	var f suggestFlags
	cmd := &cobra.Command{
		Use:   "suggest [flags] AUDIT_LOG...",
		Short: "Write the RBAC that clients need instead of a node's credential",
		Long: `suggest finds the programs whose requests would break without some bindings (see what-if), and writes for each a service account
with the roles and bindings that it needs: what it did in the log, and nothing else. A program is identified by its user agent without the version.

Names of objects are in a rule where they are few and were asked for in both halves of the time in which the program was seen. There are
no wildcards. A request that only a wildcard could allow is named and left out.

For a program that is not a kubelet, suggest covers all of its requests, because the Node authorizer does not serve a service account. For a
program that calls itself a kubelet, suggest covers only what would break, with a warning.

With --canary it writes something else: bindings that name every node but the canaries, to be applied before the binding of the group
system:nodes is deleted, with the steps as comments. So a few nodes lose the binding first. Nodes that join later are not named.

--verify reads the logs a second time and makes each request of these programs as its service account.

Exit status: 0 success; 1 error, or --verify found a request that breaks or a right that was not used.`,
		Example: `  nodetrail suggest --state journal.jsonl --verify audit.log > rbac.yaml
  kubectl apply --dry-run=server -f rbac.yaml
  nodetrail suggest --state journal.jsonl --canary worker-1,worker-2 audit.log > canary.yaml`,
		Args: cli.NeedArgs(1, "AUDIT_LOG (a file, a glob, a folder, or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("canary") && len(f.Canary) == 0 {
				return cli.Usage(cmd, errors.New("--canary is empty"))
			}
			if err := f.prepare(args, std); err != nil {
				return cli.Usage(cmd, err)
			}
			return f.run(cmd.Context(), std)
		},
	}
	fs := changeFlags(cmd, &f.ChangeOptions, &f.logFlags)
	fs.BoolVar(&f.Verify, "verify", false, "replay the logs against the suggestion; the proof is at the head of the output")
	fs.StringSliceVar(&f.Canary, "canary", nil, "names of `NODES` that lose the bindings of the group system:nodes first; needs --state")
	fs.StringVar(&f.Namespace, "namespace", "kube-system", "the `NAMESPACE` of the service accounts")
	fs.IntVar(&f.MaxNames, "max-names", 8, "limit a rule to the names of objects when there are at most so many")
	fs.IntVar(&f.MaxNamespaces, "max-namespaces", 20, "write a role for each namespace when there are at most so many, else a cluster role")
	fs.StringVarP(&f.output, "output", "o", "yaml", "form of the output: yaml or json")
	cli.Complete(cmd, map[string][]string{"output": {"yaml", "json"}})
	return cmd
}

// prepare understands the flags.
func (f *suggestFlags) prepare(args []string, std streams) error {
	if err := cli.OneOf("output", f.output, "yaml", "json"); err != nil {
		return err
	}
	for _, n := range []struct {
		flag     string
		least, n int
	}{{"max-names", 1, f.MaxNames}, {"max-namespaces", 1, f.MaxNamespaces}, {"max-event-bytes", 1024, f.MaxEventBytes}} {
		if err := cli.AtLeast(n.flag, n.least, n.n); err != nil {
			return err
		}
	}
	if f.Namespace == "" {
		return fmt.Errorf("--namespace: %q is no name of a namespace", f.Namespace)
	}
	if err := f.read(&f.Authorization, &f.Input, std, args); err != nil {
		return err
	}
	return flagged(f.Validate())
}

func (f *suggestFlags) run(ctx context.Context, std streams) error {
	res, err := metered(std, &f.Input, func() (*app.SuggestResult, error) { return app.Suggest(ctx, f.SuggestOptions) })
	if err != nil {
		return flagged(err)
	}
	s := res.Suggestion
	switch {
	case res.Canary != nil && f.output == "json":
		err = res.Canary.WriteJSON(std.out)
	case res.Canary != nil:
		err = res.Canary.WriteYAML(std.out)
	case f.output == "json":
		err = s.WriteJSON(std.out)
	default:
		err = s.WriteYAML(std.out)
	}
	if res.Unread == nil && s != nil && s.Verified != nil {
		err = errors.Join(err, holds(s.Verified))
	}
	return errors.Join(err, res.Unread)
}

// holds is the error of a suggestion that does not.
func holds(proof *report.Verification) error {
	switch {
	case proof.Broken > 0:
		return fmt.Errorf("--verify: %d requests would break with the suggestion", proof.Broken)
	case !proof.OK():
		return fmt.Errorf("--verify: %d rights are given that were not used", len(proof.Beyond))
	}
	return nil
}
