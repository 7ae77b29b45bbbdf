package app

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recorded records an empty cluster into a file until something is written after what is there, and returns what it logged.
func recorded(t *testing.T, kubeconfig, path string) (log string, err error) {
	t.Helper()
	before := int64(0)
	if was, err := os.Stat(path); err == nil {
		before = was.Size()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- Record(ctx, RecordOptions{Kubeconfig: kubeconfig, Output: path, Log: LogTo{W: &out}})
	}()
	for {
		select {
		case err := <-done:
			return out.String(), err
		case <-time.After(20 * time.Millisecond):
			if now, err := os.Stat(path); err == nil && now.Size() > before {
				cancel()
			}
		}
	}
}

// TestRecordIntoFile holds that what a crash has left of a last line is cut off, and that files of others, and those that somebody else writes, are left alone.
func TestRecordIntoFile(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprint(w, `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	defer s.Close()
	dir := t.TempDir()
	kubeconfig, path := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "journal.jsonl")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}],`+
		`"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recorded(t, kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(whole, []byte("}\n")) {
		t.Fatalf("%s %v", whole, err)
	}
	const torn = `{"observedAt":"2026-11-21T06`
	if err := os.WriteFile(path, append(bytes.Clone(whole), torn...), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := recorded(t, kubeconfig, path)
	if err != nil || !strings.Contains(log, "in the middle of an entry") {
		t.Errorf("%v: %s", err, log)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(after, whole) || bytes.Contains(after, []byte(torn)) {
		t.Errorf("%v\n%s", err, after)
	}

	held, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if isTaken(held) {
		t.Fatal("somebody has it")
	}
	if _, err := recorded(t, kubeconfig, path); err == nil || !strings.Contains(err.Error(), "journal.jsonl: another process writes it") {
		t.Error(err)
	}
	hosts := filepath.Join(dir, "hosts")
	for _, text := range []string{"127.0.0.1 localhost\n", "127.0.0.1 localhost"} {
		if err := os.WriteFile(hosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := recorded(t, kubeconfig, hosts); err == nil || !strings.Contains(err.Error(), "hosts:1: no entry of a journal") {
			t.Error(err)
		}
		if b, err := os.ReadFile(hosts); err != nil || string(b) != text {
			t.Errorf("%q %v", b, err)
		}
	}
}
