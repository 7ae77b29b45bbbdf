package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/internal/filekind"
)

func newPolicy(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check an audit policy before you rely on its log, and fix it",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cli.Subcommand(cmd, "command", args) },
	}
	cmd.AddCommand(newPolicyCheck(std))
	return cmd
}

type policyFlags struct {
	app.PolicyCheckOptions
	output string
}

func newPolicyCheck(std streams) *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "check [flags] POLICY",
		Short: "Say which checks of READY and CONFINED an audit policy prevents",
		Long: `check reads an audit policy, the file that kube-apiserver's --audit-policy-file names, and says which checks of READY and CONFINED cannot
pass with a log that it makes, whatever the cluster does, and which rule prevents them. It also names the checks that can pass but see less.

With --fix it prints the policy with rules added before those that prevent a check. Each added rule logs only what a check needs, so every other
request is logged as before. It logs no Secrets and no tokens.

POLICY is a file, or - for standard input.

Exit status: 0 every check can pass, or --fix printed a policy with which it can; 1 error; 2 a check cannot pass.`,
		Example: `  nodetrail policy check /etc/kubernetes/audit-policy.yaml
  nodetrail policy check --fix audit-policy.yaml > fixed.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(cmd, fmt.Errorf("check takes one POLICY, and %q is another", args[1]))
			}
			return cli.NeedArgs(1, "POLICY (a file, or - for standard input)")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.OneOf("output", f.output, "text", "json"); err != nil {
				return cli.Usage(cmd, err)
			}
			f.Path, f.Stdin = args[0], std.in
			return f.run(std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.Fix, "fix", false, "print a policy with which every check can pass")
	fs.StringVar(&f.KubernetesVersion, "kubernetes-version", "", "the cluster's version, such as 1.33 (default: the newest that is known)")
	fs.StringVarP(&f.output, "output", "o", "text", "form of the answer: text or json")
	cli.Complete(cmd, map[string][]string{"output": {"text", "json"}, "kubernetes-version": versions()})
	return cmd
}

func (f *policyFlags) run(std streams) error {
	r, err := app.PolicyCheck(f.PolicyCheckOptions)
	if err != nil {
		return app.MisplacedOr(err, f.Path, filekind.AuditPolicy)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(std.err, "nodetrail: warning: %s: %s\n", f.Path, w)
	}
	if f.Fix {
		_, err = std.out.Write(r.Fixed)
		return err
	}
	if f.output == "json" {
		err = r.WriteJSON(std.out)
	} else {
		err = r.WriteText(std.out)
	}
	if err != nil {
		return err
	}
	ready, _ := r.Cannot(checks.Ready)
	confined, _ := r.Cannot(checks.Confined)
	if ready+confined > 0 {
		return fmt.Errorf("%w; --fix prints one with which they can", errPolicy)
	}
	return nil
}
