package main

import (
	"bytes"
	"compress/gzip"
	"database/sql" //nolint:depguard // only SQL makes a store of a later version
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/docs"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// TestTroubleshooting makes each message of the section "A command fails" of docs/troubleshooting.md.
func TestTroubleshooting(t *testing.T) {
	b, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	log, journal := filepath.Join(abs(t, capture), "audit.log.gz"), filepath.Join(abs(t, capture), "journal.jsonl.gz")
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	file := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"empty", "used", "newer"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file("other.txt", "Dear diary\n")
	file("empty.log", "")
	file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
	file("backward.log", backward(t, whole))
	file("torn.log.gz", string(whole[:len(whole)/2]))
	file("cm.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
	file("open.yaml", "sources:\n  webhook: {listen: \":9443\"}\n")
	file("typo.yaml", "sources:\n  file: []\n")
	file("0.wal", string(append(binary.LittleEndian.AppendUint64(nil, 0x8400000000000004), 0x08, 0x04, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
	used, err := store.OpenSQLite(t.Context(), "used/nodetrail.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = used.Close() })
	if err := used.Commit(t.Context(), &tally.Commit{Instance: "one", Facts: []byte(`{"at":"2026-11-21T06:00:00Z","cluster":"prod"}`)}); err != nil {
		t.Fatal(err)
	}
	newer, err := store.OpenSQLite(t.Context(), "newer/nodetrail.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "newer/nodetrail.db")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE meta SET value = 999 WHERE name = 'schema'"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, args := range [][]string{
		{"analyze", "other.txt"},
		{"analyze", "empty.log"},
		{"analyze", "none*.log"},
		{"analyze", "empty"},
		{"analyze", "policy.yaml"},
		{"analyze", "backward.log"},
		{"analyze", "torn.log.gz"},
		{"analyze", "--state", log, log},
		{"analyze", "--state", "cm.json", log},
		{"analyze", "--state", "0.wal", log},
		{"record"},
		{"reach", "--state", journal, "--node", "nobody", log},
		{"analyze", "--since", "yesterday", log},
		{"report"},
		{"report", "--data", "used", "--cluster", "Prod"},
		{"config", "check", "--config", "open.yaml"},
		{"config", "check", "--config", "typo.yaml"},
		{"run", "--data", "used", log},
		{"run", "--data", "newer", log},
	} {
		code, _, errs := invoke(t, "", args...)
		if code != 1 {
			t.Errorf("%q: exit status %d", args, code)
		}
		said = append(said, errs)
	}
	page, found := docs.Read("docs/troubleshooting.md", b), 0
	hit := make([]bool, len(said))
	for _, message := range page.Messages {
		if message.Section != "A command fails" {
			continue
		}
		found++
		pattern := regexp.MustCompile("(?m)^nodetrail: " + strings.ReplaceAll(regexp.QuoteMeta(message.Text), "…", ".+") + "$")
		made := false
		for i, errs := range said {
			if pattern.MatchString(errs) {
				made, hit[i] = true, true
			}
		}
		if !made {
			t.Errorf("nothing makes the message %q", message.Text)
		}
	}
	for i, errs := range said {
		if !hit[i] {
			t.Errorf("the page does not have the message %q", errs)
		}
	}
	if found < 10 {
		t.Errorf("the page has %d messages", found)
	}
}

// backward is a compressed log with its last line first.
func backward(t *testing.T, compressed []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(b)))
	slices.Reverse(lines)
	return strings.Join(lines, "")
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
