// Command runbench puts load on nodetrail run and measures whether it keeps up: as much as a large cluster brings through the API server's
// webhook and through Kafka, a storm of refusals, and more than it can take. Two more loads are attacks, for the night: "starve" has others
// without credentials hold all the connections that they get, while an API server posts; "flood" has one node refused request after request, each for a new
// name, while secrets are read. The program runs as a process of its own on two processors, with its embedded store; this one shares them.
//
// The events are the bundled capture's, each time with identities of their own and the time of now, exactly one in five of them a node's. After
// each load the program's own report must have counted every request of a node that was acknowledged, once.
//
// The machines it runs on are shared and noisy. So next to the figures stands what analyze takes for events of the same kind from a file, in
// the same run.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are the flags.
type options struct {
	program, capture, kafka, pprof string
	loads                          []string
	rate                           float64
	duration                       time.Duration
}

// What the project asks for.
const (
	askedRSS    = 300 << 20
	askedDelay  = 1.0  // seconds, of 99 in 100
	askedGrowth = 0.05 // of the memory, after the first ten minutes of a long load
	stormRate   = 1700
	batchSize   = 400 // of an API server, by default
	warmUp      = 3 * time.Second
	// askedRate is how many events a second it takes at most.
	askedRate = 200_000
	// stateFor is for how long the state keeps what has ended. By default it is a day, in which the pods of the load, 250 a second, would be millions: a load
	// for longer than that is to show what else grows.
	stateFor = 10 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o := &options{}
	fs := flag.NewFlagSet("runbench", flag.ContinueOnError)
	fs.StringVar(&o.program, "nodetrail", "bin/nodetrail", "the program to measure")
	fs.StringVar(&o.capture, "capture", "internal/demo/capture", "folder of audit.log.gz and journal.jsonl.gz")
	fs.StringVar(&o.kafka, "kafka", "e2e/kafka/kafka.sh", "the script that runs a broker")
	fs.StringVar(&o.pprof, "pprof", "", "loopback address for the program's pprof")
	fs.Float64Var(&o.rate, "rate", 20_000, "events a second")
	fs.DurationVar(&o.duration, "for", 30*time.Second, "how long each load continues")
	loads := fs.String("loads", "webhook,kafka,storm,overload", "the loads, of these, starve and flood")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	o.loads = strings.Split(*loads, ",")
	nodes, others, err := readLines(filepath.Join(o.capture, "audit.log.gz"))
	if err != nil {
		return err
	}
	r := &bench{o: o, ids: &serials{run: rand.Uint32()}, out: bufio.NewWriter(stdout)}
	r.batches = captureBatches(nodes, others, 512, batchSize)
	if r.storm, err = stormBatches(32, stormRate/10); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.out.Flush()) }()
	if err := r.limit(ctx); err != nil {
		return err
	}
	for _, l := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"webhook", func(ctx context.Context) error { return r.webhook(ctx, "webhook", false) }}, {"kafka", r.viaKafka},
		{"storm", func(ctx context.Context) error { return r.webhook(ctx, "storm", true) }}, {"overload", r.overload},
		{"starve", r.starve}, {"flood", r.flood},
	} {
		if !slices.Contains(o.loads, l.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "runbench:", l.name)
		if err := l.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return r.print()
}

// bench is one run of all loads.
type bench struct {
	o       *options
	ids     *serials
	batches []*batch
	storm   []*batch
	out     *bufio.Writer
	rows    []row
	checks  []check
	notes   []string
	// analyze is the processor time that the command analyze takes for an event.
	analyze time.Duration
}

// row is a load's figures.
type row struct {
	name                  string
	offered, taken        float64 // events a second
	turned                float64 // share of the requests
	broken                int64
	cpu                   float64 // processors
	perEvent              time.Duration
	peak, mean            int64
	p50, p99, within, ack float64
}

// check is a figure that was asked for.
type check struct {
	what string
	ok   bool
}

func (r *bench) check(ok bool, format string, args ...any) {
	r.checks = append(r.checks, check{fmt.Sprintf(format, args...), ok})
}

const delayMetric = "nodetrail_judge_delay_seconds"

