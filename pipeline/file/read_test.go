package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// one reads a single file's text.
func one(t *testing.T, opt Options, text string) got {
	t.Helper()
	return readAll(t, opt, filepath.Join(files(t, "x.log", text), "x.log"))
}

// TestReadLong is about logs of many chunks: all events, in order, whatever is recycled meanwhile, and however they are packed.
func TestReadLong(t *testing.T) {
	text := events("a", 3000, 0, 1, 0) + events("b", 500, 3000, 1, 3000) + sized("c", 3500, 3<<19) + "\n" + events("d", 4500, 3501, 1, 0)
	if len(text) < 10*chunkBytes {
		t.Fatalf("%d bytes are too few to be of use", len(text))
	}
	want := idsOf(text)
	f := func(name, packed string, opt Options) {
		t.Helper()
		g := one(t, opt, packed)
		if diff := cmp.Diff(want, g.ids); diff != "" {
			t.Errorf("%s (-want +got):\n%.2000s", name, diff)
		}
		if r := g.res; r.Counts.Read != int64(len(want)) || r.Counts.Malformed != 0 || r.Bytes != int64(len(text)) || len(r.Errors) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
		if !g.res.First.Equal(day) || g.res.Last.Sub(day).Milliseconds() != 8000 {
			t.Errorf("%s: from %s to %s", name, g.res.First, g.res.Last)
		}
		if g.res.Begins.Before(g.res.First) || g.res.Begins.After(g.res.Last) {
			t.Errorf("%s: the log begins at %s", name, g.res.Begins)
		}
	}
	f("plain", text, Options{})
	f("one worker", text, Options{Workers: 1})
	f("many workers", text, Options{Workers: 9})
	f("gzip", gz(t, text), Options{})
	f("gzip of several members", gz(t, text[:1<<20])+gz(t, text[1<<20:]), Options{})
	f("zstd", zst(t, text), Options{})

	inputs, err := Expand([]string{"-"}, iotest.HalfReader(strings.NewReader(gz(t, text))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readInputs(t, Options{}, inputs).ids); diff != "" {
		t.Errorf("standard input: %.2000s", diff)
	}
}

// odd is an event that does not begin as kube-apiserver begins one: it is read, and not reduced.
func odd(event string) string { return strings.Replace(event, `"kind":"Event",`, "", 1) }

// TestReadLineLength is about lines at and beyond the bound, wherever in a chunk: what is longer is reduced, or has its place.
func TestReadLineLength(t *testing.T) {
	readLineLength(t, func(event string) string { return event }, true)
	readLineLength(t, odd, false)
}

func readLineLength(t *testing.T, form func(event string) string, reduced bool) {
	t.Helper()
	const bound = 5000
	for _, before := range effort.Of([]int{0, 1, chunkBytes / 1000, 2*chunkBytes/1000 - 3}, []int{1, chunkBytes / 1000}) {
		head := events("a", before, 0, 1, 1000)
		for _, x := range []struct {
			size int
			good bool
		}{{bound - 1, true}, {bound, true}, {bound + 1, false}, {chunkBytes, false}, {5*chunkBytes + 17, false}} {
			for _, tail := range []string{"", "\n", "\n" + events("z", 3, 9000, 1, 0), "\n" + form(sized("y", 9000, 2*chunkBytes)) + "\n" + events("z", 1, 9001, 1, 0)} {
				text := head + form(sized("long", 5000, x.size+len("\"kind\":\"Event\",")*bit(!reduced))) + tail
				g := one(t, Options{MaxEventBytes: bound}, text)
				var want []string
				var places []Place
				for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
					if len(line) <= bound || reduced {
						want = append(want, idsOf(line)...)
						continue
					}
					places = append(places, Place{Line: i + 1, Cause: fmt.Sprintf("event of %d bytes exceeds the bound of %d", len(line), bound)})
				}
				for i := range g.res.Malformed {
					g.res.Malformed[i].Path = ""
				}
				if (x.good || reduced) != strings.Contains(strings.Join(want, " "), "long") {
					t.Fatalf("the test is wrong about %d bytes", x.size)
				}
				if diff := cmp.Diff(want, g.ids); diff != "" {
					t.Fatalf("%d lines, then %d bytes, then %.20q (-want +got):\n%.1000s", before, x.size, tail, diff)
				}
				if diff := cmp.Diff(places, g.res.Malformed); diff != "" {
					t.Fatalf("%d lines, then %d bytes, then %.20q (-want +got):\n%s", before, x.size, tail, diff)
				}
			}
		}
	}
}

