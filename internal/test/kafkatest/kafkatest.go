// Package kafkatest runs real Kafka brokers for tests, by e2e/kafka/kafka.sh: Java 17, and Maven the first time, are needed. Where they are missing
// tests are skipped, with a word about why, unless NODETRAIL_REQUIRE_KAFKA is 1: then they fail.
//
// It imports internal/test/port and internal/test/tail of ours, and no Kafka client.
package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/port"
	"github.com/nodetrail/nodetrail/internal/test/tail"
)

// Options of a cluster.
type Options struct {
	// Brokers is how many there are, 1 by default.
	Brokers int
	// Users are passwords by name. If there are any the brokers have a listener for SASL over plain text, with PLAIN and SCRAM.
	Users map[string]string
	// ServerPEM holds a certificate and its key. If it is set the brokers have a listener for TLS. With ClientsPEM, certificates of authorities, that
	// one wants a certificate of clients.
	ServerPEM, ClientsPEM []byte
}

// Cluster is a number of brokers on the loopback interface.
type Cluster struct {
	tb      testing.TB
	dir     string
	script  string
	brokers []*broker
}

type broker struct {
	id               int
	plain, sasl, ssl int
	mu               sync.Mutex
	cmd              *exec.Cmd
	watcher          *exec.Cmd
	release          io.Closer // the watcher's standard input
	exited           chan struct{}
	log              *tail.Buffer
}

// startTimeout is generous: brokers start in 3 s, on a machine that does nothing else.
const startTimeout = 3 * time.Minute

// Start starts a cluster and ends it with the test. It skips the test with -short, and where brokers cannot be had.
func Start(tb testing.TB, opt Options) *Cluster {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short: no Kafka broker is started")
	}
	c := &Cluster{tb: tb, dir: tb.TempDir(), script: script(tb)}
	if why := missing(c.script); why != nil {
		if os.Getenv("NODETRAIL_REQUIRE_KAFKA") == "1" {
			tb.Fatalf("no Kafka broker for this test: %v", why)
		}
		// Standard error shows without -v.
		fmt.Fprintf(os.Stderr, "\n*** %s NOT RUN: no Kafka broker: %v\n*** Install Java 17 and Maven; NODETRAIL_REQUIRE_KAFKA=1 makes this a failure.\n\n", tb.Name(), why)
		tb.Skipf("no Kafka broker: %v", why)
	}
	if opt.Brokers == 0 {
		opt.Brokers = 1
	}
	var groups []string
	for id := 1; id <= opt.Brokers; id++ {
		b := &broker{id: id, plain: port.For(tb)}
		group := []string{strconv.Itoa(b.plain), strconv.Itoa(port.For(tb)), "", ""}
		if len(opt.Users) > 0 {
			b.sasl = port.For(tb)
			group[2] = strconv.Itoa(b.sasl)
		}
		if opt.ServerPEM != nil {
			b.ssl = port.For(tb)
			group[3] = strconv.Itoa(b.ssl)
		}
		groups = append(groups, strings.Join(group, ":"))
		c.brokers = append(c.brokers, b)
	}
	for name, content := range map[string][]byte{"server.pem": opt.ServerPEM, "clients.pem": opt.ClientsPEM} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	prepare := exec.Command("bash", c.script, "prepare", c.dir, strings.Join(groups, ","))
	var users []string
	for name, password := range opt.Users {
		users = append(users, name+":"+password)
	}
	prepare.Env = append(os.Environ(), "KAFKA_USERS="+strings.Join(users, " "))
	if out, err := prepare.CombinedOutput(); err != nil {
		tb.Fatalf("preparing the brokers: %v\n%s", err, out)
	}
	tb.Cleanup(func() {
		for _, b := range c.brokers {
			b.kill()
			if tb.Failed() {
				tb.Logf("the last that broker %d wrote:\n%s", b.id, b.log.Last(8000))
			}
		}
	})
	for i := range c.brokers {
		c.launch(i)
	}
	for i := range c.brokers {
		c.await(i)
	}
	return c
}