// measured runs a load on a child and makes its row.
func (r *bench) measured(ctx context.Context, name string, c *child, load func() *outcome) (*outcome, row, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, row{}, err
	}
	before, err := usageOf(c.cmd.Process.Pid)
	if err != nil {
		return nil, row{}, err
	}
	h0, _ := parseMetrics(text, delayMetric)
	stop := c.watch()
	begin := time.Now()
	out := load()
	wall := time.Since(begin)
	samples := stop()
	if text, err = c.get(ctx, "/metrics"); err != nil {
		return nil, row{}, errors.Join(err, out.err)
	}
	after, err := usageOf(c.cmd.Process.Pid)
	if err != nil {
		return nil, row{}, err
	}
	h1, _ := parseMetrics(text, delayMetric)
	h := h1.since(h0)
	cpu := after.cpu - before.cpu
	w := row{
		name: name, offered: float64(out.events) / out.elapsed.Seconds(), taken: float64(out.taken) / out.elapsed.Seconds(),
		cpu: cpu.Seconds() / wall.Seconds(), perEvent: cpu / time.Duration(max(out.taken, 1)), peak: after.peak, mean: mean(samples),
		p50: h.quantile(.5), p99: h.quantile(.99), within: h.within(askedDelay), ack: out.quantile(.99),
	}
	if share, known := growth(samples); known {
		r.check(share < askedGrowth, "%s: resident memory is %.1f %% more than after the first ten minutes, asked for less than %.0f %%", name, 100*share, 100*askedGrowth)
	}
	if out.attempts > 0 {
		w.turned, w.broken = float64(out.turned)/float64(out.attempts), out.broken
	}
	return out, w, out.err
}

