package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
)

func newGateway(std streams) *cobra.Command {
	var o app.GatewayOptions
	cmd := &cobra.Command{
		Use:   "gateway --config FILE",
		Short: "Receive the audit webhook and write its events to Kafka, keyed by node",
		Long: `gateway receives the events that kube-apiservers post to their audit webhook, and writes them to a Kafka topic. All events of a node have the
same key, so they stay in one partition. It answers an API server when the brokers have acknowledged the events. It keeps no state: run as many as you like
behind one address. The analyzers ('nodetrail run' with sources.kafka) share the topic as a consumer group.

Everything else is in the configuration's section gateway.`,
		Example: "  nodetrail gateway --config nodetrail.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config == "" {
				return cli.Usage(cmd, errors.New("--config is needed: the gateway's addresses and certificates are in it"))
			}
			hup, stop := hangups()
			defer stop()
			o.Log, o.Version, o.Hangup = std.logTo(), buildVersion(), hup
			return app.Gateway(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "the configuration `FILE`")
	return cmd
}
