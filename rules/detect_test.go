package rules

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// stream is a scenario of detectors, as testdata/detect/README.md says.
type stream struct {
	name     string
	fires    bool
	want     []string // "rule subject", in order
	requests []*Request
	world    *world
}

// streams reads the scenarios of a file.
func streams(t testing.TB, file string) []*stream {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*stream
	var s *stream
	sc := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
		case "fire", "miss":
			s = &stream{name: rest, fires: kind == "fire", world: &world{created: map[string]int{}, pods: map[string]string{}, ended: map[string]int{}}}
			out = append(out, s)
		case "want":
			s.want = append(s.want, rest)
		case "created":
			node, when, _ := strings.Cut(rest, " ")
			s.world.created[node] = int(duration(t, when).Seconds())
		case "deleted":
			s.deleted(t, strings.Fields(rest))
		default:
			if err := s.add(t, strings.Fields(line)); err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
		}
	}
	for _, s := range out {
		slices.SortStableFunc(s.requests, func(a, b *Request) int { return a.Time.Compare(b.Time) })
		for i, r := range s.requests {
			r.Event.AuditID = fmt.Sprintf("%s-%07d", s.name, i)
		}
		slices.Sort(s.want)
	}
	return out
}

// deleted makes pods that were deleted: "NAME-{i} HOW-MANY NODE WHEN".
func (s *stream) deleted(t testing.TB, f []string) {
	t.Helper()
	n, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		pod := strings.ReplaceAll(f[0], "{i}", strconv.Itoa(i))
		s.world.pods[pod], s.world.ended[pod] = f[2], int(duration(t, f[3]).Seconds())
	}
}

