package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/credfile"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/internal/play"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
)

type playFlags struct {
	state, journal string
	start          string
	lead           time.Duration
	speed          float64
	noWait         bool
	rounds         int
	gap            time.Duration
	renewIDs       bool
	maxEventBytes  int

	out string

	webhook                     string
	tokenFile                   string
	caFile, certFile, clientKey string

	brokers []string
	topic   string
}

func newPlay(std streams) *cobra.Command {
	var f playFlags
	cmd := &cobra.Command{
		Use:   "play [flags] [AUDIT_LOG]",
		Short: "Send a finished audit log as if it happened now: for demonstrations and tests",
		Long: `play sends the events of a finished audit log to a webhook, a file or Kafka, with all times moved so that the first is now, each when it is
due. Without AUDIT_LOG it plays a capture of a real cluster that is part of the program, with the journal of its state.

--journal writes the state with its times moved in the same way, all of it before the first event, so that 'nodetrail run' with state.files
judges the stream as 'nodetrail analyze' judges the log. At --speed 1 the verdicts are the same. At other speeds what is a race is not, and
objects' own times, which have whole seconds, are rounded.

--rounds plays the log again and again. Each round has new audit IDs and new UIDs, and the journal, written once, holds all rounds: between two
of them every object is deleted.`,
		Example: `  nodetrail play --journal now.jsonl --webhook http://127.0.0.1:9443/audit
  nodetrail play --state journal.jsonl --journal now.jsonl --out /var/log/audit/audit.log --speed 10 old-audit.log
  nodetrail play --rounds 60 --journal now.jsonl.gz --brokers 127.0.0.1:9092 --topic audit`,
		Args: atMostOne("AUDIT_LOG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.prepare(args)
			if err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			return p.run(cmd.Context(), std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.state, "state", "", "the journal of the cluster's state that belongs to AUDIT_LOG")
	fs.StringVar(&f.journal, "journal", "", "write the moved journal to `FILE`, compressed if it ends in .gz, before the first event")
	fs.StringVar(&f.out, "out", "", "append the events to `FILE`; - for standard output")
	fs.StringVar(&f.webhook, "webhook", "", "post the events to `URL`, as kube-apiserver does to its audit webhook")
	fs.StringVar(&f.tokenFile, "bearer-token-file", "", "a file with the bearer token for --webhook")
	fs.StringVar(&f.caFile, "ca-file", "", "the certificate authorities of --webhook, PEM (default the system's)")
	fs.StringVar(&f.certFile, "cert-file", "", "a client certificate for --webhook, PEM")
	fs.StringVar(&f.clientKey, "key-file", "", "its private key, PEM")
	fs.StringSliceVar(&f.brokers, "brokers", nil, "write the events to Kafka: addresses of brokers")
	fs.StringVar(&f.topic, "topic", "", "the topic that --brokers have")
	fs.Float64Var(&f.speed, "speed", 1, "how many seconds of the log go by in one")
	fs.StringVar(&f.start, "start", "", "the time of the first event, RFC 3339 (default now and --lead)")
	fs.DurationVar(&f.lead, "lead", 5*time.Second, "how long from now the first event is")
	fs.BoolVar(&f.noWait, "no-wait", false, "send all at once, whenever it is due")
	fs.IntVar(&f.rounds, "rounds", 1, "how often to play the log")
	fs.DurationVar(&f.gap, "gap", 10*time.Second, "how long to pause between rounds")
	fs.BoolVar(&f.renewIDs, "renew-ids", false, "give the first round new audit IDs and UIDs too, so that a store that knows the log counts it again")
	fs.IntVar(&f.maxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, "longer events are left out")
	return cmd
}

// atMostOne refuses more than one argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usageError{cmd.CommandPath(), fmt.Errorf("%s takes one %s, and %d were given", cmd.Name(), what, len(args))}
		}
		return nil
	}
}

// playing is one run of play, its flags understood.
type playing struct {
	playFlags
	options play.Options
	client  *http.Client
}

func (f *playFlags) prepare(args []string) (*playing, error) {
	p := &playing{playFlags: *f}
	sinks := 0
	for _, given := range []bool{f.out != "", f.webhook != "", len(f.brokers) > 0} {
		if given {
			sinks++
		}
	}
	switch {
	case sinks != 1:
		return nil, errors.New("one of --out, --webhook and --brokers is needed: where the events go")
	case (len(f.brokers) > 0) != (f.topic != ""):
		return nil, errors.New("--brokers and --topic belong together")
	case f.webhook == "" && f.tokenFile+f.caFile+f.certFile+f.clientKey != "":
		return nil, errors.New("--bearer-token-file, --ca-file, --cert-file and --key-file are for --webhook")
	case (f.certFile == "") != (f.clientKey == ""):
		return nil, errors.New("--cert-file and --key-file belong together")
	case f.maxEventBytes < 1024:
		return nil, fmt.Errorf("--max-event-bytes: %d is less than 1024", f.maxEventBytes)
	case f.lead < 0:
		return nil, fmt.Errorf("--lead: %s is negative", f.lead)
	}
	p.options = play.Options{MaxEventBytes: f.maxEventBytes, Speed: f.speed, Rounds: f.rounds, Gap: f.gap, Clock: play.WallClock{}}
	if f.noWait {
		p.options.Clock = nil
	}
	if f.start != "" {
		t, err := time.Parse(time.RFC3339, f.start)
		if err != nil {
			return nil, fmt.Errorf("--start: %q is not a time as RFC 3339 has it, such as 2026-11-21T06:03:57Z", f.start)
		}
		p.options.Start = t
	}
	if f.speed <= 0 || f.rounds < 1 { // play takes 0 for the default
		return nil, errors.New("--speed and --rounds must be more than 0")
	}
	if err := p.inputs(args); err != nil {
		return nil, err
	}
	var err error
	p.client, err = p.webhookClient()
	return p, err
}

