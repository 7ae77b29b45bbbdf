package alerts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is nodetrail, built once.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "nodetrail-alerts")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "nodetrail")
		build := exec.Command("go", "build", "-o", program, "./cmd/nodetrail")
		build.Dir = filepath.Join("..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building nodetrail: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// patience is how long a very slow machine may take beyond what is waited for.
const patience = 5 * time.Minute

func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// address is one of this machine that nobody listens on.
func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// find finds a program that e2e/install.sh installs.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run e2e/install.sh", err)
	}
	return path
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	out    output
}

// output keeps the end of what a program says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const most = 64 << 10
	if o.b.Len() > most {
		o.b.Next(most / 2)
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), p.out.String())
		}
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-p.exited
}

// get asks for JSON.
func get(address, path string, to any) error {
	resp, err := client().Get("http://" + address + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %.200s %w", path, resp.StatusCode, b, err)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(b, to)
}

func client() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

func ready(t *testing.T, p *process, address, path string) {
	t.Helper()
	eventually(t, "it is ready", func() error {
		select {
		case <-p.exited:
			t.Fatalf("it has ended: %s", p.out.String())
		default:
		}
		return get(address, path, nil)
	})
}
