package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/cluster"
)

type recordFlags struct {
	kubeconfig, context string
	output              string
	printRBAC           bool
	namespace, account  string
	keepValues          bool
	keepManaged         bool
}

func newRecord(std streams) *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record [flags]",
		Short: "Write a journal of a live cluster's state",
		Long: `record lists and watches the objects that node authorization depends on and writes each change with the time at which it was seen, as
JSON lines: a journal for --state. It survives lost connections and relists, and runs until it is interrupted.

Secrets are never read. What may hold one all the same, such as the values of environment variables, is left out.
The rights that it needs are printed by --print-rbac.`,
		Example: `  nodetrail record --print-rbac | kubectl apply -f -
  nodetrail record --kubeconfig ~/.kube/config --output journal.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), std) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's own service account)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig")
	fs.StringVar(&f.output, "output", "-", "journal to append to; - for standard output")
	fs.BoolVar(&f.printRBAC, "print-rbac", false, "print the least rights that record needs, as YAML, and exit")
	fs.StringVar(&f.namespace, "rbac-namespace", "nodetrail", "namespace of the service account in --print-rbac")
	fs.StringVar(&f.account, "rbac-service-account", "nodetrail-record", "name of the service account in --print-rbac")
	fs.BoolVar(&f.keepValues, "keep-values", false, "keep values that may hold secrets: environment variables, arguments, annotations")
	fs.BoolVar(&f.keepManaged, "keep-managed-fields", false, "keep metadata.managedFields")
	return cmd
}

func (f *recordFlags) run(ctx context.Context, std streams) (err error) {
	if f.printRBAC {
		y, err := cluster.RecordRBAC(f.namespace, f.account)
		if err != nil {
			return err
		}
		if _, err = std.out.Write(y); err != nil {
			return fmt.Errorf("writing the rights: %w", err)
		}
		return nil
	}
	config, err := cluster.ClientConfig(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	w := std.out
	if f.output != "-" {
		// Appending never loses what an earlier run saw.
		out, err := os.OpenFile(f.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("--output: cannot write %w", pathless(f.output, err))
		}
		defer func() {
			if info, serr := out.Stat(); serr == nil && info.Mode().IsRegular() { // a pipe has nothing to sync
				err = errors.Join(err, out.Sync())
			}
			err = errors.Join(err, out.Close())
		}()
		w = out
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: std.err, NoColor: !isTerminal(std.err)}).With().Timestamp().Logger()
	err = cluster.Record(ctx, cluster.RecordConfig{Config: config, KeepValues: f.keepValues, KeepManagedFields: f.keepManaged}, w, log)
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && err != nil && strings.Contains(err.Error(), context.Canceled.Error()) {
		return nil // asked to stop: that is how a recording ends
	}
	return err
}