// answered is the event with a response whose body has so many bytes, or some more.
func answered(event string, bytes int) string {
	return strings.Replace(event, `"verb"`, `"responseObject":{"kind":"ServiceList","x":"`+strings.Repeat("s", bytes)+`"},"verb"`, 1)
}

// A line that is too long for its response alone says so.
func TestReadLongResponse(t *testing.T) {
	for _, size := range []int{6000, chunkBytes, 5 * chunkBytes} {
		text := events("a", 3, 0, 1, 0) + answered(sized("b", 3, 100), size) + "\n" + sized("c", 4, size) + "\n" + answered(sized("d", 5, 100), size)
		g := one(t, Options{MaxEventBytes: 5000}, text)
		if len(g.ids) != 6 || g.answers != 2 || len(g.res.Malformed) > 0 {
			t.Errorf("%d bytes: %q, of which %d are too long for their responses, %+v", size, g.ids, g.answers, g.res.Malformed)
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestReadDamaged is about files that end too early or hold other bytes: what is good counts, the rest has its place.
func TestReadDamaged(t *testing.T) {
	text := events("a", 4000, 0, 1, 0)
	noise := make([]byte, 1000)
	for i := range noise {
		noise[i] = byte(i * i)
	}
	f := func(name, text string, want []string, malformed int, place, problem string) {
		t.Helper()
		g := one(t, Options{}, text)
		if diff := cmp.Diff(want, g.ids); diff != "" {
			t.Errorf("%s (-want +got):\n%.1000s", name, diff)
		}
		if g.res.Counts.Malformed != int64(malformed) || int64(len(g.res.Malformed)) != min(20, g.res.Counts.Malformed) {
			t.Errorf("%s: %d malformed, want %d: %v", name, g.res.Counts.Malformed, malformed, g.res.Malformed)
		}
		if len(g.res.Malformed) > 0 {
			p := g.res.Malformed[0]
			if got := fmt.Sprintf("%s:%d", filepath.Base(p.Path), p.Line); got != place || p.Cause == "" {
				t.Errorf("%s: first place %s (%s), want %s", name, got, p.Cause, place)
			}
		}
		got := ""
		for _, err := range g.res.Errors {
			got += strings.ReplaceAll(err.Error(), filepath.Dir(strings.SplitN(err.Error(), ":", 2)[0])+"/", "")
		}
		if got != problem {
			t.Errorf("%s: error %q, want %q", name, got, problem)
		}
	}
	all := idsOf(text)
	f("empty", "", nil, 0, "", "")
	f("empty gzip", gz(t, ""), nil, 0, "", "")
	f("blank lines", "\n\r\n  \n"+text, all, 0, "", "")
	f("NUL runs at both ends and between", strings.Repeat("\x00", 700_000)+text+strings.Repeat("\x00", 700_000)+"\n"+event("b", 5000)+strings.Repeat("\x00", 9), append(idsOf(text), "b"), 2, "x.log:4001", "")
	f("NUL bytes alone", strings.Repeat("\x00", 3<<20), nil, 0, "", "")
	f("a NUL run that is longer than any event", text[:len(text)-20]+strings.Repeat("\x00", 9<<20)+event("b", 5000)+"\n"+event("c", 5001)+"\n", append(idsOf(text)[:3999:3999], "b", "c"), 1, "x.log:4000", "")
	f("torn last line", text[:len(text)-20], all[:3999], 1, "x.log:4000", "")
	f("torn first line", text[20:], all[1:], 1, "x.log:1", "")
	f("noise", strings.ReplaceAll(string(noise), "\x00", "x"), nil, strings.Count(string(noise), "\n")+1, "x.log:1", "")

	whole := gz(t, text)
	cut := whole[:len(whole)/2]
	could := decompressed(t, cut)
	good := idsOf(could)
	if len(good) < 100 {
		t.Fatalf("%d events are too few to be of use", len(good))
	}
	line := strings.Count(could, "\n") + 1
	f("cut gzip", cut, good, 1, fmt.Sprintf("x.log:%d", line), fmt.Sprintf("x.log:%d: reading stopped: the compressed data is cut off: unexpected EOF", line))
	f("gzip without its end", whole[:len(whole)-8], all, 0, "", "x.log:4001: reading stopped: the compressed data is cut off: unexpected EOF")
	f("gzip with a wrong sum", whole[:len(whole)-8]+"12345678", all, 0, "", "x.log:4001: reading stopped: the compressed data is damaged: gzip: invalid checksum")
	f("gzip and then something", whole+"something else, and more of it", all, 0, "", "x.log:4001: reading stopped: there is data after the end of the compressed log")
	f("gzip and then a little", whole+"\x00\x00 ", all, 0, "", "x.log:4001: reading stopped: there is data after the end of the compressed log")
	f("gzip and then zeros", whole+strings.Repeat("\x00", 100_000), all, 0, "", "")
	f("gzip and then an empty member", whole+gz(t, ""), all, 0, "", "")
	f("gzip and the beginning of a member", whole+whole[:1], all, 0, "", "x.log:4001: reading stopped: the compressed data is cut off: unexpected EOF")
	f("gzip and a member that is cut off in its name", whole+"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03audit", all, 0, "", "x.log:4001: reading stopped: the compressed data is cut off: unexpected EOF")
	f("the beginning of a gzip header", "\x1f\x8b\x08", nil, 0, "", "x.log: the compressed data is cut off: unexpected EOF")
	z := zst(t, text)
	g := one(t, Options{}, z[:len(z)/2])
	if len(g.res.Errors) != 1 || !strings.Contains(g.res.Errors[0].Error(), "the compressed data is cut off") {
		t.Errorf("cut zstd: %v", g.res.Errors)
	}
	g = one(t, Options{}, z[:len(z)/2]+strings.Repeat("\xff", len(z)))
	if len(g.res.Errors) != 1 || !strings.Contains(g.res.Errors[0].Error(), "the compressed data is") {
		t.Errorf("damaged zstd: %v", g.res.Errors)
	}
}

// decompressed is what a reader gets of compressed data before it fails.
func decompressed(t *testing.T, packed string) string {
	t.Helper()
	r, closeReader, err := decompress(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer closeReader()
	b, _ := fill(r, make([]byte, 0, 16<<20))
	return string(b)
}

// TestReadDocuments is about logs that are one JSON text.
func TestReadDocuments(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(events("a", 3000, 0, 1, 0)), "\n")
	want := idsOf(strings.Join(lines, "\n"))
	f := func(name, text string, want []string, malformed int64) {
		t.Helper()
		g := one(t, Options{}, text)
		if diff := cmp.Diff(want, g.ids); diff != "" {
			t.Errorf("%s (-want +got):\n%.1000s", name, diff)
		}
		if g.res.Counts.Malformed != malformed || len(g.res.Errors) > 0 {
			t.Errorf("%s: %+v", name, g.res)
		}
	}
	list := "{\"kind\": \"EventList\", \"apiVersion\": \"audit.k8s.io/v1\",\n \"items\": [\n" + strings.Join(lines, ",\n") + "\n]}\n"
	f("a list over lines", list, want, 0)
	f("a list over lines, gzipped", gz(t, list), want, 0)
	f("an array over lines", "[\n"+strings.Join(lines, ",\n")+"\n]", want, 0)
	f("an array on one line", "["+strings.Join(lines, ",")+"]\n", want, 0)
	f("a list on one line", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[`+strings.Join(lines, ",")+"]}\n", want, 0)
	f("lists on lines", strings.Repeat(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[`+lines[0]+","+lines[1]+"]}\n", 2), []string{want[0], want[1], want[0], want[1]}, 0)
	array := "[\n" + strings.Join(lines, ",\n") + "\n]"
	if g := one(t, Options{}, array); g.calls != 0 {
		t.Errorf("the objects of a whole document are read at once, in %d calls", g.calls)
	}
	f("a torn array", array[:len(array)/2], want[:1500], 1)

	g := one(t, Options{}, gz(t, array)[:20_000])
	if len(g.ids) < 100 || len(g.res.Errors) != 1 || !strings.Contains(g.res.Errors[0].Error(), "the compressed data is cut off") {
		t.Errorf("a cut array: %d events, %v", len(g.ids), g.res.Errors)
	}
}

func TestReadMissing(t *testing.T) {
	dir := files(t, "a.log", events("a", 10, 0, 1, 0), "b.log", events("b", 10, 100, 1, 0))
	inputs, err := Expand([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a.log")); err != nil {
		t.Fatal(err)
	}
	g := readInputs(t, Options{}, inputs)
	if len(g.ids) != 10 || len(g.res.Errors) != 1 || !strings.HasSuffix(g.res.Errors[0].Error(), "a.log: no such file or directory") {
		t.Errorf("%d events, errors %v", len(g.ids), g.res.Errors)
	}
}

// FuzzChunker cuts any bytes into chunks of any size: each byte is in a chunk or in a line that is too long, once, with its line number.
func FuzzChunker(f *testing.F) {
	f.Add([]byte("a\nb\n\nccccccccccccccccccccccccccccccccccccccc\nd"), uint8(1), uint8(5))
	f.Add([]byte(strings.Repeat("x", 300)+"\n"+strings.Repeat("\n", 40)), uint8(16), uint8(30))
	f.Add([]byte("{\"a\":\n1}\n"), uint8(4), uint8(100))
	f.Fuzz(func(t *testing.T, text []byte, room, bound uint8) {
		var chunks []chunk
		c := chunker{in: Input{Path: "x"}, bound: int(bound), alloc: func() []byte { return make([]byte, 0, 1+int(room)) }, eat: func(ch chunk) bool {
			chunks = append(chunks, ch)
			return true
		}}
		if !c.read(iotest.HalfReader(strings.NewReader(string(text)))) {
			t.Fatal("stopped")
		}
		rest, line := string(text), 1
		for _, ch := range chunks {
			if ch.err != nil || ch.document && string(ch.buf) != string(text) {
				t.Fatalf("document %t, error %v", ch.document, ch.err)
			}
			if len(ch.reduced) > 0 {
				t.Fatalf("made an event of %q", text)
			}
			for _, m := range ch.tooLong {
				long, after, ended := strings.Cut(rest, "\n")
				if m.Line != line || len(long) <= int(bound) || m.Cause != audit.TooLong(0, 0, int64(len(long)), int(bound)).Cause {
					t.Fatalf("line %d of %d bytes was called line %d: %s", line, len(long), m.Line, m.Cause)
				}
				rest = after
				if ended {
					line++
				}
			}
			if ch.firstLine != line && len(ch.buf) > 0 || !strings.HasPrefix(rest, string(ch.buf)) {
				t.Fatalf("at line %d of %q: line %d: %q", line, rest, ch.firstLine, ch.buf)
			}
			rest = rest[len(ch.buf):]
			line += strings.Count(string(ch.buf), "\n")
		}
		if rest != "" {
			t.Fatalf("left over: %q", rest)
		}
	})
}
