package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// continued is a journal that several recordings write, one after the other.
type continued struct {
	t       *testing.T
	c       *fakeCluster
	journal string
	r       *recording
	log     string // of all that have ended
}

// begin begins a recording where the journal ends, and waits until it watches pods.
func (j *continued) begin() {
	j.t.Helper()
	past, whole, err := ReadPast("j", strings.NewReader(j.journal))
	if err != nil {
		j.t.Fatal(err)
	}
	j.journal = j.journal[:whole]
	were := map[string]int{podsPath: 0}
	j.c.do(func() { maps.Copy(were, j.c.watches) })
	ctx, cancel := context.WithCancel(j.t.Context())
	r := &recording{t: j.t, out: &sink{}, log: &sink{}}
	done := make(chan error, 1)
	cfg := RecordConfig{Config: &rest.Config{Host: j.c.URL}, Past: past, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, catchUp: 20 * time.Millisecond}
	go func() { done <- Record(ctx, cfg, r.out, zerolog.New(r.log)) }()
	r.stop = func() error { cancel(); return <-done }
	j.r = r
	for path, n := range were { // and of all else that was watched before
		for j.c.count(j.c.watches, path) == n {
			if !sleep(j.t.Context(), time.Millisecond) {
				j.t.Fatalf("no watch of %s", path)
			}
		}
	}
}

// sign waits for a sign of life of pods in the journal.
func (j *continued) sign() {
	j.t.Helper()
	const sign = `"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod"`
	for n := strings.Count(j.r.out.String(), sign); strings.Count(j.r.out.String(), sign) == n; {
		j.c.bookmark()
		if !sleep(j.t.Context(), 20*time.Millisecond) {
			j.t.Fatal("no sign of life")
		}
	}
}

// end ends it, and leaves out so many bytes at the end, as a crash does.
func (j *continued) end(torn int) {
	j.t.Helper()
	if err := j.r.stop(); err != nil {
		j.t.Fatal(err)
	}
	text := j.r.out.String()
	j.journal += text[:max(0, len(text)-torn)]
	j.log += j.r.log.String()
}

func (j *continued) load() *State { return load(j.t, j.journal) }

// A recording continues where the one before it ended, and the journal has what happened in between. Where the API server has forgotten that, where it is
// another cluster, and where the journal cannot be read, all is listed again.
func TestRecordContinues(t *testing.T) {
	const shop = "shop/"
	for name, one := range map[string]struct {
		between func(*continued)
		hole    bool
	}{
		"resumed":         {between: func(*continued) {}},
		"torn":            {between: func(j *continued) { j.journal += `{"observedAt":"2026-` }},
		"zeros":           {between: func(j *continued) { j.journal += "\x00\x00\x00" }},
		"forgotten":       {hole: true, between: func(j *continued) { j.c.forget() }},
		"another cluster": {hole: true, between: func(j *continued) { j.c.put(rolesPath, clusterRole("admin", "other")) }},
		"unreadable":      {hole: true, between: func(j *continued) { j.journal += "{\"observedAt\":\"\x00\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster(t)
			c.put(rolesPath, clusterRole("admin", "admin-1"))
			c.pod("stays", "us", "n1", "ss")
			c.pod("goes", "ug", "n1", "sg")
			j := &continued{t: t, c: c}
			j.begin()
			c.pod("seen", "ue", "n1", "se")
			j.r.until(`"seen"`)
			before := time.Now()
			j.sign()
			j.end(0)
			c.remove(podsPath, shop+"goes")
			c.pod("short", "uh", "n1", "sh")
			c.remove(podsPath, shop+"short")
			c.pod("new", "un", "n1", "sn")
			one.between(j)
			time.Sleep(10 * time.Millisecond)
			during := time.Now()
			j.begin()
			c.pod("last", "ul", "n1", "sl")
			j.r.until(`"last"`)
			after := time.Now()
			j.sign()
			j.end(0)
			s := j.load()
			for secret, want := range map[string][3]string{
				"ss": {"allow", "allow", "allow"}, "sg": {"allow", "", "deny"}, "se": {"allow", "allow", "allow"}, "sn": {"deny", "", "allow"},
				"sh": {"deny", "", "deny"}, "none": {"deny", "deny", "deny"}, "sl": {"deny", "deny", "allow"},
			} {
				for i, at := range []time.Time{before, during, after} {
					got := says(t, s, "n1", secret, at)
					switch {
					case i == 1 && one.hole && want[i] == "deny" && got != "unknown":
						t.Errorf("%s in between, when nobody watched: %s", secret, got)
					case i == 1 && one.hole, want[i] == "":
					case got != want[i]:
						t.Errorf("%s at %d: %s, want %s", secret, i, got, want[i])
					}
				}
			}
			if sum := s.Summary(); sum.Malformed != 0 && name != "unreadable" {
				t.Errorf("%+v", sum)
			}
			if seen := strings.Count(j.journal, `"short"`); (seen > 0) == one.hole {
				t.Errorf("what came and went is there %d times in\n%s", seen, j.journal)
			}
		})
	}
}

