package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/wording"
)

func newPolicy(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check an audit policy before you rely on its log, and fix it",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return aCommand(cmd, "command", args) },
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

Exit status: 0 every check can pass, or --fix printed a policy with which it can; 1 could not do it; 2 a check cannot pass.`,
		Example: `  nodetrail policy check /etc/kubernetes/audit-policy.yaml
  nodetrail policy check --fix audit-policy.yaml > fixed.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{cmd.CommandPath(), fmt.Errorf("check takes one POLICY, and %q is another", args[1])}
			}
			return needArgs(1, "POLICY (a file, or - for standard input)")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := known("output", f.output, "text", "json"); err != nil {
				return usageError{cmd.CommandPath(), err}
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
	complete(cmd, map[string][]string{"output": {"text", "json"}, "kubernetes-version": versions()})
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
		err = writePolicyJSON(std.out, r)
	} else {
		_, err = io.WriteString(std.out, policyText(r))
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

// policyText is the answer for people.
func policyText(r *app.PolicyCheckResult) string {
	var b strings.Builder
	for _, q := range []struct {
		answer string
		checks.Question
	}{{"READY", checks.Ready}, {"CONFINED", checks.Confined}} {
		if n, of := r.Cannot(q.Question); n > 0 {
			fmt.Fprintf(&b, "%-9s impossible with this policy: %d of %d checks cannot pass\n", q.answer, n, of)
		} else {
			fmt.Fprintf(&b, "%-9s possible with this policy: each of the %d checks can pass\n", q.answer, of)
		}
	}
	part := func(title string, in func(*app.CheckUnderPolicy) bool) {
		for i := range r.Checks {
			c := &r.Checks[i]
			if !in(c) {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(&b, "  %-20s %s\n", c.Check.Name, c.Check.Title())
			for _, l := range c.Lacks {
				fmt.Fprintf(&b, "  %-20s   %s\n", "", wording.English{}.Say(l.Code, l.Params))
			}
			if len(c.RestsOn) > 0 {
				fmt.Fprintf(&b, "  %-20s   %s\n", "", "rests on "+strings.Join(c.RestsOn, ", "))
			}
		}
	}
	part("Checks that cannot pass", func(c *app.CheckUnderPolicy) bool { return c.Cannot })
	part("Checks that can pass, but see less", func(c *app.CheckUnderPolicy) bool { return c.Weak })
	return b.String()
}

type policyJSON struct {
	Ready    bool              `json:"ready"`
	Confined bool              `json:"confined"`
	Checks   []policyCheckJSON `json:"checks"`
	Warnings []string          `json:"warnings,omitempty"`
}

type policyCheckJSON struct {
	Name      string           `json:"name"`
	Questions string           `json:"questions"`
	State     string           `json:"state"`
	Lacks     []policyLackJSON `json:"lacks,omitempty"`
	RestsOn   []string         `json:"restsOn,omitempty"`
}

type policyLackJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func writePolicyJSON(w io.Writer, r *app.PolicyCheckResult) error {
	ready, _ := r.Cannot(checks.Ready)
	confined, _ := r.Cannot(checks.Confined)
	out := policyJSON{Ready: ready == 0, Confined: confined == 0, Warnings: r.Warnings}
	for i := range r.Checks {
		c := &r.Checks[i]
		of := policyCheckJSON{Name: c.Check.Name, Questions: c.Check.Questions.String(), State: "possible", RestsOn: c.RestsOn}
		switch {
		case c.Cannot:
			of.State = "impossible"
		case c.Weak:
			of.State = "weak"
		}
		for _, l := range c.Lacks {
			of.Lacks = append(of.Lacks, policyLackJSON{string(l.Code), wording.English{}.Say(l.Code, l.Params)})
		}
		out.Checks = append(out.Checks, of)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}