// inputs sets what is read.
func (p *playing) inputs(args []string) error {
	bundled := len(args) == 0
	if bundled {
		p.options.Log = inMemory(demo.AuditLog())
	} else {
		if args[0] == "-" {
			return errors.New("AUDIT_LOG is read more than once, which standard input cannot be")
		}
		p.options.Log = onDisk(args[0])
	}
	switch {
	case p.state != "":
		p.options.State = &play.Journal{Open: onDisk(p.state), Name: p.state}
	case bundled:
		p.options.State = &play.Journal{Open: inMemory(demo.Journal()), Name: "of the capture"}
	case p.journal != "":
		return errors.New("--journal needs --state: the journal that is to be moved")
	}
	return nil
}

func inMemory(b []byte) play.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func onDisk(path string) play.Opener {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %w", pathless(path, err))
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, fmt.Errorf("cannot read %s: it is a folder", path)
		}
		return f, nil
	}
}

func (p *playing) webhookClient() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if p.caFile != "" {
		pool, err := credfile.Authorities(p.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if p.certFile != "" {
		pair, err := tls.LoadX509KeyPair(p.certFile, p.clientKey)
		if err != nil {
			return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: transport, Timeout: 40 * time.Second, // the apiserver waits for 30 s, and nodetrail answers before
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (p *playing) run(ctx context.Context, std streams) (err error) {
	log := zerolog.New(zerolog.ConsoleWriter{Out: std.err, NoColor: !isTerminal(std.err)}).With().Timestamp().Logger()
	if p.options.Start.IsZero() {
		p.options.Start = time.Now().Add(p.lead)
	}
	if p.renewIDs {
		p.options.Renew = rand.Text()
	}
	if p.journal != "" { // who waits for it must not find that of an earlier run
		if err := os.Remove(p.journal); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--journal: cannot replace %w", pathless(p.journal, err))
		}
	}
	sink, closeSink, err := p.sink(std, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSink()) }()
	meter := newProgress(std.err)
	defer meter.done()
	p.options.Progress = meter.add
	player, err := play.New(p.options)
	if err != nil {
		return err
	}
	if p.journal != "" {
		if err := writeJournal(player, p.journal); err != nil {
			return err
		}
	}
	log.Info().Time("begins", player.Begins()).Int("rounds", p.rounds).Stringer("period", player.Period()).Msg("playing")
	res, err := player.Play(ctx, sink)
	if err != nil {
		return err
	}
	log.Info().Int64("events", res.Events).Int64("malformed", res.Malformed).Msg("played")
	return nil
}

// writeJournal writes the moved journal under another name first: whoever finds it finds all of it.
func writeJournal(player *play.Player, path string) error {
	fresh := filepath.Join(filepath.Dir(path), "."+rand.Text()+"-"+filepath.Base(path))
	j, err := cluster.CreateJournal(fresh)
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	err = errors.Join(player.WriteJournal(j), j.Close())
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("--journal: %w", err)
	}
	return nil
}

// sink opens where the events go.
func (p *playing) sink(std streams, log zerolog.Logger) (play.Sink, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case p.webhook != "":
		w, err := play.NewWebhook(play.WebhookOptions{URL: p.webhook, TokenFile: p.tokenFile, Client: p.client})
		if err != nil {
			return nil, nil, fmt.Errorf("--webhook: %w", err)
		}
		return w, nothing, nil
	case len(p.brokers) > 0:
		producer, err := kafka.NewProducer(kafka.ProducerOptions{
			Cluster: kafka.Cluster{Brokers: p.brokers, ClientID: "nodetrail-play"}, Topic: p.topic, MaxMessageBytes: p.maxEventBytes,
		}, log)
		if err != nil {
			return nil, nil, fmt.Errorf("--brokers: %w", err)
		}
		return records{producer}, producer.Close, nil
	case p.out == "-":
		return play.Lines{W: std.out}, nothing, nil
	}
	f, err := os.OpenFile(p.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("--out: cannot write %w", pathless(p.out, err))
	}
	return play.Lines{W: f}, f.Close, nil
}

// records writes events to Kafka, keyed as the gateway keys them.
type records struct{ producer *kafka.Producer }

// Send implements play.Sink.
func (r records) Send(ctx context.Context, events []play.Event) error {
	batch := make([]kafka.Record, len(events))
	for i := range events {
		batch[i] = kafka.Record{Key: []byte(events[i].Key), Value: events[i].JSON}
	}
	return r.producer.Produce(ctx, batch...)
}
