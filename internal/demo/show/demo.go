// Package show plays captured clusters: for demonstrations and tests, and to try an analyzer before it is trusted.
//
// What goes in: a finished audit log with the journal of its state, by default the capture of internal/demo. What comes out: its events, as if they
// happened now, in a file, at a webhook or in Kafka (Play); and an analyzer that judges them, with its pages (Demo). It imports app, whose Run
// the demonstration is, internal/demo and internal/demo/play, cluster for journals, pipeline/kafka and internal/credfile.
package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/internal/demo/play"
	"github.com/nodetrail/nodetrail/report"
)

// demoWindow is the window that shows what happens now, and after the last binding has gone nothing of what was before.
const demoWindow = "7s"

// DemoOptions are those of Demo.
type DemoOptions struct {
	// Listen is the address of the pages, which must be this machine's alone; port 0 is any that is free.
	Listen string
	// Speed is how many seconds of the capture go by in one.
	Speed float64
	// Stay says that the pages stay when all is judged.
	Stay bool
	// Out receives what the pages show.
	Out io.Writer
	Log app.LogTo
	// Version is the program's.
	Version string
	// Hangup is as in app.RunOptions.
	Hangup <-chan os.Signal
}

// Demo starts app.Run in a temporary folder and plays the capture of a real cluster to it, faster than it happened. It ends when all is judged, or
// stays until ctx ends, which is no error; nothing is left behind.
func Demo(ctx context.Context, o DemoOptions) (err error) {
	folder, err := os.MkdirTemp("", "nodetrail-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	left := int64(0)
	// The times stay as far apart as they were, for races and for objects' own times; only the waiting between is shorter.
	clock := &fastClock{began: time.Now(), speed: o.Speed, from: time.Now().Add(-time.Minute)}
	player, err := play.New(play.Options{
		Log: inMemory(demo.AuditLog()), State: ofCapture(), Start: clock.from, Clock: clock,
		Keep: func(ev *audit.Event) bool {
			if misnamed(ev) {
				left++
				return false
			}
			return true
		},
	})
	if err != nil {
		return err
	}
	log, journal := filepath.Join(folder, "audit.log"), filepath.Join(folder, "journal.jsonl")
	if err := writeJournal(player, journal); err != nil {
		return err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer out.Close()
	config, err := o.configure(folder, log, journal)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, app.RunOptions{
			StoreOptions: app.StoreOptions{Config: config}, Log: o.Log, Version: o.Version, Hangup: o.Hangup, Running: func(pages string) { running <- pages },
		})
	}()
	show := &showing{out: o.Out, client: &http.Client{Timeout: 10 * time.Second}}
	select {
	case err := <-ended:
		return err
	case show.pages = <-running:
	}
	show.begin(o.Speed, o.Stay)
	clock.began = time.Now()
	err = o.play(ctx, player, out, show)
	switch {
	case ctx.Err() != nil: // it was interrupted, which is how it ends
		err = nil
	case err == nil:
		show.done(left, o.Stay)
		if err = show.err; err == nil && o.Stay {
			<-ctx.Done()
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// play plays, and tells how it goes until all is judged.
func (o *DemoOptions) play(ctx context.Context, player *play.Player, out io.Writer, show *showing) error {
	type result struct {
		play.Result
		err error
	}
	played := make(chan result, 1)
	go func() {
		res, err := player.Play(ctx, play.Lines{W: out})
		played <- result{res, err}
	}()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	all := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case res := <-played:
			if res.err != nil {
				return res.err
			}
			all = res.Events
		case <-tick.C:
			read, err := show.look(ctx)
			if err != nil || all >= 0 && read >= all {
				return err
			}
		}
	}
}

// misnamed tells the two identities that the capture's script never names as nodes are named. They would block to the end; a migration gives
// them names that conform.
func misnamed(ev *audit.Event) bool {
	nodes := false
	for _, g := range ev.User.Groups {
		nodes = nodes || g == "system:nodes"
	}
	return ev.User.Username == "kubelet" || ev.User.Username == "system:node:worker-1" && !nodes
}

// configure writes the configuration, and returns its path.
func (o *DemoOptions) configure(folder, log, journal string) (string, error) {
	// JSON strings are YAML's too, whatever the folder is called.
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			return `""` // a string can always be written
		}
		return string(b)
	}
	text := fmt.Sprintf(`data: %s
listen: %s
log: {level: warn}
reload: {watch: false}
authorization: {kubernetesVersion: "1.36", mode: "Node,RBAC"}
state: {files: [%s]}
sources: {files: [{paths: [%s], poll: 100ms}]}
store: {step: 1s}
readiness: {minWindow: 0s}
`, quoted(filepath.Join(folder, "data")), quoted(o.Listen), quoted(journal), quoted(log))
	path := filepath.Join(folder, "nodetrail.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("making the configuration: %w", err)
	}
	return path, nil
}

