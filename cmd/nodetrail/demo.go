package main

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

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/internal/play"
	"github.com/nodetrail/nodetrail/report"
)

// demoWindow is the window that shows what goes on now, and after the last binding has gone nothing of what was before.
const demoWindow = "7s"

type demoFlags struct {
	listen string
	speed  float64
	// stay says that the pages stay when all is judged.
	stay bool
}

func newDemo(std streams) *cobra.Command {
	var f demoFlags
	var end bool
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Play a real cluster's migration to nodetrail run, with pages to look at",
		Long: `demo starts 'nodetrail run' in a temporary folder and plays the bundled capture of a real cluster to it, faster than it happened: 68 seconds of
six nodes, which have no RBAC, then the binding of system:node, then one for secrets alone, and then none. The pages show the migration as it
goes on. Every verdict is the one that 'nodetrail analyze' gives.

On a terminal the pages stay until Ctrl-C, which leaves nothing behind; elsewhere, and with --end, demo ends when all is judged.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkAddress(f.listen); err != nil {
				return usageError{cmd.CommandPath(), fmt.Errorf("--listen: %w", err)}
			}
			if localAddress(f.listen) == "" {
				return usageError{cmd.CommandPath(), fmt.Errorf("--listen: %s is no address of this machine alone, such as 127.0.0.1:9876: nobody else may read the pages", f.listen)}
			}
			if f.speed <= 0 {
				return usageError{cmd.CommandPath(), fmt.Errorf("--speed: %v is not more than 0", f.speed)}
			}
			f.stay = isTerminal(std.out)
			if cmd.Flags().Changed("end") {
				f.stay = !end
			}
			return f.run(cmd.Context(), std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "the `ADDRESS` of the pages; port 0 is any that is free")
	fs.Float64Var(&f.speed, "speed", 2, "how many seconds of the capture go by in one")
	fs.BoolVar(&end, "end", false, "end when all is judged, on a terminal too; --end=false stays elsewhere, too")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, std streams) (err error) {
	folder, err := os.MkdirTemp("", "nodetrail-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	left := int64(0)
	// The times stay as far apart as they were, for races and for objects' own times; only the waiting between is shorter.
	clock := &fastClock{began: time.Now(), speed: f.speed, from: time.Now().Add(-time.Minute)}
	player, err := play.New(play.Options{
		Log: inMemory(demo.AuditLog()), State: &play.Journal{Open: inMemory(demo.Journal()), Name: "of the capture"}, Start: clock.from, Clock: clock,
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
	r, err := f.prepare(folder, log, journal, std)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running, ended := make(chan struct{}), make(chan error, 1)
	r.onRunning = func() { close(running) }
	go func() { ended <- r.run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-running:
	}
	show := &showing{out: std.out, pages: r.pagesAt, client: &http.Client{Timeout: 10 * time.Second}}
	show.begin(f.speed, f.stay)
	clock.began = time.Now()
	err = f.play(ctx, player, out, show)
	switch {
	case ctx.Err() != nil: // it was interrupted, which is how it ends
		err = nil
	case err == nil:
		show.done(left, f.stay)
		if err = show.err; err == nil && f.stay {
			<-ctx.Done()
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// play plays, and tells how it goes until all is judged.
func (f *demoFlags) play(ctx context.Context, player *play.Player, out io.Writer, show *showing) error {
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

// prepare makes what is configured for run.
func (f *demoFlags) prepare(folder, log, journal string, std streams) (*runner, error) {
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
authorization: {mode: "Node,RBAC"}
state: {files: [%s]}
sources: {files: [{paths: [%s], poll: 100ms}]}
store: {step: 1s}
readiness: {minWindow: 0s}
`, quoted(filepath.Join(folder, "data")), quoted(f.listen), quoted(journal), quoted(log))
	path := filepath.Join(folder, "nodetrail.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("making the configuration: %w", err)
	}
	run := runFlags{config: path}
	return run.prepare(nil, std)
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
	err    error // the first of writing
}

func (s *showing) say(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = fmt.Errorf("writing to standard output: %w", err)
	}
}

func (s *showing) begin(speed float64, stay bool) {
	s.say("A real cluster, %g times as fast as it was: its nodes do without RBAC, then have the binding of system:node,\n"+
		"then one for secrets alone, and then none. Open in a browser:\n\n", speed)
	s.say("  %s\n      all of it: what went through RBAC alone, second by second\n", s.pages)
	s.say("  %s?window=%s\n      the latest seconds: may the binding go now?\n\n", s.pages, demoWindow)
	if stay {
		s.say("Ctrl-C ends it and leaves nothing behind.\n\n")
	}
}

// look asks for the overview, and tells what is new in it. It returns how many events are shown in both windows, 0 if they differ.
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
	requests := int64(0)
	for i := range now.Readiness.Clients {
		requests += now.Readiness.Clients[i].Requests
	}
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
	if !now.Window.To.Equal(*whole.Window.To) {
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
	s.say("\nAll is judged. %d events of two identities that the capture's script misnames on purpose were left out.\n", left)
	if stay {
		s.say("The pages stay until Ctrl-C.\n")
	}
}
