package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/tally"
)

// childEnv holds the file or the DSN that the test program, started again by TestKill, commits to.
const childEnv = "NODETRAIL_STORE_TEST_CHILD"

// killed is the commit of that number: ten new requests, and some of those before again.
func killed(n int) *tally.Commit {
	c := commit("file:a", 0, strconv.Itoa(n+1), requests(10*n-15, 10*n+10, at(0))...)
	if n < 2 {
		c = commit("file:a", 0, strconv.Itoa(n+1), requests(10*n, 10*n+10, at(0))...)
	}
	c.Lanes[0].Events = tally.Events{Read: 10, Judged: 10}
	for i := range c.Lanes[0].Entries {
		c.Lanes[0].Entries[i].Time = at(time.Duration(c.Lanes[0].Entries[i].ID[15]) * time.Second)
	}
	c.Memory = []tally.Remembered{{Kind: "last", Key: "x", Value: []byte(strconv.Itoa(n + 1))}}
	l := evidence.New()
	observeKilled(l, n)
	c.Evidence = l.AppendChanges(nil)
	return c
}

// observeKilled shows what the commit of that number brings.
func observeKilled(l *evidence.Ledger, n int) {
	renew(l, fmt.Sprintf("worker-%d", n%7), at(time.Duration(n)*7*time.Second))
}

// child commits until it is killed, and says after each commit which it was.
func child() {
	ctx := context.Background()
	err := func() error {
		s, err := openWhere(os.Getenv(childEnv))
		if err != nil {
			return err
		}
		lane, err := s.Acquire(ctx, "file:a", 0, 0)
		if err != nil {
			return err
		}
		s.foldEvery = 3 * time.Millisecond
		n, err := strconv.Atoi("0" + lane.Position)
		for ; err == nil; n++ {
			if err = s.Commit(ctx, killed(n)); err == nil {
				_, err = fmt.Println(n + 1)
			}
		}
		return err
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func openWhere(where string) (*Store, error) {
	if strings.HasPrefix(where, "postgres") {
		return OpenPostgres(context.Background(), where, Options{})
	}
	return OpenSQLite(context.Background(), where, Options{})
}

// Killed at any moment, the store holds every commit that was acknowledged, and no part of any other.
func TestKill(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		rounds, acked := effort.Of(50, 2), 0
		if strings.HasPrefix(at_.where, "postgres") {
			rounds = 15
		}
		r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
		for range rounds {
			acked = max(acked, killOnce(t, at_.where, r))
			s := at_.open(t, Options{})
			stored := must(strconv.Atoi("0" + must(s.Acquire(context.Background(), "file:a", 0, 0))(t).Position))(t)
			sum := all(t, s)
			if stored < acked || sum.Sums.Allow != int64(10*stored) || sum.Events.Read != int64(10*stored) {
				t.Fatalf("%d commits were acknowledged, %d are stored, with %d requests and %d events", acked, stored, sum.Sums.Allow, sum.Events.Read)
			}
			nodes := int64(0)
			for _, n := range sum.Nodes {
				nodes += n.Requests
			}
			m := must(s.Memory(context.Background()))(t)
			if nodes != sum.Sums.Allow || stored > 0 && string(m[0].Value) != strconv.Itoa(stored) {
				t.Fatalf("%d requests by node, %d in all; memory %v", nodes, sum.Sums.Allow, m)
			}
			l := evidence.New()
			for n := range stored {
				observeKilled(l, n)
			}
			sameEvidence(t, l, s)
			ok(t, s.Close())
		}
		t.Logf("%d commits in %d rounds", acked, rounds)
	})
}

// killOnce kills a child some time after some commit and returns the last that it acknowledged.
func killOnce(t *testing.T, where string, r *rand.Rand) (acked int) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+where)
	out := must(c.StdoutPipe())(t)
	c.Stderr = os.Stderr
	ok(t, c.Start())
	lines, after := bufio.NewScanner(out), r.IntN(30)
	for n := 0; lines.Scan(); n++ {
		acked = must(strconv.Atoi(lines.Text()))(t)
		if n == after {
			for range r.IntN(2_000_000) {
				_ = n // as long as a commit takes, about
			}
			ok(t, c.Process.Kill())
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return acked
}