// Files of others are left alone.
func TestReadPastOfOthers(t *testing.T) {
	for text, line := range map[string]int{"127.0.0.1 localhost\n": 1, "127.0.0.1 localhost\n::1 localhost\n": 1, "no end": 1, `{"kind":"Pod"}` + "\n": 1, "\n": 1} {
		_, _, err := ReadPast("j", strings.NewReader(text))
		var of *InputError
		if !errors.As(err, &of) || of.Line != line {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, whole, err := ReadPast("j", strings.NewReader("")); err != nil || whole != 0 {
		t.Error(whole, err)
	}
}

// TestRecordAgainstTruth lets pods come and go while recordings of one journal are killed and continued, in a cluster that at times forgets its past. What is
// no race must be true; what is unknown must lie where nobody watched, and is not there if the watch was taken up again.
func TestRecordAgainstTruth(t *testing.T) {
	for seed := range effort.Of(uint64(4), 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			recordAgainstTruth(t, rand.New(rand.NewPCG(seed, 12)))
		})
	}
}

func recordAgainstTruth(t *testing.T, rng *rand.Rand) {
	c := newFakeCluster(t)
	c.put(rolesPath, clusterRole("admin", "admin-1"))
	j := &continued{t: t, c: c}
	var lives []*truth
	var unsure, holes []interval // where something is under way; where nobody watched, nor learned of it later
	operate := func() {
		alive := alive(lives)
		if len(alive) > 0 && (rng.IntN(3) == 0 || len(alive) > 6) {
			p := alive[rng.IntN(len(alive))]
			p.to = time.Now()
			c.remove(podsPath, "shop/"+p.pod)
			return
		}
		p := &truth{pod: fmt.Sprint("p", len(lives)), node: fmt.Sprint("n", rng.IntN(2)), from: time.Now()}
		lives = append(lives, p)
		c.pod(p.pod, "u"+p.pod, p.node, fmt.Sprint("s", len(lives)%5))
		p.from = time.Now()
	}
	start := time.Now()
	for round := range effort.Of(4, 2) {
		began := time.Now()
		j.begin()
		time.Sleep(50 * time.Millisecond) // longer than what happened before takes to arrive
		unsure = append(unsure, interval{began, time.Now()})
		if round == 0 {
			holes = append(holes, interval{start, time.Now()})
		} else if last := &holes[len(holes)-1]; last.to.IsZero() {
			last.to = time.Now()
		}
		for range 1 + rng.IntN(3) {
			from := time.Now()
			for range 1 + rng.IntN(4) {
				operate()
			}
			c.pod("mark", "umark", "n9", "mark")
			n := strings.Count(j.r.out.String(), `"umark"`)
			for strings.Count(j.r.out.String(), `"umark"`) == n {
				if !sleep(t.Context(), 5*time.Millisecond) {
					t.Fatal("it does not come")
				}
			}
			unsure = append(unsure, interval{from, time.Now()})
			time.Sleep(20 * time.Millisecond)
		}
		c.bookmark()
		time.Sleep(20 * time.Millisecond)
		lost, torn := time.Now(), 0
		if rng.IntN(2) == 0 {
			torn = rng.IntN(400)
			lost = began
		}
		j.end(torn)
		forgets := rng.IntN(2) == 0
		if torn > 0 || forgets {
			holes = append(holes, interval{from: lost.Add(-50 * time.Millisecond)})
		}
		for range rng.IntN(4) {
			from := time.Now()
			operate()
			unsure = append(unsure, interval{from.Add(-time.Millisecond), time.Now()})
		}
		if forgets {
			c.forget()
		}
		time.Sleep(20 * time.Millisecond)
	}
	began := time.Now()
	j.begin()
	time.Sleep(50 * time.Millisecond)
	end := time.Now()
	unsure = append(unsure, interval{began, end})
	if last := &holes[len(holes)-1]; last.to.IsZero() {
		last.to = end
	}
	j.sign()
	j.end(0)
	s := j.load()
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	a := nodeauthz.NewAuthorizer(s.Graph, f, 0)
	counts := map[string]int{}
	for at := start; at.Before(end); at = at.Add(end.Sub(start) / 2000) {
		if within(unsure, at) {
			continue
		}
		for secret := range 5 {
			for node := range 2 {
				want := "deny"
				for i, p := range lives {
					if (i+1)%5 == secret && p.node == fmt.Sprint("n", node) && !at.Before(p.from) && (p.to.IsZero() || at.Before(p.to)) {
						want = "allow"
					}
				}
				got := decide(a, fmt.Sprint("n", node), fmt.Sprint("s", secret), at)
				words := got.Verdict.String()
				counts[words]++
				switch blind := within(holes, at); {
				case got.Race, got.Verdict == nodeauthz.Unknown:
					if counts["unsure"]++; !blind && !breaks(unsure, at) {
						t.Errorf("secret s%d of n%d at %s is %s, race %t, and was watched", secret, node, at.Sub(start), words, got.Race)
					}
				case words != want:
					t.Errorf("secret s%d of n%d at %s: %s, but it was %s", secret, node, at.Sub(start), words, want)
				}
			}
		}
	}
	t.Log(counts)
	if counts["allow"] == 0 || counts["deny"] == 0 {
		t.Errorf("it shows little: %v", counts)
	}
}

// breaks reports whether something was under way less than a second before or after.
func breaks(all []interval, at time.Time) bool {
	for _, i := range all {
		if at.After(i.from.Add(-time.Second)) && at.Before(i.to.Add(time.Second)) {
			return true
		}
	}
	return false
}
