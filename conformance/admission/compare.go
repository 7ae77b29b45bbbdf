package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// Setting is a version with one setting of the feature gates.
type Setting struct {
	Name    string
	Version nodeadmission.Version
	on      map[string]bool
}

// Settings are all that an API server of the version can have, the defaults first.
func Settings(kubernetes string) ([]Setting, error) {
	defaults, err := nodeadmission.VersionOf(kubernetes)
	if err != nil {
		return nil, err
	}
	var free []string
	base := map[string]bool{}
	for _, name := range nodeadmission.GateNames() {
		on, off := defaults, defaults
		canOn, canOff := on.SetGate(name, true) == nil, off.SetGate(name, false) == nil
		base[name] = canOn && on == defaults
		if canOn && canOff {
			free = append(free, name)
		}
	}
	out := []Setting{{Name: "defaults", Version: defaults, on: base}}
	for bits := range 1 << len(free) {
		s := Setting{Version: defaults, on: map[string]bool{}}
		for name, on := range base {
			s.on[name] = on
		}
		for i, name := range free {
			on := bits>>i&1 == 1
			if err := s.Version.SetGate(name, on); err != nil {
				return nil, err
			}
			s.on[name] = on
			s.Name += fmt.Sprintf("%s=%t,", name, on)
		}
		if s.Version != defaults {
			out = append(out, s)
		}
	}
	return out, nil
}

// Count is what a run did.
type Count struct {
	Writes, Allowed, Denied, Unknown, Stripped, StrippedUnknown int
	// NotAsked are writes that the API server refuses before the plugin is asked.
	NotAsked int
}

// Add adds another run's figures.
func (c *Count) Add(o Count) {
	c.Writes += o.Writes
	c.Allowed += o.Allowed
	c.Denied += o.Denied
	c.Unknown += o.Unknown
	c.Stripped += o.Stripped
	c.StrippedUnknown += o.StrippedUnknown
	c.NotAsked += o.NotAsked
}

// perWorld is how many writes a random cluster gets.
const perWorld = 250

// Run plays n random writes from the seed to both sides, each with all settings, and returns the first on which they differ. The counts are by setting. Inputs
// are taken away with the settings in turn.
func Run(settings []Setting, seed uint64, n int) (counts []Count, err error) {
	counts = make([]Count, len(settings))
	for world, done := uint64(0), 0; done < n; world++ {
		g := &generator{source(seed + world)}
		w, err := newWorld(g)
		if err != nil {
			return counts, err
		}
		r := runner{world: w, generator: g}
		for i := range settings {
			s := &settings[i]
			v := s.Version
			v.Patch = nodeadmission.AnyPatch
			r.sides = append(r.sides, sides{setting: s, count: &counts[i], plugin: newPlugin(s.on, w.informers, w.authorizer()),
				ours: nodeadmission.New(s.Version, w.state(), 0), anyPatch: nodeadmission.New(v, w.state(), 0)})
		}
		for range perWorld {
			played, err := r.one()
			if err != nil {
				return counts, fmt.Errorf("seed %d: %w", seed+world, err)
			}
			if played {
				done++
			}
		}
	}
	return counts, nil
}

type runner struct {
	world     *World
	generator *generator
	sides     []sides
	turn      int
}

// sides are both with one setting.
type sides struct {
	setting        *Setting
	count          *Count
	plugin         *noderestriction.Plugin
	ours, anyPatch *nodeadmission.Admission
}

// instant is when all requests happen: the worlds do not change.
var instant = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func (r *runner) one() (played bool, err error) {
	q := r.generator.write(r.world)
	if q.Name == "" && q.Verb != "create" {
		return false, nil // nothing was there to be written
	}
	attrs, request, err := q.asked()
	if refused := (errNotAsked{}); errors.As(err, &refused) {
		for i := range r.sides {
			r.sides[i].count.NotAsked++
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", q, err)
	}
	r.turn = (r.turn + 1) % len(r.sides)
	for i := range r.sides {
		s := &r.sides[i]
		r.world.lacks, r.world.asked = 0, nil
		theirs := ask(s.plugin, attrs)
		questions := r.world.asked
		r.world.asked = nil
		ans := s.ours.Decide(request, instant)
		s.count.Writes++
		err := s.judge(q, &ans, theirs)
		if err == nil && ans.Verdict != nodeadmission.Unknown && !slices.Equal(questions, r.world.asked) {
			err = fmt.Errorf("reference asked the authorizer: %s, ours: %s", questions, r.world.asked)
		}
		if err == nil && i == r.turn {
			err = r.strip(s, request, &ans)
		}
		if err != nil {
			return false, fmt.Errorf("%s%s\nreference: %+v\nours: %+v\n%w", s.setting.Name, q, theirs, ans, err)
		}
	}
	return true, nil
}

// judge compares an answer. Unknown is right only where the log itself cannot tell.
func (r *sides) judge(q *Write, ans *nodeadmission.Answer, theirs outcome) error {
	switch {
	case q.Stranger:
		if ans.Verdict != nodeadmission.None || theirs.code != 0 {
			return errors.New("somebody who is no node")
		}
		return nil
	case ans.Race:
		return errors.New("a race in a world that does not change")
	case ans.Verdict == nodeadmission.Unknown:
		switch r.count.Unknown++; ans.Missing {
		case nodeadmission.MissingPatchType, nodeadmission.MissingVolume, nodeadmission.MissingOldObject, nodeadmission.MissingBody:
			return nil
		}
		return errors.New("unknown though all is there")
	case theirs.code == 0 && ans.Verdict == nodeadmission.Allow:
		r.count.Allowed++
		return nil
	case theirs.code == 0 || ans.Verdict != nodeadmission.Deny:
		return errors.New("decisions differ")
	case ans.Code != theirs.code:
		return errors.New("status codes differ")
	case ans.Prefix && strings.HasPrefix(theirs.message, ans.Message+" "), ans.Message == theirs.message && !ans.Prefix:
		r.count.Denied++
		return observed(theirs)
	}
	return errors.New("messages differ")
}

// observed holds the classifier against the plugin's own message.
func observed(theirs outcome) error {
	got := nodeadmission.Observe(&nodeadmission.Response{Verb: "create", Authorized: true, Code: theirs.code, Message: theirs.message})
	if got != nodeadmission.ObservedDeny {
		return fmt.Errorf("observed as %v", got)
	}
	return nil
}

// strip takes inputs away and asks again.
func (r *runner) strip(s *sides, request *nodeadmission.Request, whole *nodeadmission.Answer) error {
	for range 2 {
		lacks := lack(0)
		for range 1 + r.generator.IntN(3) {
			lacks |= 1 << r.generator.IntN(lackCount)
		}
		less := *request
		if lacks&lackBody != 0 {
			less.Body = nil
		}
		ours := s.ours
		if lacks&lackPatch != 0 {
			ours = s.anyPatch
		}
		r.world.lacks = lacks
		ans := ours.Decide(&less, instant)
		s.count.Stripped++
		if ans.Verdict == nodeadmission.Unknown {
			s.count.StrippedUnknown++
			if ans.Missing == nodeadmission.MissingNothing {
				return fmt.Errorf("without %b: unknown, and does not say why", lacks)
			}
			continue
		}
		if ans != *whole && whole.Verdict != nodeadmission.Unknown {
			return fmt.Errorf("without %b: %+v", lacks, ans)
		}
	}
	return nil
}
