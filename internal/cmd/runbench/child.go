package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a run of the program under load.
type child struct {
	program, dir, config string
	listen, audit        string
	cmd                  *exec.Cmd
	exited               chan struct{}
	log                  *os.File
	client               *http.Client
}

// freeAddress is one that nobody listened on a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// startChild starts the program with a fresh store, on two processors, and waits until it is ready. source is the configuration of the
// source, in which %s stands for a free address.
func startChild(ctx context.Context, o *options, source string) (_ *child, err error) {
	c := &child{program: o.program, exited: make(chan struct{}), client: &http.Client{Timeout: 10 * time.Second}}
	if c.dir, err = os.MkdirTemp("", "runbench"); err != nil {
		return nil, fmt.Errorf("a folder for the store: %w", err)
	}
	if c.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.audit, err = freeAddress(); err != nil {
		return nil, err
	}
	journal, err := filepath.Abs(filepath.Join(o.capture, "journal.jsonl.gz"))
	if err != nil {
		return nil, fmt.Errorf("the state: %w", err)
	}
	if strings.Contains(source, "%s") {
		source = fmt.Sprintf(source, c.audit)
	}
	text := fmt.Sprintf("data: %q\nlisten: %s\nauthorization: {mode: \"Node,RBAC\"}\nskew: 150ms\nstate: {files: [%q], horizon: %s}\n%s\n",
		filepath.Join(c.dir, "data"), c.listen, journal, stateFor, source)
	if o.pprof != "" {
		text += "pprof: " + o.pprof + "\n"
	}
	c.config = filepath.Join(c.dir, "nodetrail.yaml")
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	if c.log, err = os.Create(filepath.Join(c.dir, "log")); err != nil {
		return nil, fmt.Errorf("its log: %w", err)
	}
	c.cmd = exec.Command(c.program, "run", "--config", c.config)
	c.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	dieWithParent(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.program, err)
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	return c, c.ready(ctx)
}

func (c *child) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := c.get(ctx, "/readyz"); err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s ended by itself: %s", c.program, c.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %s", c.program, c.said())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// said is the end of what it logged.
func (c *child) said() string {
	b, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

func (c *child) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.listen+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, nil
}

// stop ends it as a service manager does, and forgets its store.
func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	var err error
	select {
	case <-c.exited:
		if !c.cmd.ProcessState.Success() {
			err = fmt.Errorf("%s: %s: %s", c.program, c.cmd.ProcessState, c.said())
		}
	case <-time.After(time.Minute):
		err = errors.Join(errors.New("it does not stop"), c.cmd.Process.Kill())
		<-c.exited
	}
	return errors.Join(err, c.log.Close(), os.RemoveAll(c.dir))
}

// judged is how many requests of nodes the program's own report has.
func (c *child) judged(ctx context.Context) (int64, error) {
	out, err := exec.CommandContext(ctx, c.program, "report", "--config", c.config, "-o", "json").Output()
	if err != nil {
		return 0, fmt.Errorf("the report: %w", err)
	}
	var r struct{ Events struct{ Judged int64 } }
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("the report: %w", err)
	}
	return r.Events.Judged, nil
}

// usage is what a process has used, as Linux tells.
type usage struct {
	cpu       time.Duration
	rss, peak int64 // bytes
}

func usageOf(pid int) (usage, error) {
	var u usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("what process %d uses: %w", pid, err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	for _, f := range fields[11:13] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.cpu += time.Duration(ticks) * (time.Second / 100) // USER_HZ
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("what process %d uses: %w", pid, err)
	}
	for row := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(row, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		switch name {
		case "VmRSS":
			u.rss = n << 10
		case "VmHWM":
			u.peak = n << 10
		}
	}
	return u, nil
}

// sampleEvery is how often the child's memory is looked at.
const sampleEvery = 200 * time.Millisecond

// watch samples the child's resident memory, in bytes, until stop is called, which returns the samples.
func (c *child) watch() (stop func() []int64) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var all []int64
	wg.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			if u, err := usageOf(c.cmd.Process.Pid); err == nil {
				all = append(all, u.rss)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() []int64 {
		close(done)
		wg.Wait()
		return all
	}
}

// mean is that of some samples, 0 of none.
func mean(all []int64) int64 {
	sum := int64(0)
	for _, n := range all {
		sum += n
	}
	return sum / max(int64(len(all)), 1)
}

// growth is by which share the memory of the last five minutes is more than that of five minutes after the first ten. Of shorter runs it is not known.
func growth(all []int64) (share float64, known bool) {
	const begun, few = int(10 * time.Minute / sampleEvery), int(5 * time.Minute / sampleEvery)
	if len(all) < begun+2*few {
		return 0, false
	}
	early := mean(all[begun : begun+few])
	return float64(mean(all[len(all)-few:])-early) / float64(early), true
}

// histogram is one of /metrics: how many were at most so much, by bound.
type histogram struct {
	bounds []float64
	counts []float64
}

// parseMetrics reads what is of use here: the histogram of that name, and the series whose names begin with one of the others.
func parseMetrics(text []byte, name string) (histogram, map[string]float64) {
	var h histogram
	all := map[string]float64{}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		series, value, ok := strings.Cut(s.Text(), "} ")
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		all[series+"}"] = v
		if le, ok := strings.CutPrefix(series, name+`_bucket{le="`); ok {
			bound, err := strconv.ParseFloat(strings.TrimSuffix(le, `"`), 64)
			if err != nil {
				continue
			}
			h.bounds, h.counts = append(h.bounds, bound), append(h.counts, v)
		}
	}
	return h, all
}

// since is the histogram of what came after an earlier one.
func (h histogram) since(before histogram) histogram {
	out := histogram{bounds: h.bounds, counts: append([]float64(nil), h.counts...)}
	for i := range before.counts {
		if i < len(out.counts) {
			out.counts[i] -= before.counts[i]
		}
	}
	return out
}

// quantile is interpolated within a bucket, as Prometheus does; NaN of nothing.
func (h histogram) quantile(q float64) float64 {
	n := len(h.counts)
	if n == 0 || h.counts[n-1] == 0 {
		return math.NaN()
	}
	rank, low, below := q*h.counts[n-1], 0.0, 0.0
	for i, c := range h.counts {
		if c >= rank {
			if math.IsInf(h.bounds[i], 1) {
				return low
			}
			return low + (h.bounds[i]-low)*(rank-below)/max(c-below, 1)
		}
		low, below = h.bounds[i], c
	}
	return low
}

// within is the share of what took at most so long, a bound of the histogram.
func (h histogram) within(bound float64) float64 {
	for i, b := range h.bounds {
		if b == bound {
			return h.counts[i] / max(h.counts[len(h.counts)-1], 1)
		}
	}
	return math.NaN()
}
