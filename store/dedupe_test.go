package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/tally"
)

// answered is a request with an answer, 0 for none, by which alone it differs from others with its ID.
func answered(n, answer int) tally.Entry {
	e := request(n, at(time.Duration(n%3)*time.Second))
	if answer != 0 {
		e.Answer = id(1000 + answer)
	}
	return e
}

// answers is what a store knows, in the plainest way: which answers to an ID it has.
type answers map[tally.ID][]tally.ID

// add reports whether the entry is a duplicate.
func (a answers) add(e *tally.Entry) bool {
	all := a[e.ID]
	switch i := slices.Index(all, tally.ID{}); {
	case e.Answer == (tally.ID{}) && len(all) > 0 || slices.Contains(all, e.Answer):
		return true
	case i >= 0:
		all[i] = e.Answer
		return true
	}
	a[e.ID] = append(all, e.Answer)
	return false
}

// recent is the same as Acquire returns it.
func (a answers) recent() (out []tally.Seen) {
	for id, all := range a {
		for i, answer := range all {
			is := tally.Seen{ID: id, Answer: answer}
			if i > 0 {
				is.ID = is.Other()
			}
			out = append(out, is)
		}
	}
	return out
}

func sortedSeen(all []tally.Seen) []tally.Seen {
	slices.SortFunc(all, func(a, b tally.Seen) int { return compareIDs(a.ID, b.ID) })
	return all
}

// Requests with one ID count once for each answer, whatever comes in one commit, in another one, and after the store was opened anew. One without an
// answer is one of the others.
func TestRequestsWithOneID(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		rnd := rand.New(rand.NewPCG(29, 1))
		s, known, lane := at_.open(t, Options{}), answers{}, 0
		acquire := func() []tally.Seen {
			lane++
			return must(s.Acquire(ctx, strconv.Itoa(lane), 0, 1000))(t).Recent
		}
		acquire()
		for round := range effort.Of(60, 25) {
			var entries []tally.Entry
			for range 1 + rnd.IntN(60) {
				n := rnd.IntN(2) * rnd.IntN(4+4*round)
				entries = append(entries, answered(n, rnd.IntN(4)))
			}
			want := make([]bool, len(entries))
			for i := range entries {
				want[i] = known.add(&entries[i])
			}
			ok(t, s.Commit(ctx, commit(strconv.Itoa(lane), 0, "1", entries...)))
			for i := range entries {
				if e := &entries[i]; e.Duplicate != want[i] {
					t.Fatalf("round %d, entry %d of %x with answer %x: duplicate %t, want %t", round, i, e.ID[:4], e.Answer[:4], e.Duplicate, want[i])
				}
			}
			if round%20 == 0 {
				ok(t, s.Close())
				s = at_.open(t, Options{})
				got := acquire()
				if diff := cmp.Diff(sortedSeen(known.recent()), sortedSeen(got)); diff != "" && len(got) < 1000 {
					t.Fatalf("round %d (-want +got):\n%s", round, diff)
				}
			}
		}
		n := int64(0)
		for _, all := range known {
			n += int64(len(all))
		}
		if got := all(t, s).Sums.Allow; got != n {
			t.Errorf("%d requests count, want %d", got, n)
		}
	})
}

// Analyzers that share a database count requests with one ID as one would, in whatever order they commit them at the same time.
func TestRequestsWithOneIDOfManyAnalyzers(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	var entries []tally.Entry
	want := int64(0)
	for n := range effort.Of(600, 200) {
		different := map[int]bool{}
		for range 1 + n%5 {
			answer := (n + len(entries)) % 4
			if answer != 0 {
				different[answer] = true
			}
			entries = append(entries, answered(n, answer))
		}
		want += int64(max(1, len(different)))
	}
	var group sync.WaitGroup
	for n := range 4 {
		s := at_.open(t, Options{})
		lane := "kafka:audit/" + strconv.Itoa(n)
		must(s.Acquire(ctx, lane, 1, 0))(t)
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 29))
			mine := slices.Clone(entries)
			rnd.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for len(mine) > 0 {
				k := min(len(mine), 1+rnd.IntN(60))
				if err := s.Commit(ctx, commit(lane, 1, "1", mine[:k]...)); err != nil {
					t.Error(err)
					return
				}
				mine = mine[k:]
			}
		})
	}
	group.Wait()
	if got := all(t, at_.open(t, Options{})).Sums.Allow; got != want {
		t.Errorf("%d requests count, want %d", got, want)
	}
}

