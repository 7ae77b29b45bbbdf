package cluster

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// reports is a Node as its kubelet reports it.
func reports(node string, at time.Duration) change {
	c := change{verb: verbModified}
	c.kind, c.ref.Name, c.reported, c.latest, c.ready.ready = kindNode, node, int64(at), int64(at), true
	return c
}

// podOf is a pod in which the kubelet of a node wrote a time.
func podOf(node string, at time.Duration) change {
	c := change{verb: verbModified}
	c.kind, c.ref.Name, c.latest, c.pod = kindPod, "p", int64(at), &nodeauthz.Pod{NodeName: node}
	return c
}

// A clock is ahead if most others say so: those that report something earlier thereafter, or stand with it in a list and are ready.
func TestClocksThatAreAhead(t *testing.T) {
	const h, m = time.Hour, time.Minute
	old, dead := reports("b", 5*h), reports("c", 2*h)
	dead.ready.ready = false
	silent := reports("b", 5*h)
	silent.reported = 0
	mute := reports("c", 5*h)
	mute.reported = 0
	unread := podOf("", 9*h)
	unread.pod = nil
	right := []change{reports("a", 5*h), old, reports("c", 5*h)}
	for name, c := range map[string]struct {
		list, after []change
		want        map[string]int64
	}{
		"one list":                          {list: []change{reports("a", 10*h), reports("b", 5*h), reports("c", 5*h+4*m)}, want: map[string]int64{"a": int64(5*h - 4*m)}},
		"a pod in a list":                   {list: []change{reports("a", 5*h), old, reports("c", 5*h), podOf("a", 7*h)}, want: map[string]int64{"a": int64(2 * h)}},
		"one that is behind in a list":      {list: []change{reports("a", 10*h), reports("b", 5*h), reports("c", 10*h)}},
		"two nodes: the later one":          {list: []change{reports("a", 10*h), old}, want: map[string]int64{"a": int64(5 * h)}},
		"within what reports are apart":     {list: []change{reports("a", 5*h+10*m), old, reports("c", 5*h)}},
		"beyond it":                         {list: []change{reports("a", 5*h+10*m+1), old, reports("c", 5*h)}, want: map[string]int64{"a": int64(10*m + 1)}},
		"the others are not ready":          {list: []change{reports("a", 5*h), dead}},
		"the others do not report":          {list: []change{reports("a", 10*h), silent}},
		"alone":                             {list: []change{reports("a", 10*h), podOf("a", 11*h)}},
		"then the others report earlier":    {list: []change{reports("a", 5*h), old, reports("c", 5*h)}, after: []change{podOf("a", 9*h), reports("b", 5*h+5*m), reports("c", 5*h+6*m)}, want: map[string]int64{"a": int64(4*h - 6*m)}},
		"only one of them does":             {list: []change{reports("a", 5*h), old, reports("c", 5*h)}, after: []change{reports("a", 9*h), reports("b", 5*h+5*m), reports("c", 9*h)}},
		"the same one again":                {list: []change{reports("a", 5*h), old, reports("c", 5*h)}, after: []change{reports("a", 9*h), reports("b", 5*h+5*m), reports("b", 5*h+6*m)}},
		"an outage":                         {list: []change{reports("a", 5*h), old, reports("c", 5*h)}, after: []change{reports("a", 9*h), reports("b", 9*h), reports("c", 9*h)}},
		"pods alone":                        {list: []change{podOf("a", 5*h), podOf("b", 5*h)}, after: []change{podOf("a", 9*h), podOf("b", 6*h)}},
		"Nodes that stand in another list":  {list: []change{reports("a", 5*h)}, after: []change{reports("a", 9*h), old, reports("c", 5*h)}},
		"two that are ahead alike":          {list: []change{reports("a", 10*h), reports("b", 10*h), reports("c", 5*h), reports("d", 5*h), reports("e", 5*h+m)}, want: map[string]int64{"a": int64(5*h - m), "b": int64(5*h - m)}},
		"two that are ahead differently":    {list: []change{reports("a", 10*h), reports("b", 12*h), reports("c", 5*h), reports("d", 5*h), reports("e", 5*h+m)}, want: map[string]int64{"a": int64(5*h - m), "b": int64(7*h - m)}},
		"pods ahead of all reports":         {list: []change{reports("a", 5*h), old, podOf("a", 9*h), podOf("b", 10*h)}, want: map[string]int64{"a": int64(4 * h), "b": int64(5 * h)}},
		"a pod before the report in a list": {list: []change{podOf("a", 7*h), reports("a", 5*h), old, reports("c", 5*h)}, want: map[string]int64{"a": int64(2 * h)}},
		"a pod of a node without a report":  {list: []change{reports("a", 5*h), old, reports("c", 9*h), podOf("d", 9*h)}, want: map[string]int64{"c": int64(4 * h), "d": int64(4 * h)}},
		"its own report is not earlier":     {list: []change{reports("a", 5*h), podOf("a", 5*h+10*m), reports("b", 5*h-1), reports("c", 5*h-1)}, want: map[string]int64{"a": int64(10*m + 1)}},
		"its own report is earlier":         {list: []change{reports("a", 5*h-1), podOf("a", 5*h+10*m), reports("b", 5*h-1), reports("c", 5*h)}},
		"no kubelet wrote it":               {list: slices.Concat(right, []change{podOf("", 9*h), unread})},
		"a pod goes back":                   {list: right, after: []change{podOf("a", 9*h), podOf("a", 6*h), reports("b", 5*h+5*m), reports("c", 5*h+6*m)}, want: map[string]int64{"a": int64(4*h - 6*m)}},
		"within it thereafter":              {list: right, after: []change{reports("a", 6*h), reports("b", 6*h-10*m), reports("c", 6*h-10*m)}},
		"beyond it thereafter":              {list: right, after: []change{reports("a", 6*h), reports("b", 6*h-10*m-1), reports("c", 6*h-10*m-1)}, want: map[string]int64{"a": int64(10*m + 1)}},
		"of two nodes the other":            {list: []change{reports("a", 5*h), old}, after: []change{reports("a", 9*h), reports("b", 5*h+5*m)}, want: map[string]int64{"a": int64(4*h - 5*m)}},
		"of three nodes one reports":        {list: []change{reports("a", 5*h), old, mute}, after: []change{reports("a", 9*h), reports("b", 5*h+5*m)}, want: map[string]int64{"a": int64(4*h - 5*m)}},
		"one of two about a node without":   {list: []change{podOf("a", 5*h), old, reports("c", 5*h)}, after: []change{podOf("a", 9*h), reports("b", 5*h+5*m)}},
		"both about a node without":         {list: []change{podOf("a", 5*h), old, reports("c", 5*h)}, after: []change{podOf("a", 9*h), reports("b", 5*h+5*m), reports("c", 5*h+6*m)}, want: map[string]int64{"a": int64(4*h - 6*m)}},
		"a clock that is set back":          {list: right, after: []change{podOf("a", 9*h), reports("a", 5*h+5*m), reports("b", 5*h+6*m)}},
		"reports that go back":              {list: right, after: []change{reports("a", 9*h), reports("b", 4*h), reports("b", 4*h+m), reports("c", 4*h), reports("c", 4*h+m)}},
		"what is wrong in a list stays so":  {list: []change{reports("a", 10*h), old, reports("c", 5*h)}, after: []change{reports("a", 10*h+5*m), reports("b", 5*h+5*m), reports("c", 5*h+6*m)}, want: map[string]int64{"a": int64(5 * h)}},
		"the same of two nodes":             {list: []change{reports("a", 10*h), old}, after: []change{reports("b", 5*h+5*m)}, want: map[string]int64{"a": int64(5 * h)}},
		"one beyond it, one within":         {list: slices.Concat(right, []change{reports("d", 5*h)}), after: []change{reports("a", 6*h), reports("d", 9*h), reports("b", 6*h-10*m), reports("c", 6*h-10*m)}, want: map[string]int64{"d": int64(3*h + 10*m)}},
		"what is wrong thereafter, too":     {list: right, after: []change{podOf("a", 9*h), reports("b", 5*h+5*m), reports("c", 5*h+6*m), reports("b", 5*h+10*m), podOf("a", 10*h), reports("c", 5*h+11*m)}, want: map[string]int64{"a": int64(4*h - 6*m)}},
		"a Node that another one writes":    {list: []change{reports("a", 5*h), old, reports("c", 5*h)}, after: []change{reports("a", 9*h), old, reports("c", 5*h)}},
	} {
		t.Run(name, func(t *testing.T) {
			all := slices.Concat(c.list, c.after)
			if c.want == nil {
				c.want = map[string]int64{}
			}
			if diff := gocmp.Diff(c.want, findAhead(all, len(c.list))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever happens in a cluster, a right clock is not said to be ahead as long as most are right, and one that is far ahead is found once most of the others have reported.
func TestRightClocksAreNotAhead(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 3 + r.IntN(12)
		off := make([]time.Duration, n) // of each clock
		wrong := r.IntN((n + 1) / 2)    // fewer than half
		for i := range wrong {
			if off[i] = time.Duration(11+r.IntN(600)) * time.Minute; r.IntN(3) == 0 {
				off[i] = -off[i]
			}
		}
		type report struct {
			at time.Duration
			c  change
		}
		var all []report
		begin := 100 * time.Hour
		outage := begin + time.Duration(r.IntN(300))*time.Minute
		for i := range n {
			name := fmt.Sprintf("n%d", i)
			at := begin - time.Duration(r.IntN(450))*time.Second
			all = append(all, report{begin, reports(name, at+off[i])})
			for at < begin+10*time.Hour {
				at += time.Duration(150+r.IntN(300)) * time.Second
				seen := at
				if at > outage && at < outage+2*time.Hour { // nobody gets through; then all come
					at = outage + 2*time.Hour + time.Duration(r.IntN(10))*time.Second
					seen = at
				}
				if seen <= begin { // the list has it
					continue
				}
				all = append(all, report{seen, reports(name, at+off[i])})
				if r.IntN(4) == 0 {
					all = append(all, report{seen, podOf(name, at+off[i])})
				}
			}
		}
		slices.SortStableFunc(all, func(x, y report) int { return cmp.Compare(x.at, y.at) })
		var changes []change
		list := 0
		for _, x := range all {
			if x.at == begin {
				list++
			}
			changes = append(changes, x.c)
		}
		ahead := findAhead(changes, list)
		for i := range n {
			if _, is := ahead[fmt.Sprintf("n%d", i)]; is && off[i] <= 0 {
				t.Errorf("seed %d: of %d clocks %d are wrong, and the clock of n%d is not ahead", seed, n, wrong, i)
			} else if !is && off[i] > 20*time.Minute {
				t.Errorf("seed %d: of %d clocks %d are wrong, and that of n%d is %s ahead", seed, n, wrong, i, off[i])
			}
		}
	}
}

// A list is from the time that most kubelets tell, and what one of them writes moves it no further, nor two whose clocks are ahead alike.
func TestListIsNotDatedByOneKubelet(t *testing.T) {
	node := func(name, at string) string {
		return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + name + `","uid":"` + name + `","creationTimestamp":"2026-11-21T06:00:00Z"},"status":{"conditions":[` +
			`{"type":"Ready","status":"True","lastHeartbeatTime":"` + at + `","lastTransitionTime":"2026-11-21T06:00:00Z"}]}}`
	}
	items := []string{node("a", "2026-11-21T12:00:00Z"), node("b", "2026-11-21T12:01:00Z"), node("c", "2026-11-21T17:00:00Z")}
	alike := append(slices.Clip(items), node("d", "2026-11-21T17:00:00Z"), node("e", "2026-11-21T12:00:00Z"))
	for _, c := range []struct {
		items []string
		end   string
		said  bool
	}{{items[:2], "12:01:00", false}, {items, "12:01:00", true}, {alike, "12:01:00", true}} {
		s := load(t, `{"kind":"List","apiVersion":"v1","items":[`+strings.Join(c.items, ",")+`]}`)
		if got := s.Summary().To.UTC().Format(time.TimeOnly); got != c.end {
			t.Errorf("the list is from %s, want %s", got, c.end)
		}
		if got := strings.Contains(strings.Join(said(s.Gaps(time.Time{}, time.Time{})), "\n"), "the clock of the kubelet of node c is ahead"); got != c.said {
			t.Errorf("said to be ahead: %t, want %t", got, c.said)
		}
	}
}
