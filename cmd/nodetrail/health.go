package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
)

func newHealth(_ streams) *cobra.Command {
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "health URL|FILE",
		Short: "Check a URL or a file: for health checks of containers",
		Long: `health asks a URL, such as that of /readyz, and exits with 0 if it is answered with 200, else with 1. If you give a path, it exits with 0
if the file exists and is not empty. It is for images that have no shell and no other program for health checks.`,
		Example: `  nodetrail health http://127.0.0.1:9876/readyz
  nodetrail health /var/lib/nodetrail/journal.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cli.NeedArgs(1, "URL or FILE")(cmd, args), cli.AtMostOne("URL or FILE")(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return app.Health(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the answer may take")
	return cmd
}
