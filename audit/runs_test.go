package audit

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/nodetrail/nodetrail/internal/jscan"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// A reading is all that a reader says of one event.
type reading struct {
	Event       Event
	Envelope    envelope
	Twice       bool
	Whole, Last int
	Pos         int
	Fault       jscan.Error
	// Rest is what another value behind it is.
	Rest jscan.Kind
}

func readWith(r *reader, line []byte) reading {
	var got reading
	r.s.Reset(line)
	got.Envelope = r.event(&got.Event)
	for _, list := range []*[]string{&got.Event.User.Groups, &got.Event.Impersonated.Groups, &got.Event.SourceIPs} {
		if len(*list) == 0 { // nil depends on what a reader read before
			*list = nil
		}
	}
	got.Twice, got.Whole, got.Last = r.twice, r.whole, r.last
	if f := r.s.Fault(); f != nil {
		if got.Fault = *f; r.twice { // then nobody asks what the event was
			got.Event = Event{}
		}
		return got
	}
	got.Pos = r.s.Pos()
	got.Rest = r.s.Peek()
	r.s.End() // wants the scanner to be outside of everything
	if f := r.s.Fault(); f != nil {
		got.Fault = *f
	}
	return got
}

// same holds that a reader which remembers says of a line what one says that does not, the first time and the following ones.
func same(t *testing.T, r *reader, line []byte) {
	t.Helper()
	line = bytes.Clone(line)
	want := readWith(new(reader), line)
	for i := range 3 {
		if got := readWith(r, line); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q, time %d:\n got %+v\nwant %+v", line, i, got, want)
		}
	}
}

// spliced are lines made of a beginning of a and an end of b, cut at commas, colons and brackets and anywhere.
func spliced(r *rand.Rand, a, b []byte) [][]byte {
	cut := func(line []byte) int {
		i := r.IntN(len(line) + 1)
		if r.IntN(4) > 0 {
			if n := bytes.IndexAny(line[i:], `,:{}[]"`); n >= 0 {
				i += n
			}
		}
		return i
	}
	i, j := cut(a), cut(b)
	return [][]byte{append(bytes.Clone(a[:i]), b[j:]...), append(bytes.Clone(a[:i]), b[min(i, len(b)):]...), a[:i]}
}

// TestRuns holds that what a reader remembers changes nothing: on real events, on ones put together at random with keys in any order, twice, with
// escapes and white space, on parts of one glued to parts of another, and on ones that were cut off.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	lines := nastyCorpus(t)
	for id := range effort.Of(3_000, 300) {
		lines = append(lines, generated(r, id%7))
	}
	var reader reader
	for _, line := range lines {
		same(t, &reader, line)
	}
	for range effort.Of(30_000, 3_000) {
		a, b := lines[r.IntN(len(lines))], lines[r.IntN(len(lines))]
		for _, line := range spliced(r, a, b) {
			same(t, &reader, line)
		}
	}
}

// TestRunsAreFound holds that most of a real log is not read anew.
func TestRunsAreFound(t *testing.T) {
	var r reader
	var bytes, found int
	for round := range 3 {
		for _, line := range captureLines(t) {
			readWith(&r, line)
			var ev Event
			var env envelope
			r.s.Reset(line)
			r.s.Object()
			var key string
			seen := 0
			r.runs.open(placeStart, 0)
			for r.key(&key, &ev, &env, &seen) {
				if r.runs.place == noPlace && round == 2 {
					found += r.s.Pos() - r.runs.from
				}
				if _, common := r.common(key, &ev, &env); !common {
					r.own(key, &ev, &env)
				}
			}
			bytes += len(line) - len(ev.RequestObject) - len(ev.ResponseObject)
		}
	}
	if bytes /= 3; found*10 < 4*bytes {
		t.Errorf("%d of %d bytes", found, bytes)
	}
}

// TestRunsOwnTheirMemory overwrites each line after it was read, as sources do.
func TestRunsOwnTheirMemory(t *testing.T) {
	var r reader
	var events []Event
	var want []Event
	for range 4 {
		for _, line := range captureLines(t) {
			line = bytes.Clone(line)
			got := readWith(&r, line)
			kept := got.Event
			own := *kept.Clone()
			// What is the event's own goes with the line.
			for _, ev := range []*Event{&kept, &own} {
				ev.AuditID, ev.RequestURI, ev.Verb, ev.ObjectRef, ev.RequestObject, ev.ResponseObject = "", "", "", ObjectRef{}, nil, nil
			}
			if r.runs.place == noPlace { // the last run was found
				kept.User, own.User = User{}, User{}
				kept.UserAgent, own.UserAgent, kept.SourceIPs, own.SourceIPs = "", "", nil, nil
				kept.StatusReason, own.StatusReason, kept.StatusMessage, own.StatusMessage = "", "", "", ""
				events, want = append(events, kept), append(want, own)
			}
			for i := range line {
				line[i] = 'x'
			}
		}
	}
	for i := range events {
		if !reflect.DeepEqual(&events[i], &want[i]) {
			t.Fatalf("%+v\nwant %+v", events[i], want[i])
		}
	}
	if len(events) == 0 {
		t.Error("nothing was found")
	}
}

func FuzzRuns(f *testing.F) {
	lines := nastyCorpus(f)
	for i := 0; i+1 < len(lines); i += 5 {
		f.Add(lines[i], lines[i+1], uint64(i))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var reader reader
		reader.runs.read = worthwhile
		same(t, &reader, a)
		same(t, &reader, b)
		for range 16 {
			for _, line := range spliced(r, a, b) {
				same(t, &reader, line)
			}
		}
	})
}
