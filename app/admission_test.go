package app_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
)

const writesFolder = "../internal/demo/capture-writes/"

// admissions is what a replay of the capture of writes found.
type admissions struct {
	refusals, predicted, races, passed, unknown int
	byKind                                      map[string][2]int // decided, all
}

// replayWrites holds what analyze says of NodeRestriction against what the plugin of a real API server said.
func replayWrites(t *testing.T, logs string) (c admissions) {
	t.Helper()
	c.byKind = map[string][2]int{}
	_, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{KubernetesVersion: "1.36.3", Skew: 150 * time.Millisecond},
		Input:         app.Input{Logs: []string{logs}, State: []string{writesFolder + "journal.jsonl.gz"}},
		Each: func(j *pipeline.Judgement) error {
			c.take(t, j)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *admissions) take(t *testing.T, j *pipeline.Judgement) {
	t.Helper()
	w := &j.Admission
	refused := w.Observed == nodeadmission.ObservedDeny
	if !refused && w.Observed != nodeadmission.ObservedAllow {
		return
	}
	kind := j.Attrs.Verb + " " + j.Attrs.Resource
	if j.Attrs.Subresource != "" {
		kind += "/" + j.Attrs.Subresource
	}
	share := c.byKind[kind]
	if share[1]++; w.Verdict != nodeadmission.Unknown {
		share[0]++
	}
	c.byKind[kind] = share
	if refused {
		c.refusals++
	} else {
		c.passed++
	}
	said := func() string {
		return fmt.Sprintf("%s %s %s: %+v, but the API server said %d %q", j.Event.AuditID, kind, j.Attrs.Name, w.Answer, j.Event.Code, j.Event.StatusMessage)
	}
	same := w.Message == j.Event.StatusMessage || w.Prefix && strings.HasPrefix(j.Event.StatusMessage, w.Message)
	switch {
	case w.Race:
		c.races++
	case w.Verdict == nodeadmission.Unknown:
		c.unknown++
	case refused && (w.Verdict != nodeadmission.Deny || w.Code != j.Event.Code || !same):
		t.Error(said())
	case refused:
		c.predicted++
	case w.Verdict != nodeadmission.Allow || w.Bypassed():
		t.Error(said())
	}
}

// TestCaptureOfWrites predicts what the plugin of a real API server refused, message by message. The refusal that it cannot tell is over a
// CSIDriver, which the journal does not have.
func TestCaptureOfWrites(t *testing.T) {
	c := replayWrites(t, writesFolder+"audit.log.gz")
	t.Logf("%+v", c)
	if all := c.refusals + c.passed; c.refusals < 500 || c.passed < 500 || c.unknown*50 > all {
		t.Errorf("%d refusals, %d writes went through, %d of them are unknown", c.refusals, c.passed, c.unknown)
	}
}

// TestCaptureOfWritesFromMetadata does the same without bodies. What is decided is right, and how much it is stands in the docs.
func TestCaptureOfWritesFromMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, withoutBodies(t, unzipped(t, writesFolder+"audit.log.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := replayWrites(t, path)
	t.Logf("%+v", c)
	page, err := os.ReadFile("../docs/node-restriction.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(c.byKind)) {
		row := fmt.Sprintf("| %s | %d of %d |", kind, c.byKind[kind][0], c.byKind[kind][1])
		if !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/node-restriction.md lacks the row %s", row)
		}
	}
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// withoutBodies is the log as if its policy logged everything at level Metadata.
func withoutBodies(t *testing.T, log []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for line := range bytes.Lines(log) {
		var ev map[string]json.RawMessage
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		delete(ev, "requestObject")
		delete(ev, "responseObject")
		ev["level"] = json.RawMessage(`"Metadata"`)
		if err := json.NewEncoder(&out).Encode(ev); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
