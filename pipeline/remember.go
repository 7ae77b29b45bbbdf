package pipeline

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// What detectors remember belongs to the lanes of which it is, so that of several processes with one store each continues with its own: a lane with a fence
// may be another process's from one moment to the next. What is remembered of a node belongs to the lane that its requests come by; what is of no node, to
// the first of the process's lanes. The lanes without a fence stay with their process, and are one.

// laneKind begins the kinds of what belongs to a lane with a fence; its name and a zero byte begin the keys.
const laneKind = "lane:"

// home is the lane to which belongs what is of no node, empty for those that stay. It is not open where the process has no lane for now.
func (e *Engine) home() (home string, open bool) {
	for _, l := range e.parts.open {
		switch {
		case l.name == noteLane:
		case l.fence == 0:
			return "", true
		case home == "" || l.name < home:
			home = l.name
		}
	}
	return home, home != "" || !e.fenced
}

// placed is what detectors remember as it is stored. What is of a lane that was closed is left out: it may be another process's.
func (e *Engine) placed(home string, all []rules.Remembered) []tally.Remembered {
	out := make([]tally.Remembered, 0, len(all))
	for _, m := range all {
		switch {
		case m.Kind == rules.RememberedWatermark:
			if home == "" {
				out = append(out, m)
			}
			for _, l := range e.parts.open {
				if l.fence != 0 {
					out = append(out, placedIn(l.name, m))
				}
			}
		case m.OfNode && m.Lane == "" && home != "": // of a lane that was closed
		case m.Lane == "":
			out = append(out, placedIn(home, m))
		case e.parts.open[m.Lane] != nil:
			out = append(out, placedIn(m.Lane, m))
		}
	}
	return out
}

func placedIn(lane string, m rules.Remembered) tally.Remembered {
	if m.OfNode, m.Lane = false, ""; lane != "" {
		m.Kind, m.Key = laneKind+m.Kind, lane+"\x00"+m.Key
	}
	return m
}

// remembersOf is what is stored of a lane, as detectors know it.
func remembersOf(lane string, stored []tally.Remembered) []rules.Remembered {
	var out []rules.Remembered
	for _, m := range stored {
		kind, is := strings.CutPrefix(m.Kind, laneKind)
		if is != (lane != "") {
			continue
		}
		if is {
			key, of := strings.CutPrefix(m.Key, lane+"\x00")
			if !of {
				continue
			}
			m.Kind, m.Key = kind, key
		}
		out = append(out, m)
	}
	return out
}

// resume has the detectors continue with a partition that was opened, where whoever had it last was: kept says that it was this process. Of those that stay
// the first brings what is stored of all.
func (e *Engine) resume(l *partition, kept bool, stored []tally.Remembered) {
	d := e.opt.Detectors
	if d == nil || l.name == noteLane {
		return
	}
	if l.fence == 0 {
		if e.resumed.Swap(true) {
			return
		}
	} else {
		e.fenced, l.lane.Name = true, l.name
		if kept && d.Keep(l.name) {
			return
		}
		d.Release(l.name)
	}
	lane, err := d.RestoreLane(l.lane.Name, remembersOf(l.lane.Name, stored))
	if err != nil {
		e.opt.Log.Warn().Err(err).Str("lane", l.name).Msg("some of what the rules remembered is lost")
	}
	if l.fence != 0 {
		l.lane = lane
	}
}

// part is called when a partition is closed.
func (e *Engine) part(l *partition) {
	if d := e.opt.Detectors; d != nil && l.lane.Name != "" {
		d.Part(l.lane.Name)
	}
}

// without is what is remembered but for that of a lane, which is another process's.
func without(lane string, all []tally.Remembered) []tally.Remembered {
	return slices.DeleteFunc(all, func(m tally.Remembered) bool {
		return strings.HasPrefix(m.Kind, laneKind) && strings.HasPrefix(m.Key, lane+"\x00")
	})
}
