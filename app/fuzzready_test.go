package app

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// perWorld is how many cases share a clean day, which is the first of them.
const perWorld = 25

// readyCase is a clean day and what is done to it.
type readyCase struct{ world, index uint64 }

func (c readyCase) String() string { return fmt.Sprintf("world %d, case %d", c.world, c.index) }

// worldOf makes the clean day of a world: any minor, any number of nodes and API servers, any of the things that may happen.
func worldOf(world uint64) (*days.Day, error) {
	r := rand.New(rand.NewPCG(world, 1))
	o := days.Options{
		Span: 2*time.Hour + time.Duration(r.IntN(90))*time.Minute, Nodes: 1 + r.IntN(4), Servers: 1 + r.IntN(3),
		Minor: days.OldestMinor + r.IntN(days.NewestMinor-days.OldestMinor+1), NoBinding: r.IntN(3) == 0,
	}
	often := 1 + r.IntN(4)
	for _, name := range slices.Sorted(maps.Keys(days.FeatureNames())) {
		if f := days.FeatureNames()[name]; r.IntN(6) < often && (f != days.Upgrade || o.Minor < days.NewestMinor) {
			o.Features |= f
		}
	}
	day, err := days.Clean(world, o)
	if err == nil {
		day.Render()
	}
	return day, err
}

// apply does to the clean day what the case says: mutations of any kinds, in any order. harmless says that all of them are.
func (c readyCase) apply(clean *days.Day) (day *days.Day, harmless bool) {
	if c.index == 0 {
		return clean, true
	}
	r := rand.New(rand.NewPCG(c.world, 1+c.index))
	all := days.Mutations(0)
	of := func(effects ...days.Effect) days.Mutation {
		for {
			if m := all[r.IntN(len(all))]; slices.Contains(effects, m.Effect) {
				m.Seed = r.Uint64()
				return m
			}
		}
	}
	var todo []days.Mutation
	for range r.IntN(3) {
		todo = append(todo, of(days.Harmless))
	}
	switch kind := r.IntN(10); {
	case kind < 5: // one thing alone: nothing else shows it
		todo = append(todo, of(days.Breaks, days.Hides))
	case kind < 9:
		for range 1 + r.IntN(3) {
			todo = append(todo, of(days.Breaks, days.Hides))
		}
	}
	r.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	day = days.Compose(clean, todo...)
	return day, !slices.ContainsFunc(day.Applied, func(a days.Applied) bool { return a.Mutation.Effect != days.Harmless })
}

// wrong says what is wrong with the answer to a case, "" for nothing. A day with nothing but harmless things is READY. No other one is, and if one thing
// alone is wrong with it, one of the checks that are about that does not pass. What else may be wrong with a credential is seen where nothing takes it out
// of the log.
func (c readyCase) wrong(t testing.TB, clean *days.Day) string {
	day, harmless := c.apply(clean)
	if len(day.Events) == 0 { // all of it was removed
		if a, err := Analyze(t.Context(), dayOptions(t, day)); err == nil {
			return fmt.Sprintf("%s: a log of nothing is %q", c, a.Report.Readiness.Verdict)
		}
		return ""
	}
	results := provenDay(t, day)
	answer, shut := checks.Conclude(checks.Ready, results, nil).Answer, open(results)
	var what []string
	var bad []days.Mutation
	for _, a := range day.Applied {
		what = append(what, a.Mutation.Name+" ("+a.What+")")
		if a.Mutation.Effect != days.Harmless {
			bad = append(bad, a.Mutation)
		}
	}
	describe := func(wrong string) string {
		for i := range results {
			for _, x := range results[i].Evidence {
				if len(shut[results[i].Check]) > 0 && x.State != checks.Passed && len(what) < 12 {
					what = append(what, fmt.Sprintf("%s: %s %s%s%s %s %s %s %s-%s %d/%d", results[i].Check, x.Code, x.Node, x.Server, x.Line, x.Request, x.Object, x.Client,
						x.From.Format(time.RFC3339Nano), x.To.Format(time.TimeOnly), x.Seen, x.Expected))
				}
			}
		}
		return fmt.Sprintf("%s, 1.%d, %v: %s, is %q with %v:\n\t%s", c, day.Options.Minor, day.Options.Features.Names(), wrong, answer, shut, strings.Join(what, "\n\t"))
	}
	switch {
	case harmless && answer != checks.AnswerReady:
		return describe("must be ready")
	case !harmless && answer != checks.AnswerNotReady && answer != checks.AnswerNotEnough:
		return describe("must not be ready")
	case len(bad) == 1 && !slices.ContainsFunc(bad[0].Checks, func(name string) bool { return len(shut[name]) > 0 }):
		return describe(fmt.Sprintf("none of %q sees it", bad[0].Checks))
	}
	for _, a := range day.Applied {
		for _, name := range a.Mutation.Confined {
			if harmless && !slices.Contains(notPassing(results), name) {
				return describe(name + " passes")
			}
		}
	}
	for i := range results {
		if r := &results[i]; r.State != checks.Passed && r.Next.Code == "" {
			return describe(r.Check + " has no next step")
		}
	}
	return ""
}

// FuzzReady is one case for each pair of numbers.
func FuzzReady(f *testing.F) {
	for i := range uint64(4) {
		f.Add(i, i)
	}
	f.Fuzz(func(t *testing.T, world, index uint64) {
		clean, err := worldOf(world)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := (readyCase{world, index}).wrong(t, clean); wrong != "" {
			t.Error(wrong)
		}
	})
}

// TestReady goes through cases from a seed on. NODETRAIL_READY_SEED is the first world, NODETRAIL_READY_FROM the first case, and NODETRAIL_READY_CASES how
// many there are: what ended early is taken up where it ended. make fuzz-ready has a hundred thousand.
func TestReady(t *testing.T) {
	number := func(name string, or uint64) uint64 {
		s := os.Getenv(name)
		if s == "" {
			return or
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	cases := effort.Of[uint64](400, 10)
	seed, from := number("NODETRAIL_READY_SEED", 1), number("NODETRAIL_READY_FROM", 0)
	cases = number("NODETRAIL_READY_CASES", cases)
	t.Logf("seed %d, cases %d to %d", seed, from, from+cases)
	next, last := from/perWorld, (from+cases+perWorld-1)/perWorld
	var mu sync.Mutex
	take := func() (world uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= last || t.Failed() {
			return 0, false
		}
		next++
		if done := (next - 1) * perWorld; done%(40*perWorld) == 0 {
			t.Logf("at case %d", done)
		}
		return next - 1, true
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for world, ok := take(); ok; world, ok = take() {
				clean, err := worldOf(seed + world)
				if err != nil {
					t.Error(err)
					return
				}
				for index := range uint64(perWorld) {
					if n := world*perWorld + index; n < from || n >= from+cases {
						continue
					}
					if wrong := (readyCase{seed + world, index}).wrong(t, clean); wrong != "" {
						t.Error(wrong)
					}
				}
			}
		})
	}
	wg.Wait()
}
