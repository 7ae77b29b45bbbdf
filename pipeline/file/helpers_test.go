package file

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

var day = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

// event is a line without its end: the request id of a node, so many milliseconds after the day began.
func event(id string, ms int) string { return sized(id, ms, 0) }

// sized is an event of that many bytes, or as short as it can be.
func sized(id string, ms, bytes int) string {
	at := day.Add(time.Duration(ms) * time.Millisecond).Format("2006-01-02T15:04:05.000000Z")
	text := func(path string) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":"ResponseComplete","requestURI":"/%s",`+
			`"verb":"get","user":{"username":"system:node:a","groups":["system:nodes"]},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`, id, path, at, at)
	}
	return text(strings.Repeat("x", max(0, bytes-len(text("")))))
}

// events are n of them, a millisecond apart, on lines.
func events(prefix string, n, from, step, size int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(sized(fmt.Sprintf("%s%06d", prefix, i), from+i*step, size))
		b.WriteByte('\n')
	}
	return b.String()
}

func gz(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zst(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

// files writes files, given as name and content in turn, into a folder.
func files(t testing.TB, all ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(all); i += 2 {
		name := filepath.Join(dir, all[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(all[i+1]), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// got is what a reading gave.
type got struct {
	ids     []string
	batches int
	answers int // events that were too long for their responses alone
	calls   int // of Options.Look
	looked  int // events that have looks
	res     *Result
}

// readAll reads arguments of analyze to the end. It keeps some batches for a while, gives them back from another goroutine and looks
// at each event only then: memory that is used again too early shows.
func readAll(t testing.TB, opt Options, args ...string) got {
	t.Helper()
	inputs, err := Expand(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return readInputs(t, opt, inputs)
}

func readInputs(t testing.TB, opt Options, inputs []Input) got {
	t.Helper()
	var g got
	var calls atomic.Int64
	opt.Look = func(looks []source.Look, events []audit.Event) []source.Look {
		if n := calls.Add(1); n < 3 || n%7 == 0 {
			return looks // it is too early
		}
		for i := range events {
			looks = append(looks, source.Look{Body: strings.Clone(events[i].AuditID)})
		}
		return looks
	}
	held := make(chan Batch, 5)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range held {
			if b.Looks != nil && len(b.Looks) != len(b.Events) {
				t.Errorf("a batch of %d events has %d looks", len(b.Events), len(b.Looks))
			}
			for i := range b.Events {
				g.ids = append(g.ids, strings.Clone(b.Events[i].AuditID))
				if b.Events[i].ResponseBytes > 0 {
					g.answers++
				}
				if b.Looks != nil && b.Looks[i].Body != b.Events[i].AuditID {
					t.Errorf("event %s has the look at %v", b.Events[i].AuditID, b.Looks[i].Body)
				}
			}
			g.looked += len(b.Looks)
			b.Release()
		}
	}()
	res, err := Read(t.Context(), inputs, opt, func(b Batch) error {
		g.batches++
		held <- b
		return nil
	})
	close(held)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	g.res, g.calls = res, int(calls.Load())
	return g
}

// idsOf are the ids of lines, decoded all at once.
func idsOf(text string) []string {
	var ids []string
	d := audit.Decoder{}
	d.Chunk([]byte(text), 1, func(ev *audit.Event) { ids = append(ids, strings.Clone(ev.AuditID)) }, func(audit.Malformed) {})
	return ids
}

// settled waits until no more goroutines run than before.
func settled(t testing.TB, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("goroutines: %d, before %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}
