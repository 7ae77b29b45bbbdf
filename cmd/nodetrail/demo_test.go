package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/tail"
	"github.com/nodetrail/nodetrail/store"
)

// heard is what a program has written so far.
type heard struct{ tail.Buffer }

// await waits until it has written what matches, and returns the first group.
func (h *heard) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m := re.FindStringSubmatch(h.String()); m != nil {
			return m[1]
		}
	}
	t.Fatalf("%q was not written:\n%s", pattern, h)
	return ""
}

// empty reports what is left in a folder.
func empty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// The demonstration counts the requests that would break, ends with a cluster of which nothing would, and leaves nothing behind. What it shows in
// between depends on how fast the machine is.
func TestDemo(t *testing.T) {
	t.Parallel() // it waits most of the time
	folder := t.TempDir()
	var out, errs heard
	cmd := exec.CommandContext(t.Context(), "nodetrail", "demo", "--speed", effort.Of("20", "100"))
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "TMPDIR="+folder), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &errs)
	}
	text, end, done := strings.Cut(out.String(), "\nAll is judged. ")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	// Nothing is in the way any more, and of its few seconds not all is proven.
	if last := lines[len(lines)-1]; !done || !strings.HasSuffix(last, "  not enough evidence") {
		t.Errorf("it ends with %q:\n%s", last, &out)
	}
	if !strings.HasPrefix(end, "145 requests of the whole run would break without the bindings.\n") || errs.String() != "" {
		t.Errorf("%s%s", &out, &errs)
	}
	empty(t, folder)
}

// An interrupt is how it ends, and nothing is left then either.
func TestDemoInterrupted(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, stop := context.WithCancel(t.Context())
	var out, errs heard
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"demo", "--speed", "0.001"}, strings.NewReader(""), &out, &errs)
	}()
	address := out.await(t, `(http://127\.0\.0\.1:\d+/)\n`)
	body(t, address, http.StatusOK)
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("status %d: %s%s", code, &out, &errs)
	}
	empty(t, folder)
}

func TestDemoUsage(t *testing.T) {
	for _, args := range [][]string{{"--listen", "x"}, {"--speed", "0"}, {"--speed", "-1"}, {"x"}} {
		var out, errs heard
		if code := run(t.Context(), append([]string{"demo"}, args...), nil, &out, &errs); code != 1 || !strings.Contains(errs.String(), "See 'nodetrail demo --help'.") {
			t.Errorf("%v: status %d: %s", args, code, &errs)
		}
	}
}

func body(t *testing.T, address string, want int) string {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatalf("%s: %d %v: %.300s", address, res.StatusCode, err, b)
	}
	return string(b)
}

// report --serve shows a store that nobody writes to, and an interrupt ends it in order.
func TestReportServe(t *testing.T) {
	data := t.TempDir()
	s, err := store.OpenSQLite(t.Context(), filepath.Join(data, "nodetrail.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := probes.Addr().String()
	if err := probes.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs heard
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"report", "--serve", "127.0.0.1:0", "--health", health, "--data", data, "--state", capture + "/journal.jsonl.gz"}, strings.NewReader(""), &out, &errs)
	}()
	address := out.await(t, `pages at (http://127\.0\.0\.1:\d+/)\n`)
	if page := body(t, address, http.StatusOK); !strings.Contains(page, "<html") {
		t.Errorf("%.300s", page)
	}
	if page := body(t, address+"api/v1/objects/secrets/shop/secret-0", http.StatusOK); !strings.Contains(page, `"rows":[{`) {
		t.Errorf("%.300s", page)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound, "/api/v1/overview": http.StatusNotFound} {
		_ = body(t, "http://"+health+path, want)
	}
	stop()
	if code := <-ended; code != 0 || errs.String() != "" {
		t.Errorf("status %d: %s", code, &errs)
	}
	for _, args := range [][]string{
		{"--serve", "0.0.0.0:0", "--data", data}, {"--serve", "nowhere"}, {"--serve", "127.0.0.1:0", "-o", "json"}, {"--serve", "127.0.0.1:0", "--window", "7d"},
		{"--serve", "127.0.0.1:0", "--fail-on", "low"}, {"--state", "x"}, {"--health", "127.0.0.1:0"}, {"--serve", "127.0.0.1:0", "--health", "nowhere"}, {"--serve", "127.0.0.1:0", "--data", t.TempDir()},
	} {
		var out, errs heard
		if code := run(t.Context(), append([]string{"report"}, args...), nil, &out, &errs); code != 1 || out.String() != "" {
			t.Errorf("%v: status %d: %s%s", args, code, &out, &errs)
		}
	}
}
