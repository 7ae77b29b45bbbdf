package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/internal/demo/show"
)

func newDemo(std streams) *cobra.Command {
	var o show.DemoOptions
	var end bool
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Play a real cluster's migration to nodetrail run, with pages to look at",
		Long: `demo starts 'nodetrail run' in a temporary folder, and replays the bundled capture of a real cluster, faster than real time. The capture is
68 seconds of six nodes: first no binding gives them rights, then a binding of system:node does, then one for secrets only, and then none. The
pages show the migration as it proceeds. The verdicts are the same as those of 'nodetrail analyze'.

On a terminal the pages stay until Ctrl-C, which leaves nothing behind. Elsewhere, and with --end, demo ends when all is judged.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Address("listen", o.Listen); err != nil {
				return cli.Usage(cmd, err)
			}
			if app.LocalAddress(o.Listen) == "" {
				return cli.Usage(cmd, fmt.Errorf("--listen: %s must be a loopback address, such as 127.0.0.1:9876, because the pages of the demo have no login", o.Listen))
			}
			if o.Speed <= 0 {
				return cli.Usage(cmd, fmt.Errorf("--speed: %v is not more than 0", o.Speed))
			}
			o.Stay = isTerminal(std.out)
			if cmd.Flags().Changed("end") {
				o.Stay = !end
			}
			hup, stop := hangups()
			defer stop()
			o.Out, o.Log, o.Version, o.Hangup = std.out, std.logTo(), buildVersion(), hup
			return flagged(show.Demo(cmd.Context(), o))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:0", "the `ADDRESS` of the pages; port 0 is any that is free")
	fs.Float64Var(&o.Speed, "speed", 2, "how many seconds of the capture are played in one second")
	fs.BoolVar(&end, "end", false, "end when all is judged; --end=false keeps the pages until Ctrl-C (default: false on a terminal, else true)")
	return cmd
}