// script finds kafka.sh from this file, and failing that from the working directory.
func script(tb testing.TB) string {
	tb.Helper()
	_, file, _, _ := runtime.Caller(0)
	dirs := []string{filepath.Dir(file)}
	if wd, err := os.Getwd(); err == nil {
		dirs = append(dirs, wd)
	}
	for _, dir := range dirs {
		for ; filepath.IsAbs(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			path := filepath.Join(dir, "e2e", "kafka", "kafka.sh")
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	tb.Fatal("e2e/kafka/kafka.sh is not to be found")
	return ""
}

// missing returns why brokers cannot be had, nil if they can.
func missing(script string) error {
	out, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("java -version: %w", err)
	}
	if m := regexp.MustCompile(`version "(\d+)`).FindSubmatch(out); m != nil {
		if n, _ := strconv.Atoi(string(m[1])); n < 17 {
			return fmt.Errorf("java is of version %s; 17 is needed", m[1])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "bash", script, "jars").CombinedOutput(); err != nil {
		return fmt.Errorf("getting the broker: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// launch starts broker i, which the caller knows to be down.
func (c *Cluster) launch(i int) {
	c.tb.Helper()
	b := c.brokers[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = &tail.Buffer{}
	b.cmd = exec.Command("bash", c.script, "run", c.dir, strconv.Itoa(b.id))
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		c.tb.Fatalf("starting broker %d: %v", b.id, err)
	}
	// A test that is ended by force must leave no broker behind: its end closes the pipe.
	b.watcher = exec.Command("bash", "-c", `read -r _; kill -9 "$0"`, strconv.Itoa(b.cmd.Process.Pid))
	release, err := b.watcher.StdinPipe()
	if err == nil {
		err = b.watcher.Start()
	}
	if err != nil {
		_ = b.cmd.Process.Kill()
		c.tb.Fatalf("starting what watches broker %d: %v", b.id, err)
	}
	b.release = release
	b.exited = make(chan struct{})
	go func(cmd, watcher *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		_ = watcher.Process.Kill()
		_ = watcher.Wait()
		close(exited)
	}(b.cmd, b.watcher, b.exited)
}

// await waits until broker i serves.
func (c *Cluster) await(i int) {
	c.tb.Helper()
	b := c.brokers[i]
	deadline := time.Now().Add(startTimeout)
	for !strings.Contains(b.log.String(), "Kafka Server started") {
		select {
		case <-b.exited:
			c.tb.Fatalf("broker %d has ended:\n%s", b.id, b.log.Last(4000))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			c.tb.Fatalf("broker %d does not start:\n%s", b.id, b.log.Last(4000))
		}
	}
}

func (b *broker) kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Kill()
	<-b.exited
	_ = b.release.Close()
	b.cmd = nil
}

// Kill ends broker i (from 0) as kill -9 does, and returns when it has ended.
func (c *Cluster) Kill(i int) { c.brokers[i].kill() }

// Restart starts broker i again after Kill, and waits until it serves.
func (c *Cluster) Restart(i int) {
	c.tb.Helper()
	c.launch(i)
	c.await(i)
}

// Pause stops broker i without ending it, so that its connections stay open and silent; Resume lets it continue.
func (c *Cluster) Pause(i int) { c.signal(i, syscall.SIGSTOP) }

// Resume is for after Pause.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, sig syscall.Signal) {
	c.tb.Helper()
	b := c.brokers[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		c.tb.Fatalf("broker %d is down", b.id)
	}
	if err := b.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.tb.Fatalf("signalling broker %d: %v", b.id, err)
	}
}

// Addresses are those of the listeners without TLS and SASL.
func (c *Cluster) Addresses() []string { return c.addresses(func(b *broker) int { return b.plain }) }

// SASLAddresses are those of the listeners with SASL over plain text.
func (c *Cluster) SASLAddresses() []string { return c.addresses(func(b *broker) int { return b.sasl }) }

// TLSAddresses are those of the listeners with TLS.
func (c *Cluster) TLSAddresses() []string { return c.addresses(func(b *broker) int { return b.ssl }) }

func (c *Cluster) addresses(port func(*broker) int) []string {
	out := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		out[i] = fmt.Sprintf("127.0.0.1:%d", port(b))
	}
	return out
}

// Jars is the folder of the broker's jars, for tests that compare with Kafka's own code.
func (c *Cluster) Jars() (string, error) {
	out, err := exec.Command("bash", c.script, "jars").Output()
	return strings.TrimSpace(string(out)), err
}