// What a store of before has tells no answers: it counts no more, and the next answer to it is known from then on.
func TestStoreWithoutAnswers(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		const old = 8
		var db engine
		var err error
		if strings.HasPrefix(at_.where, "postgres") {
			db, err = openShared(ctx, at_.where, Options{}, migrations[:old])
		} else {
			db, err = openEmbedded(ctx, at_.where, Options{}.Log, migrations[:old])
		}
		ok(t, err)
		ok(t, db.write(ctx, false, func(w tx) error {
			for n := range 100 {
				e := answered(n, 0)
				if err := w.exec(ctx, `INSERT INTO seen (second, id) VALUES ($1, $2)`, e.Time.Unix(), e.ID[:]); err != nil {
					return err
				}
			}
			return nil
		}))
		ok(t, db.close())
		for range 2 {
			s := at_.open(t, Options{})
			must(s.Acquire(ctx, "a", 0, 0))(t)
			entries := []tally.Entry{answered(1, 1), answered(1, 1), answered(1, 0), answered(2, 0), answered(200, 1)}
			ok(t, s.Commit(ctx, commit("a", 0, "1", entries...)))
			ok(t, s.Close())
		}
		s := at_.open(t, Options{})
		recent := must(s.Acquire(ctx, "b", 0, 1000))(t).Recent
		want := make([]tally.Seen, 0, 101)
		for n := range 100 {
			e := answered(n, 0)
			if n == 1 {
				e = answered(1, 1)
			}
			want = append(want, tally.Seen{ID: e.ID, Answer: e.Answer})
		}
		e := answered(200, 1)
		want = append(want, tally.Seen{ID: e.ID, Answer: e.Answer})
		if diff := cmp.Diff(sortedSeen(want), sortedSeen(recent)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		must(s.Acquire(ctx, "a", 0, 0))(t)
		other := []tally.Entry{answered(1, 2), answered(1, 1)}
		ok(t, s.Commit(ctx, commit("a", 0, "1", other...)))
		if got := fmt.Sprint(other[0].Duplicate, other[1].Duplicate, all(t, s).Sums.Allow); got != "false true 2" {
			t.Errorf("another answer: %s", got)
		}
	})
}

// Of two analyzers that bring answers to one request at the same time, the second one waits, and knows the answer of the first.
func TestAnswersAtTheSameTime(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	a, b := at_.open(t, Options{}), at_.open(t, Options{})
	must(a.Acquire(ctx, "a", 0, 0))(t)
	ok(t, a.Commit(ctx, commit("a", 0, "1", answered(1, 0))))
	of := func(answer int) []seenRequest {
		e := answered(1, answer)
		return []seenRequest{{seenKey{e.Time.Unix(), e.ID}, e.Answer}}
	}
	second := make(chan []seenBefore, 1)
	ok(t, a.db.write(ctx, false, func(w tx) error {
		if before, err := w.mark(ctx, of(1)); err != nil || !before[0].there || before[0].answer != (tally.ID{}) {
			t.Errorf("the first: %v, %v", before, err)
		}
		go func() {
			var before []seenBefore
			if err := b.db.write(ctx, false, func(w tx) (err error) {
				before, err = w.mark(ctx, of(2))
				return err
			}); err != nil {
				t.Error(err)
			}
			second <- before
		}()
		time.Sleep(time.Second)
		late, is := &batch{t: &seenTable}, of(1)[0]
		late.add(is.second, is.id[:], is.answer[:])
		return w.upsert(ctx, late)
	}))
	if before := <-second; len(before) != 1 || !before[0].there || before[0].answer != of(1)[0].answer {
		t.Errorf("the second: %v", before)
	}
}
