package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/wording"
)

const rulesUsage = "a `FILE` of your own rules in CEL, see docs/own-rules.md; may be repeated"

func newRules(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Test your own rules before you use them",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cli.Subcommand(cmd, "command", args) },
	}
	cmd.AddCommand(newRulesTest(std))
	return cmd
}

func newRulesTest(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE...",
		Short: "Run the tests of your own rules",
		Long: `test loads files of rules as analyze and run do, and runs the tests in them, and in the file next to each that has _test before its extension:
rules_test.yaml next to rules.yaml. It prints a line for each test.

Exit status: 0 every test passed; 1 a rule is wrong, a test failed, or there is no test.`,
		Example: "  nodetrail rules test rules.yaml",
		Args:    cli.NeedArgs(1, "FILE (a file of rules)"),
		RunE: func(_ *cobra.Command, args []string) error {
			results, err := app.TestRules(args)
			if err != nil {
				return err
			}
			failed := 0
			for i := range results {
				r := &results[i]
				line := "pass  " + r.Rule + ": " + r.Name
				if r.Wrong != "" {
					failed++
					line = "FAIL  " + r.Rule + ": " + r.Name + " (" + r.Place() + "): " + r.Wrong
				}
				if _, err := fmt.Fprintln(std.out, wording.Visible(line)); err != nil {
					return err
				}
			}
			switch {
			case len(results) == 0:
				return fmt.Errorf("there is no test in %s", args[0])
			case failed > 0:
				return fmt.Errorf("%d of %d tests failed", failed, len(results))
			}
			return nil
		},
	}
}
