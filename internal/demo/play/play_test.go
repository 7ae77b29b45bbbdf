package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

// clock moves only when somebody sleeps.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Sleep(ctx context.Context, t time.Time) error {
	if t.After(c.now) {
		c.now = t
	}
	return ctx.Err()
}

// kept is a sink that notes when it was sent what.
type kept struct {
	clock *clock
	begin time.Time
	sent  []string
	lines []string
}

func (k *kept) Send(_ context.Context, events []Event) error {
	var ids []string
	for _, e := range events {
		var ev struct{ AuditID string }
		if err := json.Unmarshal(e.JSON, &ev); err != nil {
			return err
		}
		ids = append(ids, e.Key+"/"+ev.AuditID)
		k.lines = append(k.lines, string(e.JSON))
	}
	what := strings.Join(ids, " ")
	if len(ids) > 5 {
		what = fmt.Sprintf("%d events", len(ids))
	}
	k.sent = append(k.sent, fmt.Sprintf("%s: %s", k.clock.now.Sub(k.begin), what))
	return nil
}

func event(id, t string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%q,"stage":"ResponseComplete","requestURI":"/api",`+
		`"verb":"get","user":{"username":"system:node:n1","groups":["system:nodes"]},"requestReceivedTimestamp":%[2]q,"stageTimestamp":%[2]q}`, id, t)
}

func text(s string) Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func packed(t *testing.T, s string) Opener {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, s)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return text(b.String())
}

func play(t *testing.T, o Options) (*kept, Result) {
	t.Helper()
	c := &clock{now: at("2027-01-01T00:00:00Z")}
	o.Clock = c
	if o.Start.IsZero() {
		o.Start = c.now.Add(2 * time.Second)
	}
	k := &kept{clock: c, begin: c.now}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Play(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return k, res
}

func TestPlay(t *testing.T) {
	log := strings.Join([]string{
		event("a", "2026-01-01T00:00:00.500000Z"),
		event("b", "2026-01-01T00:00:01.200000Z"),
		event("c", "2026-01-01T00:00:01.100000Z"), // logged a little late
		`not an event`,
		event("d", "2026-01-01T00:00:01.600000Z"),
		event("e", "2026-01-01T00:01:00.500000Z"),
	}, "\n")
	t.Run("at its own pace", func(t *testing.T) {
		k, res := play(t, Options{Log: packed(t, log)})
		// The first is in the second that begins at the start: at 2.5 s. What comes within a second goes with it.
		want := []string{"3.5s: n1/a n1/b n1/c", "4.6s: n1/d", "1m2.5s: n1/e"}
		if diff := cmp.Diff(want, k.sent); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(Result{Events: 5, Malformed: 1}, res); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !strings.Contains(k.lines[3], `"stageTimestamp":"2027-01-01T00:00:03.600000Z"`) {
			t.Errorf("the time of d: %s", k.lines[3])
		}
	})
	t.Run("faster", func(t *testing.T) {
		k, _ := play(t, Options{Log: text(log), Speed: 10})
		want := []string{"3.5s: n1/a n1/b n1/c n1/d", "8.5s: n1/e"}
		if diff := cmp.Diff(want, k.sent); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("what is late goes at once", func(t *testing.T) {
		k, _ := play(t, Options{Log: text(log), Start: at("2026-12-31T23:59:30Z")})
		want := []string{"0s: n1/a n1/b n1/c", "0s: n1/d", "30.5s: n1/e"}
		if diff := cmp.Diff(want, k.sent); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		k, _ := play(t, Options{Log: text(strings.Repeat(event("a", "2026-01-01T00:00:00Z")+"\n", MaxBatch+10))})
		want := []string{"2s: 400 events", "2s: 10 events"}
		if diff := cmp.Diff(want, k.sent); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("rounds", func(t *testing.T) {
		k, res := play(t, Options{Log: text(log), Rounds: 2})
		if len(k.sent) != 6 || res.Events != 10 || k.lines[0] == k.lines[5] || strings.Contains(k.lines[5], `"auditID":"a"`) {
			t.Errorf("sent %q, %+v", k.sent, res)
		}
		// A minute's log, the gap, and up to whole seconds.
		if !strings.Contains(k.lines[5], `"stageTimestamp":"2027-01-01T00:01:13.500000Z"`) {
			t.Errorf("the second round begins with %s", k.lines[5])
		}
	})
}

func TestJournalOfRounds(t *testing.T) {
	pod := func(typ, name, uid, observed string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":%q}},"observedAt":%q}`, typ, name, uid, observed)
	}
	journal := strings.Join([]string{
		pod("ADDED", "old", "u1", "2025-12-31T23:00:00.000000001Z"), // long before the log
		pod("ADDED", "web", "u2", "2026-01-01T00:00:10.000000002Z"),
		pod("DELETED", "old", "u1", "2026-01-01T00:00:11.000000003Z"),
		pod("DELETED", "web", "u2", "2026-01-01T00:00:12.000000004Z"),
		pod("ADDED", "web", "u3", "2026-01-01T00:00:13.000000005Z"),
	}, "\n")
	o := Options{
		Log: text(event("a", "2026-01-01T00:00:00Z")), State: &Journal{Open: text(journal), Name: "j"},
		Start: at("2027-01-01T00:00:00Z"), Rounds: 2,
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.WriteJournal(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		var e struct {
			ObservedAt, Type string
			Object           struct{ Metadata struct{ Name, UID string } }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		uid := e.Object.Metadata.UID
		if len(uid) > 2 {
			uid = "new"
		}
		got = append(got, strings.Join([]string{e.ObservedAt, e.Type, e.Object.Metadata.Name, uid}, " "))
	}
	// The round takes 13 s by its journal, then the gap of 10 s; a second more than that in whole ones. 3 s before the next all is deleted.
	want := []string{
		"2026-12-31T23:00:00.000000001Z ADDED old u1",
		"2027-01-01T00:00:10.000000002Z ADDED web u2",
		"2027-01-01T00:00:11.000000003Z DELETED old u1",
		"2027-01-01T00:00:12.000000004Z DELETED web u2",
		"2027-01-01T00:00:13.000000005Z ADDED web u3",
		"2027-01-01T00:00:21.000000000Z DELETED web u3",
		"2027-01-01T00:00:22.500000000Z ADDED old new",
		"2027-01-01T00:00:34.000000002Z ADDED web new",
		"2027-01-01T00:00:35.000000003Z DELETED old new",
		"2027-01-01T00:00:36.000000004Z DELETED web new",
		"2027-01-01T00:00:37.000000005Z ADDED web new",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	f := func(o Options, want string) {
		t.Helper()
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	good := text(event("a", "2026-01-01T00:00:00Z"))
	f(Options{Log: text("")}, "no audit event with a time")
	f(Options{Log: text("\x1f\x8bxxxx")}, "damaged")
	f(Options{Log: func() (io.ReadCloser, error) { return nil, errors.New("gone") }}, "gone")
	f(Options{Log: good, Speed: -1}, "speed")
	f(Options{Log: good, Rounds: -1}, "rounds")
	f(Options{Log: good, Gap: time.Second}, "gap")
	f(Options{Log: good, Rounds: 2, State: &Journal{Open: text(`{"type":"ADDED","object":{}}`), Name: "j"}}, "without observedAt")
	f(Options{Log: good, Rounds: 2, State: &Journal{Open: text(`{"kind":"List"}`), Name: "j"}}, "the journal j, its value 1: not a watch event")
	f(Options{Log: good, Rounds: 2, State: &Journal{Open: text(`{"type":`), Name: "j"}}, "reading the journal j, its value 1")
}

// FuzzPlay: whatever the log and the journal hold, what comes out is JSON, a value a line.
func FuzzPlay(f *testing.F) {
	f.Add([]byte(event("a", "2026-01-01T00:00:00Z")+"\nx\n"), []byte(`{"type":"ADDED","object":{"kind":"Pod"},"observedAt":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[`+event("a", "2026-01-01T00:00:00Z")+`]}`), []byte("{\"type\":\"DELETED\",\n\"object\":null}"))
	f.Fuzz(func(t *testing.T, log, journal []byte) {
		open := func(b []byte) Opener {
			return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
		}
		p, err := New(Options{
			Log: open(log), State: &Journal{Open: open(journal), Name: "j"}, MaxEventBytes: 4096, Rounds: 2, Start: at("2027-01-01T00:00:00Z"),
		})
		if err != nil {
			return
		}
		var out, moved bytes.Buffer
		if _, err := p.Play(t.Context(), Lines{W: &out}); err != nil {
			t.Fatal(err)
		}
		if err := p.WriteJournal(&moved); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String() + moved.String()) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("not JSON: %q", line)
			}
		}
	})
}
