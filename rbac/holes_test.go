package rbac

import (
	"testing"
	"time"
)

func TestHoles(t *testing.T) {
	s := NewStore()
	at := func(sec int) time.Time { return time.Unix(1_800_000_000+int64(sec), 0) }
	f := func(want string) {
		t.Helper()
		got := ""
		for sec := range 10 {
			if s.Covers(at(sec)) {
				got += "x"
			} else {
				got += "-"
			}
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f("----------")
	s.CoverFrom(at(1))
	f("-xxxxxxxxx")
	s.Uncovered(at(3), at(4))
	s.Uncovered(at(6), at(5)) // none
	f("-xx--xxxxx")
	s.Uncovered(at(7), at(7))
	f("-xx--xx-xx")
	s.UncoveredSince(at(9))
	f("-xx--xx-x-")
	s.Uncovered(at(4), at(6))
	f("-xx-----x-")
	s.CoveredAgain()
	f("-xx-----xx")
	s.UncoveredSince(time.Time{})
	f("----------")
	s.CoveredAgain()
	s.Prune(at(8))
	f("--------xx")
	if n := len(s.loadHoles()); n != 0 {
		t.Errorf("%d holes are left", n)
	}
	for i := range 3 * maxHoles {
		s.Uncovered(at(100+10*i), at(101+10*i))
	}
	if n := len(s.loadHoles()); n != maxHoles || s.Covers(at(105)) || s.Covers(at(100)) || !s.Covers(at(99)) || !s.Covers(at(95+30*maxHoles)) {
		t.Errorf("%d holes", n)
	}
}