// counted waits until the report has all that was acknowledged, and checks that it has no more.
func (r *bench) counted(ctx context.Context, name string, c *child, judged, unsure int64) error {
	deadline := time.Now().Add(time.Minute)
	for {
		n, err := c.judged(ctx)
		if err != nil {
			return err
		}
		if n >= judged || time.Now().After(deadline) {
			r.check(n >= judged && n <= judged+unsure, "%s: %d requests of nodes acknowledged, the report has %d", name, judged, n)
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (r *bench) add(w row, steady bool) {
	r.rows = append(r.rows, w)
	r.check(w.peak < askedRSS, "%s: peak of %d MB, asked for less than %d", w.name, w.peak>>20, askedRSS>>20)
	if !steady {
		return
	}
	r.check(w.taken >= 0.99*r.o.rate, "%s: %.0f events a second, asked for %.0f", w.name, w.taken, r.o.rate)
	r.check(w.p99 < askedDelay, "%s: 99 in 100 within %.3f s from receipt to metric, asked for 1 s", w.name, w.p99)
}

const webhookSource = "sources: {webhook: {listen: %s}}"

// webhook is the load of a large cluster, with the storm if it is asked for.
func (r *bench) webhook(ctx context.Context, name string, storm bool) (err error) {
	c, err := startChild(ctx, r.o, webhookSource)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	post := poster("http://"+c.audit+"/audit", 10)
	load := func(d time.Duration) *outcome {
		if !storm {
			return drive(ctx, r.ids, r.batches, r.o.rate, d, post)
		}
		also := make(chan *outcome, 1)
		go func() { also <- drive(ctx, r.ids, r.storm, stormRate, d, post) }()
		out := drive(ctx, r.ids, r.batches, r.o.rate, d, post)
		out.add(<-also)
		return out
	}
	warm := load(warmUp)
	if warm.err != nil {
		return warm.err
	}
	out, w, err := r.measured(ctx, name, c, func() *outcome { return load(r.o.duration) })
	if err != nil {
		return err
	}
	r.add(w, true)
	return r.counted(ctx, name, c, warm.judged+out.judged, warm.unsure+out.unsure)
}

// overload is more than the program takes, for a while, and for longer three times what it took of that; then the load of every day. Requests that wait keep the
// 480 connections from bringing as much as is offered.
func (r *bench) overload(ctx context.Context) (err error) {
	c, err := startChild(ctx, r.o, webhookSource)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	once := poster("http://"+c.audit+"/audit", 0)
	judged, unsure := int64(0), int64(0)
	step := func(name string, rate float64, d time.Duration, post send) (row, error) {
		out, w, err := r.measured(ctx, name, c, func() *outcome { return drive(ctx, r.ids, r.batches, rate, d, post) })
		if err != nil {
			return w, err
		}
		judged, unsure = judged+out.judged, unsure+out.unsure
		r.add(w, false)
		return w, nil
	}
	most, err := step("most it takes", 15*r.o.rate, r.o.duration/3, once)
	if err != nil {
		return err
	}
	r.check(most.taken >= askedRate, "overload: %.0f events a second taken at most, asked for %d", most.taken, askedRate)
	over, err := step("more than that", 3*most.taken, r.o.duration, once)
	if err != nil {
		return err
	}
	r.check(over.taken > most.taken/2, "overload: %.0f events a second taken when there are more, %.2f of the most that it takes", over.taken, over.taken/most.taken)
	if n := most.broken + over.broken; n > 0 {
		r.notes = append(r.notes, fmt.Sprintf("overload: %d connections were closed before their first request was read", n))
	}
	after, err := step("and then", r.o.rate, r.o.duration/3, once)
	if err != nil {
		return err
	}
	r.check(after.turned == 0 && after.broken == 0, "after the overload: %.1f %% of the requests were answered 429 or 503 and %d connections broken, asked for none",
		100*after.turned, after.broken)
	return r.counted(ctx, "overload", c, judged, unsure)
}

// viaKafka is the load of a large cluster through a real broker.
func (r *bench) viaKafka(ctx context.Context) (err error) {
	b, err := startBroker(ctx, r.o.kafka)
	if errors.Is(err, errNoBroker) {
		r.check(false, "kafka: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	c, err := startChild(ctx, r.o, fmt.Sprintf("sources: {kafka: {brokers: [%q], topics: [%q], group: runbench}}", b.address, topic))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	p, err := b.producer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	post := producing(p)
	warm := drive(ctx, r.ids, r.batches, r.o.rate, warmUp, post)
	if warm.err != nil {
		return warm.err
	}
	var probes []time.Duration
	out, w, err := r.measured(ctx, "kafka", c, func() *outcome {
		probing, stop := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			var err error
			probes, err = probe(probing, c, r.ids, post)
			if probing.Err() != nil {
				err = nil // the load is over, and with it what was on its way
			}
			failed <- err
		}()
		out := drive(ctx, r.ids, r.batches, r.o.rate, r.o.duration, post)
		stop()
		if err := <-failed; err != nil && out.err == nil {
			out.err = err
		}
		return out
	})
	if err != nil {
		return err
	}
	if len(probes) > 0 {
		slices.Sort(probes)
		r.notes = append(r.notes, fmt.Sprintf("kafka: of %d events timed from before they were written to Kafka until /metrics had them, the median took %.3f s, the longest %.3f s",
			len(probes), probes[len(probes)/2].Seconds(), probes[len(probes)-1].Seconds()))
	}
	r.add(w, true)
	// The probe's own requests are counted, too; the last one may not have been acknowledged.
	return r.counted(ctx, "kafka", c, warm.judged+out.judged+int64(len(probes)), 2)
}

// limit times analyze on a file of events as they are sent.
func (r *bench) limit(ctx context.Context) error {
	f, err := os.CreateTemp("", "runbench-*.log")
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	w, n := bufio.NewWriterSize(f, 1<<20), 0
	for range 4 {
		for _, b := range r.batches {
			r.ids.renew(b)
			for i := range b.lines {
				_, _ = w.Write(b.event(i)) // Flush tells
				_ = w.WriteByte('\n')
				n++
			}
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	cmd := exec.CommandContext(ctx, r.o.program, "analyze", "--state", filepath.Join(r.o.capture, "journal.jsonl.gz"), "--skew", "150ms",
		"--authorization-mode", "Node,RBAC", "-o", "json", f.Name())
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	wall, cpu := time.Since(begin), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	r.analyze = cpu / time.Duration(n)
	r.notes = append(r.notes, fmt.Sprintf("analyze judges %d such events from a file in %.2f s (%.0f a second), with %.1f µs of a processor for each",
		n, wall.Seconds(), float64(n)/wall.Seconds(), float64(r.analyze.Nanoseconds())/1000))
	return nil
}

// print prints the table, and returns an error if something that was asked for is not so.
func (r *bench) print() error {
	fmt.Fprintf(r.out, "%d processors, load average %s\n\n", runtime.NumCPU(), loadAverage())
	w := tabwriter.NewWriter(r.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "load\toffered/s\ttaken/s\t429, 503\tprocessors\tµs an event\tof analyze's\tpeak MB\tmean MB\tp50 s\tp99 s\twithin 1 s\tp99 of the answers")
	for i := range r.rows {
		x := &r.rows[i]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f %%\t%.2f\t%.1f\t%.1f\t%d\t%d\t%.3f\t%.3f\t%.2f %%\t%.3f\n", x.name, x.offered, x.taken, 100*x.turned, x.cpu,
			float64(x.perEvent.Nanoseconds())/1000, float64(x.perEvent)/float64(max(r.analyze, 1)), x.peak>>20, x.mean>>20, x.p50, x.p99, 100*x.within, x.ack)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	fmt.Fprintln(r.out)
	for _, n := range r.notes {
		fmt.Fprintln(r.out, n)
	}
	failed := 0
	for _, c := range r.checks {
		word := "ok  "
		if !c.ok {
			word = "FAIL"
			failed++
		}
		fmt.Fprintf(r.out, "%s  %s\n", word, c.what)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d figures are not as asked for", failed, len(r.checks))
	}
	return nil
}

// loadAverage is the system's, with other programs' share.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(b))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
