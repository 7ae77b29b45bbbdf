package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/wording"
)

const (
	// maxBars bounds the bars of a plot: more steps are put together.
	maxBars = 240
	// maxPlotRows bounds the rows of the table beneath.
	maxPlotRows = 100
	// minBars keeps the bars of a short time from being as wide as the page.
	minBars = 24
)

// series is one of the counts of a Point.
type series struct {
	// Class is its colour's: `excess`, deny, unknown or allow. Name is what it counts.
	Class, Name string
	of          func(*Point) int64
}

// plot is bars over time, a lane for each count with a scale of its own, and the same in words and as a table.
type plot struct {
	Caption string
	Lanes   []lane
	// From and To are the first step and the last one.
	From, To time.Time
	Step     string
	Columns  []string
	Rows     []plotRow
	// Left is how many steps with requests the table does not have.
	Left int
}

// Drawn says whether there is anything that words do not say as well.
func (p *plot) Drawn() bool { return p.To.After(p.From) }

type lane struct {
	Class, Name string
	// Words say the lane without a drawing.
	Words string
	Total int64
	Most  int64
	// Width is that of the drawing in bars; its height is 100.
	Width int
	Bars  []bar
}

type bar struct {
	X    int
	Y, H float64
	Say  string
}

type plotRow struct {
	At     time.Time
	Counts []int64
}

func excessSeries(name string) series {
	return series{"excess", name, func(p *Point) int64 { return p.Excess }}
}

func denySeries(name string) series {
	return series{"deny", name, func(p *Point) int64 { return p.Deny }}
}

// migrationPlot is what has to come to zero.
func migrationPlot(t Trend) *plot {
	return newPlot("Requests that need RBAC, with those that failed anyway, and denials", t, excessSeries("needs RBAC"), denySeries("denied by Node"))
}

// verdictPlot is a node's time by verdict.
func verdictPlot(t Trend) *plot {
	return newPlot("Requests by verdict", t,
		series{"allow", "allowed by Node", func(p *Point) int64 { return p.Allow }}, denySeries("denied by Node"),
		series{"unknown", "not known", func(p *Point) int64 { return p.Unknown }}, excessSeries("needs RBAC"))
}

// requestPlot is a finding's time: lanes without requests are left out.
func requestPlot(t Trend) *plot {
	p := newPlot("Requests of this finding", t, excessSeries("let through"), denySeries("refused"))
	if p == nil {
		return nil
	}
	var some []lane
	for _, l := range p.Lanes {
		if l.Total > 0 {
			some = append(some, l)
		}
	}
	p.Lanes = some
	return p
}

// newPlot draws a trend; nil where it has no steps.
func newPlot(caption string, t Trend, all ...series) *plot {
	if len(t.Points) == 0 {
		return nil
	}
	p := &plot{
		Caption: caption, From: t.Points[0].At, To: t.Points[len(t.Points)-1].At, Step: t.Step,
	}
	for _, s := range all {
		p.Columns = append(p.Columns, s.Name)
		p.Lanes = append(p.Lanes, newLane(t, s))
	}
	for i := len(t.Points) - 1; i >= 0; i-- {
		row, some := plotRow{At: t.Points[i].At}, false
		for _, s := range all {
			n := s.of(&t.Points[i])
			row.Counts = append(row.Counts, n)
			some = some || n > 0
		}
		switch {
		case !some:
		case len(p.Rows) == maxPlotRows:
			p.Left++
		default:
			p.Rows = append(p.Rows, row)
		}
	}
	return p
}

func newLane(t Trend, s series) lane {
	per := (len(t.Points) + maxBars - 1) / maxBars // steps in a bar
	counts := make([]int64, (len(t.Points)+per-1)/per)
	l := lane{Class: s.Class, Name: s.Name, Width: max(minBars, len(counts))}
	var most int64
	at, last := -1, -1
	for i := range t.Points {
		n := s.of(&t.Points[i])
		l.Total += n
		counts[i/per] += n
		if n > most {
			most, at = n, i
		}
		if n > 0 {
			last = i
		}
	}
	for _, n := range counts {
		l.Most = max(l.Most, n)
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		h := max(3, 100*float64(n)/float64(l.Most)) // what is there is seen
		from := t.Points[i*per].At
		l.Bars = append(l.Bars, bar{X: i, Y: 100 - h, H: h, Say: fmt.Sprintf("%s: %s", stepTime(from, t.Step), wording.Thousands(n))})
	}
	l.Words = laneWords(t, l.Total, most, at, last)
	return l
}

// laneWords say what the bars show: how many, the most and when, and since when there are none.
func laneWords(t Trend, total, most int64, at, last int) string {
	span := steps(len(t.Points), t.Step)
	if total == 0 {
		return "none in " + span
	}
	say := fmt.Sprintf("%s in %s", wording.Thousands(total), span)
	if len(t.Points) > 1 {
		say += fmt.Sprintf(", at most %s in one (%s)", wording.Thousands(most), stepTime(t.Points[at].At, t.Step))
	}
	if quiet := len(t.Points) - 1 - last; quiet > 0 {
		say += fmt.Sprintf(", none in the last %s", strings.TrimPrefix(steps(quiet, t.Step), "1 "))
	}
	return say
}

// stepTime names a step by its beginning, as finely as the steps are.
func stepTime(t time.Time, step string) string {
	layout := "2006-01-02 15:04:05"
	switch {
	case step == "day":
		layout = "2006-01-02"
	case step == "hour", strings.HasSuffix(step, "m"), strings.HasSuffix(step, "h"):
		layout = "2006-01-02 15:04"
	}
	return t.UTC().Format(layout)
}

// Each names a step.
func (p *plot) Each() string { return strings.TrimPrefix(steps(1, p.Step), "1 ") }

// Full says whether the bars fill the drawing, so that the last step is at its right.
func (p *plot) Full() bool { return len(p.Lanes) > 0 && p.Lanes[0].Width > minBars }

// steps is a time in words.
func steps(n int, step string) string {
	switch d, err := time.ParseDuration(step); {
	case err != nil:
		return count(int64(n), step)
	case d%time.Hour == 0:
		return count(int64(n)*int64(d/time.Hour), "hour")
	case d%time.Minute == 0:
		return count(int64(n)*int64(d/time.Minute), "minute")
	default:
		return count(int64(n)*int64(d/time.Second), "second")
	}
}
