package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit statuses of the contract.
const (
	exitDone     = 0
	exitFailed   = 1
	exitFindings = 2
)

// errFindings ends a command with exitFindings; it was reported already.
var errFindings = errors.New("findings at or above --fail-on")

// usageError is a wrong use of the command line, which earns a pointer to the help.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// streams are the standard ones; nothing reads or writes any other.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run is the whole program: it returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(streams{in: stdin, out: stdout, err: stderr})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "nodetrail: interrupted")
		return exitFailed
	}
	fmt.Fprintf(stderr, "nodetrail: %s\n", strings.TrimSpace(err.Error()))
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "See '%s --help'.\n", usage.command)
	}
	return exitFailed
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodetrail",
		Short: "Judge every kubelet request of an audit log as of its own time",
		Long: `nodetrail reads Kubernetes audit logs and re-evaluates every kubelet request with the node-authorization graph as it stood at the
time of the request. It says what the Node authorizer denied, what RBAC alone granted, which secrets were read out of scope, and
whether the binding of system:node can go.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{cmd.CommandPath(), fmt.Errorf("unknown command %q%s", args[0], suggestion(cmd, args[0]))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cmd.CommandPath(), err} })
	root.AddCommand(newAnalyze(std), newExplain(std), newRecord(std), newVersion(std))
	root.InitDefaultCompletionCmd()
	return root
}

func suggestion(cmd *cobra.Command, arg string) string {
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(arg); len(s) > 0 {
		return fmt.Sprintf(": did you mean %s?", strings.Join(s, " or "))
	}
	return ""
}

// needArgs refuses fewer arguments than at least, saying what is missing.
func needArgs(least int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least {
			return usageError{cmd.CommandPath(), fmt.Errorf("%s is missing", what)}
		}
		return nil
	}
}
