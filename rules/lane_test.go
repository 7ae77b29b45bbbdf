package rules

import (
	"slices"
	"testing"
	"time"
)

// laneWatermark is what is stored of how far a lane was.
func laneWatermark(t *testing.T, at time.Time) []Remembered {
	t.Helper()
	text, err := at.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return []Remembered{{Kind: RememberedWatermark, Value: text}}
}

// The time of a process that is given lanes is that of the one that is the furthest behind, in whatever order it is given them, and each lane has its own
// time before which nothing is judged again.
func TestLanesTimes(t *testing.T) {
	base := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	stored := map[string][]Remembered{
		"behind": laneWatermark(t, base), "ahead": laneWatermark(t, base.Add(time.Hour)), "new": nil,
	}
	for _, order := range [][]string{{"behind", "ahead"}, {"ahead", "behind"}, {"ahead", "new"}, {"new", "ahead"}, {"new", "behind", "ahead"}} {
		d := NewDetectors(overTimeRules(), DetectorOptions{})
		lanes := map[string]Lane{}
		for _, name := range order {
			lane, err := d.RestoreLane(name, stored[name])
			if err != nil {
				t.Fatal(err)
			}
			lanes[name] = lane
		}
		observe := func(lane string, at time.Time) (late bool) {
			if !slices.Contains(order, lane) {
				return false
			}
			before := d.Late()
			r := request(func(r *Request) { r.Time = at })
			observeLentIn(d, lanes[lane], r, nil)
			return d.Late() > before
		}
		if !slices.Contains(order, "new") && !observe("behind", base.Add(-time.Minute)) {
			t.Errorf("%v: what was judged before is judged again", order)
		}
		if slices.Contains(order, "behind") && !observe("behind", base.Add(-time.Minute)) {
			t.Errorf("%v: what was judged of the lane before is judged again", order)
		}
		if observe("new", base.Add(-time.Hour)) || observe("behind", base.Add(time.Minute)) || observe("ahead", base.Add(61*time.Minute)) {
			t.Errorf("%v: a request is late for another lane's time", order)
		}
		if slices.Contains(order, "ahead") && !observe("ahead", base.Add(30*time.Minute)) {
			t.Errorf("%v: what was judged of the lane that is ahead is judged again", order)
		}
		// Once requests have come, time does not go back for a lane.
		d.Advance(time.Time{}, nil, func(*Detection) {})
		before := d.watermark
		if _, err := d.RestoreLane("later", laneWatermark(t, base.Add(-2*time.Hour))); err != nil || d.watermark.Before(before) {
			t.Errorf("%v: time went back from %v to %v (%v)", order, before, d.watermark, err)
		}
	}
}

// What was denied in a lane and is judged is not judged again where the lane is given to a process whose time is before it.
func TestLaneIsNotJudgedAgain(t *testing.T) {
	base := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	d := NewDetectors(overTimeRules(), DetectorOptions{})
	first, err := d.RestoreLane("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	denied := func(of *Detectors, lane Lane, at time.Time) {
		observeLentIn(of, lane, request(func(r *Request) { r.Time = at }), nil)
	}
	denied(d, first, base)
	stored := d.Changes(base, true)
	if !slices.ContainsFunc(stored, func(m Remembered) bool { return m.Kind == rememberedDenials }) {
		t.Fatalf("no denial is remembered: %v", stored)
	}
	denied(d, first, base.Add(10*time.Minute))
	d.Advance(time.Time{}, nil, func(*Detection) {})
	stored = append(stored, d.Changes(base, true)...)
	other := NewDetectors(overTimeRules(), DetectorOptions{})
	if _, err := other.RestoreLane("b", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := other.RestoreLane("a", stored); err != nil {
		t.Fatal(err)
	}
	if n := other.denials.steps[stepOf(base)]; n != nil {
		t.Error("a step that was judged is there again")
	}
	if n := other.denials.steps[stepOf(base.Add(10*time.Minute))]; n == nil {
		t.Error("a step that was not judged is lost")
	}
}
