package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
)

func newConfig(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or print the defaults",
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return cli.Subcommand(cmd, "command", args) },
	}
	cmd.AddCommand(newConfigCheck(std), newConfigDefaults(std))
	return cmd
}

func newConfigCheck(std streams) *cobra.Command {
	path := "nodetrail.yaml"
	cmd := &cobra.Command{
		Use:   "check [--config FILE]",
		Short: "Check a configuration file as run and gateway would read it",
		Long: `check reads a configuration file as run and gateway do, including environment variables. It prints a line for each error, with the line of the
file and the key. It makes no connections, does not open the files that the configuration names, and never prints secrets.

Exit status: 0 the file is good; 1 it is not.`,
		Example: "  nodetrail config check --config nodetrail.yaml",
		Args:    cli.NotAsArgument("config"),
		RunE: func(*cobra.Command, []string) error {
			good, err := app.ConfigCheck(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(std.out, good)
			return err
		},
	}
	cmd.Flags().StringVar(&path, "config", path, "the configuration `FILE`")
	return cmd
}

func newConfigDefaults(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "print-defaults",
		Short: "Print a configuration file with every key, its default and what it means",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(std.out, app.ConfigDefaults())
			return err
		},
	}
}
