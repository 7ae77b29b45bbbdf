package show

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
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/credfile"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/internal/demo/play"
	"github.com/nodetrail/nodetrail/internal/userfile"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
)

// PlayOptions say what is played, how, and where to. One of Out, Webhook and Brokers is needed.
type PlayOptions struct {
	// AuditLog is the log, "" for that of the capture; State is the journal of the cluster's state that belongs to it, "" for none, or the
	// capture's for its log.
	AuditLog, State string
	// Journal is the file that the moved journal is written to before the first event, compressed if it ends in .gz; "" for none.
	Journal string
	// Start is the time of the first event; zero is Lead from now.
	Start time.Time
	Lead  time.Duration
	// Speed is how many seconds of the log go by in one; NoWait sends all at once.
	Speed  float64
	NoWait bool
	// Rounds is how often the log is played, Gap how long to pause between; RenewIDs gives the first round new IDs too.
	Rounds        int
	Gap           time.Duration
	RenewIDs      bool
	MaxEventBytes int

	// Out is a file that events are appended to, "-" for Stdout.
	Out    string
	Stdout io.Writer
	// Webhook is the URL that events are posted to, with the credentials in the files.
	Webhook                              string
	TokenFile, CAFile, CertFile, KeyFile string
	// Brokers and Topic are Kafka's.
	Brokers []string
	Topic   string

	// Progress is called with the bytes of the log that were read.
	Progress func(bytes int)
	Log      app.LogTo
}

// Validate says what is wrong with the options, before anything is opened but the files that prove who the client is.
func (o *PlayOptions) Validate() error {
	if o.Speed <= 0 || o.Rounds < 1 { // play takes 0 for the default
		return errors.New("--speed and --rounds must be more than 0")
	}
	if o.AuditLog == "-" {
		return errors.New("AUDIT_LOG is read more than once, which standard input cannot be")
	}
	if o.AuditLog != "" && o.State == "" && o.Journal != "" {
		return errors.New("--journal needs --state: the journal that is to be moved")
	}
	inputs := slices.DeleteFunc([]string{o.AuditLog, o.State, o.TokenFile, o.CAFile, o.CertFile, o.KeyFile}, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir() // which is refused when it is read
	})
	if err := app.CheckOutputs([]app.Output{{Option: "Out", Path: o.Out}, {Option: "Journal", Path: o.Journal}}, inputs...); err != nil {
		return err
	}
	_, err := o.client()
	return err
}

// options are what the player is made with.
func (o *PlayOptions) options() play.Options {
	p := play.Options{
		MaxEventBytes: o.MaxEventBytes, Speed: o.Speed, Rounds: o.Rounds, Gap: o.Gap, Clock: play.WallClock{}, Start: o.Start, Progress: o.Progress,
		Log: onDisk(o.AuditLog),
	}
	if o.NoWait {
		p.Clock = nil
	}
	if o.AuditLog == "" {
		p.Log, p.State = inMemory(demo.AuditLog()), ofCapture()
	}
	if o.State != "" {
		p.State = &play.Journal{Open: onDisk(o.State), Name: o.State}
	}
	if p.Start.IsZero() {
		p.Start = time.Now().Add(o.Lead)
	}
	if o.RenewIDs {
		p.Renew = rand.Text()
	}
	return p
}

// ofCapture is the journal of the capture.
func ofCapture() *play.Journal {
	return &play.Journal{Open: inMemory(demo.Journal()), Name: "of the capture"}
}

// Play sends the events of a finished log, with all times moved, each when it is due.
func Play(ctx context.Context, o PlayOptions) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: o.Log.W, NoColor: !o.Log.Terminal}).With().Timestamp().Logger()
	if o.Journal != "" { // who waits for it must not find that of an earlier run
		if err := os.Remove(o.Journal); err != nil && !errors.Is(err, os.ErrNotExist) {
			return &app.OptionError{Option: "Journal", Err: fmt.Errorf("cannot replace %w", app.PathError(o.Journal, err))}
		}
	}
	options := o.options()
	sink, closeSink, err := o.sink(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSink()) }()
	player, err := play.New(options)
	if err != nil {
		return err
	}
	if o.Journal != "" {
		if err := writeJournal(player, o.Journal); err != nil {
			return err
		}
	}
	log.Info().Time("begins", player.Begins()).Int("rounds", o.Rounds).Stringer("period", player.Period()).Msg("playing")
	res, err := player.Play(ctx, sink)
	if err != nil {
		return err
	}
	log.Info().Int64("events", res.Events).Int64("malformed", res.Malformed).Msg("played")
	return nil
}

// sink opens where the events go.
func (o *PlayOptions) sink(log zerolog.Logger) (play.Sink, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case o.Webhook != "":
		client, err := o.client()
		if err != nil {
			return nil, nil, err
		}
		w, err := play.NewWebhook(play.WebhookOptions{URL: o.Webhook, TokenFile: o.TokenFile, Client: client, Changed: func(err error) {
			if err == nil {
				log.Info().Msg("the webhook takes events again")
				return
			}
			log.Warn().Err(err).Msg("the webhook does not take events, trying again")
		}})
		if err != nil {
			return nil, nil, &app.OptionError{Option: "Webhook", Err: err}
		}
		return w, nothing, nil
	case len(o.Brokers) > 0:
		producer, err := kafka.NewProducer(kafka.ProducerOptions{
			Cluster: kafka.Cluster{Brokers: o.Brokers, ClientID: "nodetrail-play"}, Topic: o.Topic, MaxMessageBytes: o.MaxEventBytes,
		}, log)
		if err != nil {
			return nil, nil, &app.OptionError{Option: "Brokers", Err: err}
		}
		return records{producer}, producer.Close, nil
	case o.Out == "-":
		return play.Lines{W: o.Stdout}, nothing, nil
	}
	f, err := os.OpenFile(o.Out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, &app.OptionError{Option: "Out", Err: fmt.Errorf("cannot write %w", app.PathError(o.Out, err))}
	}
	return play.Lines{W: f}, f.Close, nil
}

func (o *PlayOptions) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pool, err := credfile.Authorities(o.CAFile)
		if err != nil {
			return nil, &app.OptionError{Option: "CAFile", Err: err}
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, &app.OptionError{Option: "CertFile", Err: err}
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: transport, Timeout: 40 * time.Second, // the API server waits for 30 s, and nodetrail answers before
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// writeJournal writes the moved journal under another name first: whoever finds it finds all of it.
func writeJournal(player *play.Player, path string) error {
	fresh := filepath.Join(filepath.Dir(path), "."+rand.Text()+"-"+filepath.Base(path))
	j, err := cluster.CreateJournal(fresh)
	if err != nil {
		return &app.OptionError{Option: "Journal", Err: err}
	}
	err = errors.Join(player.WriteJournal(j), j.Close())
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return &app.OptionError{Option: "Journal", Err: err}
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
			return nil, userfile.Unreadable(path, err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, fmt.Errorf("cannot read %s: it is a folder", path)
		}
		return f, nil
	}
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