// fastClock goes faster than the machine's, from a time.
type fastClock struct {
	from, began time.Time
	speed       float64
}

// Now implements play.Clock.
func (c *fastClock) Now() time.Time {
	return c.from.Add(time.Duration(float64(time.Since(c.began)) * c.speed))
}

// Sleep implements play.Clock.
func (c *fastClock) Sleep(ctx context.Context, t time.Time) error {
	return play.WallClock{}.Sleep(ctx, c.began.Add(time.Duration(float64(t.Sub(c.from))/c.speed)))
}

// showing tells on the terminal what the pages show.
type showing struct {
	out    io.Writer
	pages  string
	client *http.Client
	last   string
	// broke is how many requests of the whole run would break without a binding.
	broke int64
	err   error // the first of writing
}

func (s *showing) say(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = fmt.Errorf("writing to standard output: %w", err)
	}
}

func (s *showing) begin(speed float64, stay bool) {
	s.say("The recording of a real cluster, %g times as fast as it happened. First no binding gives the nodes rights, then one of system:node does,\n"+
		"then one for secrets alone, and then none. Open in a browser:\n\n", speed)
	s.say("  %s\n      the whole run: which requests needed RBAC, second by second\n", s.pages)
	s.say("  %s?window=%s\n      the latest seconds: can I delete the binding now?\n\n", s.pages, demoWindow)
	if stay {
		s.say("Ctrl-C ends it and leaves nothing behind.\n\n")
	}
}

// look asks for the overview, and tells what is new in it. It returns how many events are shown in both windows, 0 if they differ or if the verdict
// does not know all of them yet.
func (s *showing) look(ctx context.Context) (read int64, err error) {
	var now, whole struct {
		Window    report.Window    `json:"window"`
		Readiness report.Readiness `json:"readiness"`
		Events    report.Events    `json:"events"`
		Verdicts  report.Verdicts  `json:"verdicts"`
	}
	if err := s.get(ctx, "api/v1/overview?window="+demoWindow, &now); err != nil {
		return 0, err
	}
	if err := s.get(ctx, "api/v1/overview", &whole); err != nil {
		return 0, err
	}
	if now.Window.To == nil || whole.Window.To == nil {
		return 0, nil
	}
	s.broke = whole.Readiness.Breaking()
	requests := now.Readiness.Breaking()
	say := now.Readiness.Verdict
	switch n := len(now.Readiness.Blockers); {
	case n == 1:
		say += ", 1 blocker"
	case n > 1:
		say += fmt.Sprintf(", %d blockers", n)
	}
	switch {
	case requests == 1:
		say += fmt.Sprintf(": 1 request of the last %s would break", demoWindow)
	case requests > 1:
		say += fmt.Sprintf(": %d requests of the last %s would break", requests, demoWindow)
	}
	if say != s.last {
		s.last = say
		s.say("%s  %s\n", now.Window.To.Local().Format(time.TimeOnly), say)
	}
	if !now.Window.To.Equal(*whole.Window.To) || now.Readiness.Outdated {
		return 0, s.err
	}
	return whole.Events.Read, s.err
}

func (s *showing) get(ctx context.Context, path string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.pages+path, nil)
	if err != nil {
		return fmt.Errorf("asking the pages: %w", err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the pages: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the pages: %s", res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(to); err != nil {
		return fmt.Errorf("asking the pages: %w", err)
	}
	return nil
}

func (s *showing) done(left int64, stay bool) {
	s.say("\nAll is judged. %d requests of the whole run would break without the bindings.\n", s.broke)
	s.say("%d events of two identities that the capture's script misnames on purpose were left out.\n", left)
	if stay {
		s.say("The pages stay until Ctrl-C.\n")
	}
}
