package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/internal/demo/show"
	"github.com/nodetrail/nodetrail/internal/meter"
)

func newPlay(std streams) *cobra.Command {
	var o show.PlayOptions
	var start string
	cmd := &cobra.Command{
		Use:   "play [flags] [AUDIT_LOG]",
		Short: "Send a finished audit log as if it happened now: for demonstrations and tests",
		Long: `play sends the events of a finished audit log to a webhook, a file or Kafka, with all times moved so that the first is now, each when it is
due. Without AUDIT_LOG it plays a capture of a real cluster that is part of the program, with the journal of its state.

--journal writes the state with its times moved in the same way, all of it before the first event, so that 'nodetrail run' with state.files
judges the stream as 'nodetrail analyze' judges the log. At --speed 1 the verdicts are the same. At another speed
other requests are races, and the times in objects, which are in whole seconds, are rounded.

--rounds plays the log again and again. Each round has new audit IDs and new UIDs, and the journal, written once, holds all rounds: between two
of them every object is deleted.`,
		Example: `  nodetrail play --journal now.jsonl --webhook http://127.0.0.1:9443/audit
  nodetrail play --state journal.jsonl --journal now.jsonl --out /var/log/audit/audit.log --speed 10 old-audit.log
  nodetrail play --rounds 60 --journal now.jsonl.gz --brokers 127.0.0.1:9092 --topic audit`,
		Args: cli.AtMostOne("AUDIT_LOG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPlay(&o, start, args); err != nil {
				return cli.Usage(cmd, err)
			}
			m := meter.Start(std.err, isTerminal(std.err))
			defer m.Done()
			o.Progress, o.Stdout, o.Log = m.Add, std.out, std.logTo()
			return flagged(show.Play(cmd.Context(), o))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&o.State, "state", "", "the journal of the cluster's state that belongs to AUDIT_LOG")
	fs.StringVar(&o.Journal, "journal", "", "write the moved journal to `FILE`, compressed if it ends in .gz, before the first event")
	fs.StringVar(&o.Out, "out", "", "append the events to `FILE`; - for standard output")
	fs.StringVar(&o.Webhook, "webhook", "", "post the events to `URL`, as kube-apiserver does to its audit webhook")
	fs.StringVar(&o.TokenFile, "bearer-token-file", "", "a file with the bearer token for --webhook")
	fs.StringVar(&o.CAFile, "ca-file", "", "the certificate authorities of --webhook, PEM (default: the system's)")
	fs.StringVar(&o.CertFile, "cert-file", "", "a client certificate for --webhook, PEM")
	fs.StringVar(&o.KeyFile, "key-file", "", "its private key, PEM")
	fs.StringSliceVar(&o.Brokers, "brokers", nil, "write the events to Kafka: addresses of brokers")
	fs.StringVar(&o.Topic, "topic", "", "the Kafka topic to write to, with --brokers")
	fs.Float64Var(&o.Speed, "speed", 1, "how many seconds of the log are played in one second")
	fs.StringVar(&start, "start", "", "the time of the first event, RFC 3339 (default: now plus --lead)")
	fs.DurationVar(&o.Lead, "lead", 5*time.Second, "how long from now until the first event")
	fs.BoolVar(&o.NoWait, "no-wait", false, "send all events at once, without waiting until each is due")
	fs.IntVar(&o.Rounds, "rounds", 1, "how often to play the log")
	fs.DurationVar(&o.Gap, "gap", 10*time.Second, "how long to pause between rounds")
	fs.BoolVar(&o.RenewIDs, "renew-ids", false, "give the first round new audit IDs and UIDs too, so that a store that knows the log counts it again")
	fs.IntVar(&o.MaxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, "leave out events that are longer, in bytes")
	return cmd
}

// checkPlay understands the flags.
func checkPlay(o *show.PlayOptions, start string, args []string) error {
	given := 0
	for _, is := range []bool{o.Out != "", o.Webhook != "", len(o.Brokers) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("give exactly one of --out, --webhook and --brokers: where the events go")
	case (len(o.Brokers) > 0) != (o.Topic != ""):
		return errors.New("--brokers and --topic belong together")
	case o.Webhook == "" && o.TokenFile+o.CAFile+o.CertFile+o.KeyFile != "":
		return errors.New("--bearer-token-file, --ca-file, --cert-file and --key-file are for --webhook")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("--cert-file and --key-file belong together")
	case o.Lead < 0:
		return fmt.Errorf("--lead: %s is negative", o.Lead)
	}
	if err := cli.AtLeast("max-event-bytes", 1024, o.MaxEventBytes); err != nil {
		return err
	}
	if start != "" {
		t, err := time.Parse(time.RFC3339, start)
		if err != nil {
			return fmt.Errorf("--start: %q is not a time as RFC 3339 has it, such as 2026-11-21T06:03:57Z", start)
		}
		o.Start = t
	}
	if len(args) > 0 {
		if o.AuditLog = args[0]; o.AuditLog == "" { // which would be the capture's
			return errors.New("an AUDIT_LOG is empty")
		}
	}
	return flagged(o.Validate())
}
