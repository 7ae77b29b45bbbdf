package source

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// written is a line of the file as a reader of it sees it.
type written struct {
	Time                          time.Time
	Source, Cause, Encoding, Data string
	Size                          int64
}

func letters(t testing.TB, path string) []written {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []written
	for line := range bytes.Lines(text) {
		var w written
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&w); err != nil || line[len(line)-1] != '\n' {
			t.Fatalf("%q: %v", line, err)
		}
		if w.Encoding == "base64" {
			data, err := base64.StdEncoding.DecodeString(w.Data)
			if err != nil {
				t.Fatal(err)
			}
			w.Data = string(data)
		}
		all = append(all, w)
	}
	return all
}

func open(t testing.TB, path string, bound int64) *DeadLetter {
	t.Helper()
	l, err := OpenDeadLetter(path, bound)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func put(t testing.TB, l *DeadLetter, all ...Letter) {
	t.Helper()
	if err := l.Put(all...); err != nil {
		t.Fatal(err)
	}
}

func sized(c string, n int) Letter { return Letter{Time: noon, Data: []byte(strings.Repeat(c, n))} }

func TestDeadLetter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	l := open(t, path, 1<<20)
	put(t, l)
	put(t, l,
		Letter{Time: noon, Source: "webhook:audit", Cause: `not "JSON"`, Data: []byte("a\"\\\x00\x1f\n\r\té\u2028</script>\x7f")},
		Letter{Time: noon.In(time.FixedZone("x", 3600)), Source: "kafka:audit/3@7", Cause: "bytes", Data: []byte("\xff\xfe\x00")},
		Letter{Time: noon, Data: []byte("beginning"), Size: 1000})
	put(t, l, Letter{Time: noon})
	want := []written{
		{noon, "webhook:audit", `not "JSON"`, "text", "a\"\\\x00\x1f\n\r\té\u2028</script>\x7f", 0},
		{noon, "kafka:audit/3@7", "bytes", "base64", "\xff\xfe\x00", 0},
		{noon, "", "", "text", "beginning", 1000},
		{noon, "", "", "text", "", 0},
	}
	if d := cmp.Diff(want, letters(t, path)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(DeadLetterStats{Written: 4}, l.Stats()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: it may hold secrets", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Put(Letter{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Both files together never hold more than twice the bound, and a letter that is too long is cut.
func TestDeadLetterBound(t *testing.T) {
	const bound = 64 << 10
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	l := open(t, path, bound)
	sizes := func() (now, before int64) {
		t.Helper()
		for _, at := range []struct {
			path string
			size *int64
		}{{path, &now}, {path + ".1", &before}} {
			if info, err := os.Stat(at.path); err == nil {
				*at.size = info.Size()
			}
			if *at.size > bound {
				t.Fatalf("%s has %d bytes", at.path, *at.size)
			}
		}
		return now, before
	}
	for _, c := range []string{"x", "\x00", "\xff", "é", "\""} {
		put(t, l, sized(c, bound))
		sizes()
		last := letters(t, path)
		got := last[len(last)-1]
		if got.Size != int64(bound*len(c)) || got.Data != strings.Repeat(c, len(got.Data)/len(c)) || len(got.Data) < bound/8 {
			t.Errorf("%q: %d bytes of %d", c, len(got.Data), got.Size)
		}
	}
	put(t, l, Letter{Source: strings.Repeat("\x00", bound), Cause: strings.Repeat("é", bound)}, sized("\x00", bound))
	sizes()
	if d := cmp.Diff(DeadLetterStats{Written: 7, Cut: 6, Dropped: 4}, l.Stats()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for i := range 1000 {
		put(t, l, Letter{Cause: fmt.Sprint(i), Data: make([]byte, i%500)})
	}
	sizes()
	kept := append(letters(t, path+".1"), letters(t, path)...)
	for i, w := range kept {
		if w.Cause != fmt.Sprint(1000-len(kept)+i) {
			t.Fatalf("letter %d of %d has cause %.20s", i, len(kept), w.Cause)
		}
	}
	st := l.Stats()
	if st.Written != 1007 || st.Dropped != st.Written-int64(len(kept)) || st.Failed != 0 {
		t.Errorf("%+v with %d kept", st, len(kept))
	}
	// Several at once are spread over files, too.
	put(t, l, sized("a", bound/2), sized("b", bound/2), sized("c", bound/2))
	sizes()
	if got := letters(t, path); len(got) != 1 || got[0].Data[0] != 'c' {
		t.Errorf("%d letters", len(got))
	}
	if _, err := OpenDeadLetter(path, 100); err == nil {
		t.Error("opened with no room for a letter")
	}
}

// What a crash tore is cut off, what was there before stays, and what somebody took away is begun anew.
func TestDeadLetterAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	first := open(t, path, 1<<20)
	put(t, first, sized("a", 10))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, 1<<20)
	put(t, l, sized("b", 10))
	if got := letters(t, path); len(got) != 2 || got[0].Data[0] != 'a' || got[1].Data[0] != 'b' {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, l, sized("c", 10))
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	put(t, l, sized("d", 10))
	if got, old := letters(t, path), letters(t, path+".old"); len(got) != 1 || got[0].Data[0] != 'd' || len(old) != 1 || old[0].Data[0] != 'c' {
		t.Errorf("%+v, %+v", got, old)
	}
}

func TestDeadLetterFull(t *testing.T) {
	l := open(t, "/dev/full", 1<<20)
	if err := l.Put(sized("a", 10), sized("b", 10)); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("%v", err)
	}
	if err := l.Put(sized("a", 10), sized("b", 10)); err == nil {
		t.Error("written to a full device")
	}
	if d := cmp.Diff(DeadLetterStats{Failed: 4}, l.Stats()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := OpenDeadLetter(filepath.Join(t.TempDir(), "none", "dead.jsonl"), 1<<20); err == nil {
		t.Error("opened in a folder that is not there")
	}
}

// A write that fails half-way leaves nothing behind, and the next one goes well.
func TestDeadLetterTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	l := open(t, path, 1<<20)
	put(t, l, sized("a", 10))
	whole := l.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.file = readOnly
	if err := l.Put(sized("b", 10)); err == nil {
		t.Error("a file that cannot be written was written")
	}
	if _, err := whole.WriteString(`{"time":`); err != nil {
		t.Fatal(err)
	}
	l.file = whole
	if err := readOnly.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, l, sized("c", 10))
	if got := letters(t, path); len(got) != 2 || got[1].Data[0] != 'c' {
		t.Errorf("%+v", got)
	}
}

