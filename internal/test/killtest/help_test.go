package killtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/nodetrail/nodetrail/internal/test/pgtest"
	"github.com/nodetrail/nodetrail/internal/test/port"
	"github.com/nodetrail/nodetrail/internal/test/tail"
)

// program is the program under test, built once; kills counts how often it was killed in all tests.
var (
	program  string
	postgres pgtest.Holder
	killsMu  sync.Mutex
	kills    = map[string]int{}
)

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "nodetrail-kill")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		program = filepath.Join(dir, "nodetrail")
		build := exec.Command("go", "build", "-o", program, "../../../cmd/nodetrail")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building nodetrail: %v\n%s", err, out)
			return 1
		}
		code := m.Run()
		total := 0
		for _, n := range kills {
			total += n
		}
		fmt.Printf("killed %d times: %v\n", total, kills)
		return code
	}()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const demo = "../../demo/capture"

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// capture is the log of a real cluster.
func capture(t *testing.T) [][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join(demo, "audit.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(log), []byte("\n"))
}

// totals is what must be equal however often the program was killed.
type totals struct {
	Events struct {
		Read, Judged, Malformed int64
	}
	Verdicts  json.RawMessage
	Agreement struct {
		Compared, Agree int64
		Races, Reasons  json.RawMessage
	}
	Nodes    json.RawMessage
	Ambient  json.RawMessage
	Findings []map[string]any
}

// found counts the requests of findings. Some are of no node, and so not among those that were judged.
func (t *totals) found() (n float64) {
	for _, f := range t.Findings {
		n += f["count"].(float64)
	}
	return n
}

func parse(t *testing.T, out []byte) *totals {
	t.Helper()
	var r totals
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %.200s", err, out)
	}
	for _, f := range r.Findings {
		delete(f, "auditIDs") // some of many
	}
	return &r
}

// compare holds the totals against those of analyze, but for how many events were read if the source may read some more than once.
func compare(t *testing.T, want, got *totals, exactlyRead bool) {
	t.Helper()
	w, g := *want, *got
	if !exactlyRead {
		w.Events.Read, g.Events.Read = 0, 0
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("analyze and run differ (-analyze +run):\n%s", diff)
	}
}

func analyze(t *testing.T) *totals {
	t.Helper()
	cmd := exec.Command(program, "analyze", "--state", filepath.Join(demo, "journal.jsonl.gz"), "--state-from-audit=false", "--skew", "150ms",
		"--authorization-mode", "Node,RBAC", "-o", "json",
		// What several requests show together is found when the log has advanced for two minutes, which this one does not.
		"--disable", "secret-enumeration", filepath.Join(demo, "audit.log.gz"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("analyze: %v: %s", err, &stderr)
	}
	return parse(t, out)
}

// config writes a configuration file: what all have in common, and the lines given.
func config(t *testing.T, lines ...string) string {
	t.Helper()
	return configOf(t, filepath.Join(demo, "journal.jsonl.gz"), 150*time.Millisecond, lines...)
}

// configOf is config with another state and skew.
func configOf(t *testing.T, state string, skew time.Duration, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`data: %q
listen: 127.0.0.1:0
authorization: {mode: "Node,RBAC"}
skew: %s
state: {files: [%q], fromAudit: false, settle: 100ms}
pipeline: {commitEvery: 10ms}
`, filepath.Join(dir, "data"), skew, absolute(t, state)) + strings.Join(lines, "\n") + "\n"
	path := filepath.Join(dir, "nodetrail.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is one that was started.
type process struct {
	t      *testing.T
	what   string
	cmd    *exec.Cmd
	done   chan struct{}
	stderr *tail.Buffer
}

// start starts the program. It ends with the test if nothing ends it before; ending by itself fails the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, what: args[0], cmd: exec.Command(program, args...), done: make(chan struct{}), stderr: &tail.Buffer{}}
	p.cmd.Stderr = p.stderr
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// kill ends the process as the out-of-memory killer does.
func (p *process) kill() {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("%s ended by itself:\n%s", p.what, p.stderr.Last(16<<10))
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	killsMu.Lock()
	kills[p.t.Name()]++
	killsMu.Unlock()
}

// stop asks the process to end, which it must do well. It waits for a first message: before main nobody handles the signal.
func (p *process) stop() {
	p.t.Helper()
	for begun := time.Now(); len(p.stderr.Last(1)) == 0 && time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended by itself", p.what)
		default:
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s: %v:\n%s", p.what, p.cmd.ProcessState, p.stderr.Last(16<<10))
	}
}

// report is the program's own report from the store, nil while there is none.
func report(t *testing.T, config string) *totals {
	t.Helper()
	out, err := exec.Command(program, "report", "--config", config, "-o", "json").Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return parse(t, out)
}

// waitFor polls the report until it has judged and found all, or for three minutes in which all was judged. What hangs ends with the test's own time.
func waitFor(t *testing.T, config string, want *totals, p ...*process) *totals {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		r := report(t, config)
		if r != nil && r.Events.Judged >= want.Events.Judged && r.found() >= want.found() {
			return r
		}
		for _, p := range p {
			select {
			case <-p.done:
				t.Fatalf("%s ended by itself:\n%s", p.what, p.stderr.Last(16<<10))
			default:
			}
		}
		if time.Now().After(deadline) {
			for _, p := range p {
				t.Logf("%s says:\n%s", p.what, p.stderr.Last(16<<10))
			}
			if r != nil && r.Events.Judged >= want.Events.Judged {
				return r // which says what is missing
			}
			t.Fatalf("still %+v of %d judged", r, want.Events.Judged)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// pause lets a process live for a random while.
func pause(rnd *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(rnd.Int64N(int64(most-least))))
}

// freePort is an address on which a process can listen again and again.
func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", port.For(t))
}

// background runs f until the test ends, and waits for it.
func background(t *testing.T, f func(context.Context)) (wait func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return wg.Wait
}

func list(lines [][]byte) []byte {
	return slices.Concat([]byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`), bytes.Join(lines, []byte(",")), []byte(`]}`))
}

// stall stops the process for a while without ending it, as a machine does that is short of memory.
func (p *process) stall(d time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	time.Sleep(time.Second)
}
