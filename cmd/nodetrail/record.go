package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/cli"
)

func newRecord(std streams) *cobra.Command {
	var o app.RecordOptions
	var printRBAC bool
	var namespace, account string
	cmd := &cobra.Command{
		Use:   "record [flags]",
		Short: "Write a journal of a live cluster's state",
		Long: `record lists and watches the objects that node authorization depends on and writes each change with the time at which it was seen, as
JSON lines: a journal for --state. It survives lost connections and relists, and runs until it is interrupted.

Secrets are never read. Fields that can contain a secret, such as the values of environment variables, are left out.
--print-rbac prints the rights that record needs. docs/migration.md says how to make a kubeconfig that has only these rights.`,
		Example: `  nodetrail record --output journal.jsonl
  nodetrail record --print-rbac | kubectl apply -f -
  nodetrail record --kubeconfig recorder.kubeconfig --output journal.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !printRBAC {
				o.Stdout, o.Log = std.out, std.logTo()
				return flagged(app.Record(cmd.Context(), o))
			}
			y, err := cluster.RecordRBAC(namespace, account)
			if err != nil {
				return err
			}
			if _, err = std.out.Write(y); err != nil {
				return fmt.Errorf("writing the rights: %w", err)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's own service account)")
	fs.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	fs.StringVar(&o.Output, "output", "-", "journal to append to; - for standard output")
	fs.BoolVar(&printRBAC, "print-rbac", false, "print the least rights that record needs, as YAML, and exit")
	fs.StringVar(&namespace, "rbac-namespace", cluster.OwnNamespace, "namespace of the service account in --print-rbac; only the default is created")
	fs.StringVar(&account, "rbac-service-account", "nodetrail-record", "name of the service account in --print-rbac")
	fs.BoolVar(&o.KeepValues, "keep-values", false, "keep values that may hold secrets: environment variables, arguments, annotations")
	fs.BoolVar(&o.KeepManagedFields, "keep-managed-fields", false, "keep metadata.managedFields")
	return cmd
}