func TestDeadLetterConcurrent(t *testing.T) {
	const bound, writers, each = 32 << 10, 8, 50
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	l := open(t, path, bound)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				if err := l.Put(sized(fmt.Sprint(i), 300), Letter{Time: noon}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	kept := int64(len(letters(t, path)) + len(letters(t, path+".1")))
	if st := l.Stats(); st.Written != 2*writers*each || st.Written-st.Dropped != kept {
		t.Errorf("%+v with %d kept", st, kept)
	}
	again := open(t, path, bound)
	if again.lines+again.old != kept {
		t.Errorf("%d letters and %d older ones, want %d", again.lines, again.old, kept)
	}
}

// FuzzDeadLetter writes any letter and reads it back.
func FuzzDeadLetter(f *testing.F) {
	f.Add("webhook:audit", "cause", []byte("{\"a\x00\xe2\x80\xa8"))
	f.Add("\xff", "\"", []byte("\xff"))
	f.Add("", "", bytes.Repeat([]byte("é"), 9000))
	path := filepath.Join(f.TempDir(), "dead.jsonl")
	l := open(f, path, minLetterBytes)
	f.Fuzz(func(t *testing.T, from, cause string, data []byte) {
		put(t, l, Letter{Time: noon, Source: from, Cause: cause, Data: data})
		all := letters(t, path)
		got := all[len(all)-1]
		if !bytes.HasPrefix(data, []byte(got.Data)) || got.Size == 0 && len(got.Data) != len(data) || got.Size != 0 && got.Size != int64(len(data)) {
			t.Errorf("%q was kept as %+v", data, got)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > minLetterBytes {
			t.Errorf("%v, %v", info, err)
		}
	})
}