func duration(t testing.TB, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// add adds the requests of a line: "START every D for D NODES WHAT VERB RESOURCE [NAME] [by AGENT]".
func (s *stream) add(t testing.TB, f []string) error {
	t.Helper()
	begin, every, length := duration(t, f[0]), time.Hour, time.Duration(1)
	f = f[1:]
	if f[0] == "every" {
		every, length = duration(t, f[1]), duration(t, f[3])
		f = f[4:]
	}
	if len(f) < 4 {
		return fmt.Errorf("short line: %q", f)
	}
	ua := "kubelet/v1.36.3"
	if i := slices.Index(f, "by"); i > 0 {
		ua, f = f[i+1], f[:i]
	}
	name := ""
	if len(f) > 4 {
		name = f[4]
	}
	first, last := 0, 0
	pattern := f[0]
	if before, after, ok := strings.Cut(pattern, "{"); ok {
		var err error
		bounds, after, _ := strings.Cut(after, "}")
		from, to, _ := strings.Cut(bounds, "-")
		if first, err = strconv.Atoi(from); err != nil {
			return err
		}
		if last, err = strconv.Atoi(to); err != nil {
			return err
		}
		pattern = before + "%d" + after
	}
	for i := 0; time.Duration(i)*every < length; i++ {
		for n := first; n <= last; n++ {
			node := pattern
			if strings.Contains(pattern, "%d") {
				node = fmt.Sprintf(pattern, n)
			}
			object := f[3]
			if name != "" {
				object += " " + name
			}
			object = strings.ReplaceAll(strings.ReplaceAll(object, "{i}", strconv.Itoa(i)), "{node}", node)
			r := request(as("system:node:"+node, "system:nodes"), does(f[2]+" "+object), agent(ua))
			if n > first { // nodes are not at the same instant
				r.Time = r.Time.Add(time.Duration(n-first) * 7 * time.Millisecond)
			}
			r.Time = r.Time.Add(begin + time.Duration(i)*every)
			if err := judgedAs(r, f[1]); err != nil {
				return err
			}
			s.requests = append(s.requests, r)
		}
	}
	return nil
}

func judgedAs(r *Request, what string) error {
	r.Answer.Reason = fmt.Sprintf("no relationship found between node '%s' and this object", r.Node)
	switch what {
	case "deny":
	case "race":
		race(r)
	case "allow":
		verdict(nodeauthz.Allow)(r)
		code(200)(r)
	case "lag": // the API server denies what the state allows
		verdict(nodeauthz.Allow)(r)
		annotated("forbid", nodeauthz.Deny)(r)
	case "unsure": // the API server denies, and the state does not tell
		verdict(nodeauthz.Unknown)(r)
		annotated("forbid", nodeauthz.Deny)(r)
	case "passed": // RBAC lets it through
		byRBAC(200)(r)
	default:
		return fmt.Errorf("what is %q", what)
	}
	return nil
}

// overTimeRules are those whose detectors are tested here.
func overTimeRules() []*Rule {
	return []*Rule{nodeDenySpike(), persistentNodeDeny(), secretEnumeration()}
}

// play gives the requests to detectors. Order, calls of Advance and restarts are as the random numbers will, or plain if there are none.
func play(t testing.TB, s *stream, rnd *rand.Rand, restarts bool) []*Detection {
	t.Helper()
	d := NewDetectors(overTimeRules(), DetectorOptions{})
	requests := s.requests
	if rnd != nil {
		arrivals := make(map[*Request]time.Time, len(requests))
		for _, r := range requests {
			arrivals[r] = r.Time.Add(time.Duration(rnd.Int64N(int64(DefaultLateness - time.Second))))
		}
		requests = slices.SortedFunc(slices.Values(requests), func(a, b *Request) int { return arrivals[a].Compare(arrivals[b]) })
	}
	var out []*Detection
	found := func(f *Detection) { out = append(out, f) }
	stored := map[string]Remembered{}
	for i, r := range requests {
		observeLent(d, r, s.world)
		if rnd == nil && i%256 == 0 || rnd != nil && rnd.IntN(50) == 0 {
			d.Advance(time.Time{}, s.world, found)
		}
		if restarts && rnd.IntN(max(2, len(requests)/8)) == 0 {
			d.Advance(time.Time{}, s.world, found)
			for _, m := range d.Changes() {
				stored[m.Kind+"\x00"+m.Key] = m
			}
			d = NewDetectors(overTimeRules(), DetectorOptions{})
			d.latest = r.Time // what the next request tells, or the one after
			all := []Remembered{{Kind: "mode", Value: []byte("x")}}
			for _, m := range stored {
				all = append(all, m)
			}
			if err := d.Restore(all); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.Flush(s.world, found)
	if d.Late() > 0 {
		t.Errorf("%s: %d requests came too late", s.name, d.Late())
	}
	slices.SortStableFunc(out, func(a, b *Detection) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Phase, b.Phase),
			cmp.Compare(a.Apart, b.Apart), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// Each scenario fires what it says and nothing else, whatever the order within the lateness, and across restarts.
func TestDetectors(t *testing.T) {
	files, err := filepath.Glob("testdata/detect/*.txt")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		rule := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(rule, func(t *testing.T) {
			fire, miss := 0, 0
			for i, s := range streams(t, file) {
				fires := slices.ContainsFunc(s.want, func(w string) bool { return strings.HasPrefix(w, rule) })
				if fires != s.fires {
					t.Errorf("%s: fires %t, but wants %q", s.name, s.fires, s.want)
				}
				if s.fires {
					fire++
				} else {
					miss++
				}
				if i%effort.Of(1, 5) == 0 {
					t.Run(s.name, func(t *testing.T) { s.test(t) })
				}
			}
			if fire < 12 || miss < 12 {
				t.Errorf("%d scenarios that fire and %d that do not, want 12 of each", fire, miss)
			}
		})
	}
}

func (s *stream) test(t *testing.T) {
	plain := play(t, s, nil, false)
	got, details := []string{}, map[string]map[string]bool{}
	for _, f := range plain {
		who := strings.TrimSpace(f.Rule + " " + f.Subject)
		if details[who] == nil {
			details[who] = map[string]bool{}
		}
		details[who][f.Apart] = true
		if f.Count <= 0 || f.First.After(f.Last) || f.Last.After(f.Time) || sayDetection(f) == "" || len(f.AuditIDs) == 0 || len(f.AuditIDs) > 5 {
			t.Errorf("%+v", f)
		}
	}
	for who, all := range details {
		if len(all) > 1 {
			who += fmt.Sprintf(" x%d", len(all))
		}
		got = append(got, who)
	}
	slices.Sort(got)
	if diff := gocmp.Diff(append([]string{}, s.want...), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
		for _, f := range plain {
			t.Logf("%s %s", f.Time.Format(time.TimeOnly), sayDetection(f))
		}
	}
	if len(s.requests) > effort.Of(200_000, 2000) {
		return // the property holds of the others
	}
	for seed := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		if diff := gocmp.Diff(plain, play(t, s, rnd, seed == 1)); diff != "" {
			t.Errorf("shuffled, restarts %t (-plain +shuffled):\n%s", seed == 1, diff)
		}
	}
}

// The order of denials is that of their IDs, whatever these have in common.
func TestByID(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		all := make([]*denial, rnd.IntN(400))
		shift, mask := rnd.IntN(64), rnd.Uint64()
		for i := range all {
			all[i] = &denial{ID: rnd.Uint64() >> shift & mask, Count: int64(i)}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b *denial) int { return cmp.Compare(a.ID, b.ID) })
		for i, d := range byID(all) {
			if d.ID != want[i].ID {
				t.Fatalf("%d of %d: %x, want %x", i, len(all), d.ID, want[i].ID)
			}
		}
	}
}
