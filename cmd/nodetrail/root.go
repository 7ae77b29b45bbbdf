package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
)

// The exit statuses of the contract.
const (
	exitDone     = 0
	exitFailed   = 1
	exitFindings = 2
)

// errFindings ends a command with exitFindings.
var errFindings = errors.New("findings at or above --fail-on")

// errPolicy ends policy check with exitFindings.
var errPolicy = errors.New("checks cannot pass with this policy")

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
	help := &cli.Writer{W: stdout}
	root.SetOut(help)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && help.Err != nil {
		err = fmt.Errorf("writing to standard output: %w", help.Err)
	}
	var usage cli.UsageError
	var file *app.FileError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "nodetrail: interrupted")
		return exitFailed
	}
	for line := range strings.Lines(strings.TrimSpace(err.Error())) {
		fmt.Fprintf(stderr, "nodetrail: %s\n", strings.TrimSpace(line))
	}
	if errors.As(err, &usage) && !errors.As(err, &file) { // help says nothing of what a file holds
		fmt.Fprintf(stderr, "See '%s --help'.\n", usage.Command)
	}
	if errors.Is(err, errFindings) || errors.Is(err, errPolicy) {
		return exitFindings
	}
	return exitFailed
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "nodetrail",
		Short: "Evaluate every kubelet request of an audit log with the cluster as it was then",
		Long: `nodetrail reads Kubernetes audit logs and re-evaluates every kubelet request with the node-authorization graph as it stood at the
time of the request. It answers two questions: can you delete the bindings that give nodes rights, such as system:node, and is a stolen
kubelet credential confined to its node? It lists the requests that need RBAC, denials, and reads of secrets that no pod on the node uses.

Each flag has an environment variable: NODETRAIL_ and its name, such as NODETRAIL_STATE for --state and NODETRAIL_FAIL_ON for --fail-on.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          func(cmd *cobra.Command, args []string) error { return cli.Subcommand(cmd, "command", args) },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(cli.NoneEmpty(cmd), cli.Environment(cmd, "NODETRAIL_"))
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.Flags().Bool("version", false, "print what the command version prints")
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(newAnalyze(std), newExplain(std), newReach(std), newRecord(std), newVersion(std), newConfig(std), newRun(std), newReport(std), newGateway(std), newPlay(std), newHealth(std), newWhatIf(std), newSuggest(std), newPolicy(std), newRules(std), newDemo(std))
	cli.Strict(root)
	if cli.IsPlugin(os.Args[0], root.Name()) {
		cli.AsPlugin(root)
	}
	return root
}
