package rules

import "testing"

// What is beyond the usual does not become usual, so that a spike that comes again is found again. What its past holds of a time that is not yet there, as where the
// clock was wrong, is dropped.
func TestSpikeIsNoHabit(t *testing.T) {
	n := &spikeSubject{}
	n.count(60, 4, 0)
	n.count(61, 100, 20)
	if len(n.Past) != 1 || n.Past[0] != (spikeHour{Hour: 1, Sum: 24, Sq: 416, Most: 100}) {
		t.Errorf("%+v", n.Past)
	}
	n.count(60*(2+maxSpikeHours), 1, 0)
	n.count(120, 1, 0)
	if len(n.Past) != 1 || n.Past[0] != (spikeHour{Hour: 2, Sum: 1, Sq: 1, Most: 1}) {
		t.Errorf("the time goes back: %+v", n.Past)
	}
}

// A node is young for the hours after its first request; one that was silent for longer than it is remembered is new.
func TestSpikeSeen(t *testing.T) {
	const long = maxSpikeHours * 60
	for _, c := range []struct{ seen, last, at, want int64 }{
		{1000, 1000, 1001, 1000},
		{1000, 1000, 990, 990}, // it came in another order
		{long + 1000, long + 1000, 1000, long + 1000},
		{1000, 1000, 1000 + long, 1000},
		{1000, 1000, 1001 + long, 1001 + long},
	} {
		n := &spikeSubject{Seen: c.seen, Last: c.last}
		if n.saw(c.at); n.Seen != c.want {
			t.Errorf("%+v: seen since %d", c, n.Seen)
		}
	}
}
