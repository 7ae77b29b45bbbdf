// Package pgtest runs a PostgreSQL server for tests: a new, empty one in a folder of its own, on a free port of the loopback interface,
// which ends with the process that started it.
//
// What goes in: nothing; the programs are those of Debian's package, or on the PATH. What comes out: a DSN. It imports internal/test/tail of ours.
package pgtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/tail"
)

// RequireEnv is the environment variable that, set to 1, makes tests fail that would be skipped where PostgreSQL is missing.
const RequireEnv = "NODETRAIL_REQUIRE_POSTGRES"

// ErrMissing says that PostgreSQL's programs are not installed.
var ErrMissing = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// Server is a running server.
type Server struct {
	dir    string
	port   int
	as     *owner
	bin    string
	stop   func() error
	ended  chan struct{}
	output *tail.Buffer
}

// Option changes how a server is started.
type Option func(*settings)

type settings struct{ lines []string }

// Set sets one of the server's parameters. By default nothing is synchronised to the disk.
func Set(name, value string) Option {
	return func(s *settings) { s.lines = append(s.lines, name+" = "+value) }
}

// Shared starts a server once for all tests that call it with the same holder, which a test package keeps in a variable; Holder.Stop
// belongs in its TestMain. With -short the test is skipped; where PostgreSQL is missing it says so and is skipped, or fails if RequireEnv asks
// for that.
func (h *Holder) Shared(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no PostgreSQL is started")
	}
	h.once.Do(func() { h.server, h.err = Start() })
	if errors.Is(h.err, ErrMissing) && os.Getenv(RequireEnv) != "1" {
		t.Skipf("SKIPPED, NOT TESTED: %v; with %s=1 this is a failure", h.err, RequireEnv)
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	return h.server
}

// Holder holds a server that tests share. The zero value is ready.
type Holder struct {
	once   sync.Once
	server *Server
	err    error
}

// Stop stops the server if there is one.
func (h *Holder) Stop() error {
	if h.server == nil {
		return nil
	}
	return h.server.Stop()
}

// Start starts a server. ErrMissing says that there is no PostgreSQL on this machine.
func Start(options ...Option) (_ *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, ended: make(chan struct{}), output: &tail.Buffer{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if s.as, err = unprivileged(); err != nil {
		return nil, err
	}
	if err := s.as.give(dir); err != nil {
		return nil, err
	}
	if err := s.initialise(options); err != nil {
		return nil, err
	}
	// The port is free now and may be taken until the server listens.
	for try := 0; ; try++ {
		if err = s.run(); err == nil {
			return s, nil
		}
		if try == 4 || !strings.Contains(s.output.String(), "could not bind") {
			return nil, err
		}
		s.port = 0
	}
}

// programs returns the folder of PostgreSQL's programs, of the newest version if there are several.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	version := func(path string) int {
		n, err := strconv.Atoi(strings.Split(path, "/")[4])
		if err != nil {
			return 0
		}
		return n
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", ErrMissing
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb")); err != nil {
		return "", ErrMissing
	}
	return filepath.Dir(path), nil
}

// owner is the user that the server runs as: it refuses to run as root.
type owner struct{ uid, gid int }

func unprivileged() (*owner, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(u.Gid)
		return &owner{uid, gid}, err
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func (o *owner) give(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) initialise(options []Option) error {
	c := exec.Command(filepath.Join(s.bin, "initdb"), "--no-sync", "--auth=trust", "--username=nodetrail", "--encoding=UTF8", "--locale=C",
		"--pgdata", s.data())
	c.Dir = s.dir
	c.SysProcAttr = attributes(s.as)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	all := settings{lines: []string{"", "fsync = off", "full_page_writes = off", "max_connections = 100", "log_min_messages = warning"}}
	for _, o := range options {
		o(&all)
	}
	path := filepath.Join(s.data(), "postgresql.conf")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(all.lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// run starts the server's process and waits until it answers.
func (s *Server) run() error {
	if s.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return err
		}
	}
	c := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-h", "127.0.0.1", "-k", s.dir, "-p", strconv.Itoa(s.port))
	c.Dir = s.dir
	c.SysProcAttr = attributes(s.as)
	c.Stdout, c.Stderr = s.output, s.output
	// On Linux the server gets a signal when the thread that started it ends, so that thread must stay.
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // how it ended is in its output
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	s.stop = func() error { return end(c.Process) }
	s.ended = ended
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			return fmt.Errorf("postgres ended:\n%s", s.output)
		default:
		}
		ready := exec.Command(filepath.Join(s.bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port))
		if ready.Run() == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("postgres does not answer:\n%s", s.output), s.Stop())
		}
	}
}

// DSN is how to connect to the server, as its superuser, which needs no password.
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://nodetrail@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Restart stops the server at once, as a crash does, and starts it again: connections break, the DSN stays.
func (s *Server) Restart() error {
	if err := s.stop(); err != nil {
		return err
	}
	<-s.ended
	return s.run()
}

// Stop stops the server at once and removes its folder.
func (s *Server) Stop() error {
	var err error
	select {
	case <-s.ended:
	default:
		err = s.stop()
		<-s.ended
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
