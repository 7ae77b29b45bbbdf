package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Work owns a temporary folder and the processes that run in it.
type Work struct {
	// Dir is the folder; its subfolder logs has what each process said.
	Dir string

	ctx       context.Context
	cancel    context.CancelFunc
	mu        sync.Mutex
	processes []*Process
	starts    map[string]int
	ended     bool
	forks     chan func()
}

// Main runs the tests of a package with a Work, and returns the exit status. The Work is ended whatever happens, signals included; its folder stays
// if a test failed, and is named. Temporary folders of the tests are made in it, so that nothing else has to be removed.
func Main(m *testing.M, use func(*Work)) int {
	w, err := NewWork()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var stopped atomic.Bool
	go func() {
		s := <-signals
		stopped.Store(true)
		fmt.Fprintf(os.Stderr, "\n%s: ending what was started\n", s)
		w.End()
		if err := w.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(130)
	}()
	use(w)
	code := m.Run()
	if stopped.Load() {
		select {} // what was interrupted has failed; the other one removes the folder and exits
	}
	w.End()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "logs and data of what ran: %s\n", w.Dir)
		return code
	}
	if err := w.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// NewWork makes the folder, and lets TMPDIR name it.
func NewWork() (*Work, error) {
	dir, err := os.MkdirTemp("", "nodetrail-e2e-")
	if err != nil {
		return nil, fmt.Errorf("making a work folder: %w", err)
	}
	// PostgreSQL runs as another user when the tests run as root, and has its folder below.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a work folder: %w", err)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return nil, fmt.Errorf("setting TMPDIR: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("making a work folder: %w", err)
	}
	w := &Work{Dir: dir, starts: map[string]int{}, forks: make(chan func())}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		// Linux ends a child when the thread that made it ends (Pdeathsig): so one thread, which never does, makes them all.
		runtime.LockOSThread()
		for f := range w.forks {
			f()
		}
	}()
	return w, nil
}

// Context ends with the Work. Tests use it rather than their own, so that what they run, such as a compiler, ends when they are interrupted.
func (w *Work) Context() context.Context { return w.ctx }

// Process is one that a Work has started.
type Process struct {
	Name string
	// Log is the file with what it said.
	Log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts a program in a process group of its own. env comes after this process's own environment.
func (w *Work) Start(name, path string, args []string, env ...string) (*Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil, errors.New("starting " + name + ": everything has been ended")
	}
	w.starts[name]++
	logName := name + ".log"
	if n := w.starts[name]; n > 1 {
		logName = fmt.Sprintf("%s-%d.log", name, n)
	}
	p := &Process{Name: name, Log: filepath.Join(w.Dir, "logs", logName), exited: make(chan struct{})}
	log, err := os.Create(p.Log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Env = w.Dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	w.forks <- func() { started <- p.cmd.Start() }
	err = <-started
	_ = log.Close() // the process has its own
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	w.processes = append(w.processes, p)
	go func() {
		_ = p.cmd.Wait() // most are killed
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive is an error with the end of the log when the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended (%s):\n%s", p.Name, p.cmd.ProcessState, p.Tail(4000))
	default:
		return nil
	}
}

// Tail is the end of what the process said, of n bytes at most.
func (p *Process) Tail(n int64) string {
	f, err := os.Open(p.Log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-n), io.SeekStart) // what cannot be sought is read from where it is
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Yield lets others go first on the processor, as what runs on other machines does.
func (p *Process) Yield() {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, p.cmd.Process.Pid, 10) // without it things are slower, no more
}

// Kill ends the process, and what it started, at once.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Stop asks the process to end, and ends it after the time given.
func (p *Process) Stop(within time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(within):
		p.Kill()
	}
}

// Success says whether an ended process said that all was well.
func (p *Process) Success() bool {
	<-p.exited
	return p.cmd.ProcessState.Success()
}

// Freeze stops the process without ending it; Thaw lets it continue.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw is for after Freeze.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.exited: // the id may be another process's by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended a moment ago
	}
}

// End ends all processes, those that were started last first.
func (w *Work) End() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, p := range slices.Backward(w.processes) {
		p.signal(syscall.SIGKILL)
	}
	for _, p := range w.processes {
		<-p.exited
	}
}

// Remove removes the folder. What others than Work have started in it may still be ending, so it tries for a while.
func (w *Work) Remove() error {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = os.RemoveAll(w.Dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("removing the work folder: %w", err)
}

// Used is what the process has used so far: time of the processor, and its largest resident memory in bytes. 0 where the system does not tell.
func (p *Process) Used() (cpu time.Duration, peak int64) {
	select {
	case <-p.exited:
		if r, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			peak = r.Maxrss * 1024
		}
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), peak
	default:
		return used(p.cmd.Process.Pid)
	}
}
