package dashboards

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// patience is how long a very slow machine may take beyond what is waited for.
const patience = 5 * time.Minute

// eventually asks until there is no error.
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

// find finds a program that e2e/install.sh installs.
func find(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run e2e/install.sh", err)
	}
	return path
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

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a running program.
type process struct {
	name   string
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

// start starts a program, which ends with the test.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(path), exited: make(chan struct{})}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // it is killed
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.exited
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, p.out.String())
		}
	})
	return p
}

// alive is an error when the program has ended.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return errors.New(p.name + " has ended")
	default:
		return nil
	}
}
