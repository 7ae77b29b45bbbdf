package trail

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// OverlayEnv names a file for go build -overlay.
const OverlayEnv = "NODETRAIL_E2E_OVERLAY"

// Build builds the program into the folder and returns its path.
func Build(ctx context.Context, w *plane.Work) (string, error) {
	root, err := plane.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.Dir, "nodetrail")
	args := []string{"build", "-o", path}
	if overlay := os.Getenv(OverlayEnv); overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/nodetrail")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building nodetrail: %w\n%s", err, out)
	}
	return path, nil
}

// Instance is a nodetrail run.
type Instance struct {
	// Config is its configuration's path; Listen where it serves metrics.
	Config, Listen string
	// Process is the one that runs now.
	Process *plane.Process

	name    string
	program []string // with what comes before its command
	health  string   // where it serves readiness, if not at Listen
	work    *plane.Work

	mu       sync.Mutex
	verdicts follower
}

// New writes the configuration: what is given, and where to listen. A file of verdict lines is written next to it if the configuration has one at
// the path that VerdictsPath returns.
func New(w *plane.Work, program, name, config string) (*Instance, error) {
	listen, err := plane.FreeAddress()
	if err != nil {
		return nil, err
	}
	i := &Instance{Config: filepath.Join(w.Dir, name+".yaml"), Listen: listen, name: name, program: []string{program}, work: w}
	i.verdicts.path = VerdictsPath(w, name)
	text := fmt.Sprintf("data: %q\nlisten: %q\n%s", filepath.Join(w.Dir, name+"-data"), listen, config)
	if err := os.WriteFile(i.Config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration of %s: %w", name, err)
	}
	return i, nil
}

// Existing is an instance of which the configuration is there: it listens at listen, serves readiness at health, and is started by the program.
func Existing(w *plane.Work, name, config, listen, health string, program ...string) *Instance {
	return &Instance{Config: config, Listen: listen, health: health, name: name, program: program, work: w}
}

// VerdictsPath is where the instance of that name may write verdict lines.
func VerdictsPath(w *plane.Work, name string) string {
	return filepath.Join(w.Dir, name+"-verdicts.jsonl")
}

// Start starts a command of nodetrail with the configuration, run by default, and does not wait.
func (i *Instance) Start(command ...string) error {
	if len(command) == 0 {
		command = []string{"run"}
	}
	p, err := i.work.Start(i.name, i.program[0], slices.Concat(i.program[1:], command, []string{"--config", i.Config}))
	if err == nil {
		i.Process = p
	}
	return err
}

// StartReady starts it and waits until it is ready.
func (i *Instance) StartReady(ctx context.Context) error {
	if err := i.Start(); err != nil {
		return err
	}
	return plane.Eventually(ctx, i.name+" is ready", i.Ready)
}

// Ready is an error with what /readyz says while it is not ready.
func (i *Instance) Ready() error {
	if err := i.Process.Alive(); err != nil {
		return plane.Fatal(err)
	}
	code, b, err := get(cmp.Or(i.health, i.Listen), "/readyz", "")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("/readyz: %d %s", code, b)
	}
	return err
}

func (i *Instance) get(path string) (int, []byte, error) { return i.Get(path, "") }

// Get asks for a page, with a bearer token unless it is empty, and follows no redirection.
func (i *Instance) Get(path, token string) (int, []byte, error) { return get(i.Listen, path, token) }

func get(address, path, token string) (int, []byte, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// Stop ends it in good order, which it has to say.
func (i *Instance) Stop() error {
	i.Process.Stop(time.Minute)
	if !i.Process.Success() {
		return fmt.Errorf("%s did not end well:\n%s", i.name, i.Process.Tail(2000))
	}
	return nil
}

// Metrics are the figures of /metrics.
type Metrics map[string]*dto.MetricFamily

// Metrics asks for them.
func (i *Instance) Metrics() (Metrics, error) {
	code, b, err := i.get("/metrics")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("/metrics: %d %.200s", code, b)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// Sum adds up the series of a metric that have these labels, given as name=value.
func (m Metrics) Sum(name string, labels ...string) float64 {
	f := m[name]
	if f == nil {
		return 0
	}
	sum := 0.0
series:
	for _, s := range f.GetMetric() {
		for _, want := range labels {
			k, v, _ := strings.Cut(want, "=")
			found := false
			for _, l := range s.GetLabel() {
				found = found || l.GetName() == k && l.GetValue() == v
			}
			if !found {
				continue series
			}
		}
		sum += s.GetCounter().GetValue() + s.GetGauge().GetValue() + s.GetUntyped().GetValue()
	}
	return sum
}

// Run runs a command of nodetrail and returns its standard output.
func Run(ctx context.Context, program string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("nodetrail %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// Report runs nodetrail report on the store.
func (i *Instance) Report(ctx context.Context, args ...string) (*Report, error) {
	out, err := Run(ctx, i.program[0], append([]string{"report", "--config", i.Config, "-o", "json"}, args...)...)
	if err != nil {
		return nil, err
	}
	return ParseReport(out)
}

// ParseReport reads a report.
func ParseReport(b []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	return &r, nil
}

// Verdict returns the verdict line of a request, nil while there is none.
func (i *Instance) Verdict(auditID string) (*Verdict, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.verdicts.read(); err != nil {
		return nil, err
	}
	return i.verdicts.byID[auditID], nil
}

// Verdicts returns all verdict lines so far, in order.
func (i *Instance) Verdicts() ([]*Verdict, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	err := i.verdicts.read()
	return i.verdicts.all, err
}

type follower struct {
	path   string
	offset int64
	all    []*Verdict
	byID   map[string]*Verdict
}

func (f *follower) read() error {
	if f.byID == nil {
		f.byID = map[string]*Verdict{}
	}
	return plane.FollowLines(f.path, &f.offset, func(line []byte) error {
		v := &Verdict{}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("reading verdict lines: %w", err)
		}
		f.all = append(f.all, v)
		f.byID[v.AuditID] = v
		return nil
	})
}

// Quantiles estimates the distribution of a histogram by the upper bounds of its buckets.
func Quantiles(m Metrics, name string) result.Latency {
	var l result.Latency
	f := m[name]
	if f == nil || len(f.GetMetric()) == 0 {
		return l
	}
	h := f.GetMetric()[0].GetHistogram()
	total := float64(h.GetSampleCount())
	l.N = int(h.GetSampleCount())
	for _, b := range h.GetBucket() {
		bound := time.Duration(b.GetUpperBound() * float64(time.Second))
		if l.P50 == 0 && float64(b.GetCumulativeCount()) >= 0.5*total {
			l.P50 = bound
		}
		if l.P99 == 0 && float64(b.GetCumulativeCount()) >= 0.99*total {
			l.P99 = bound
		}
	}
	return l
}
