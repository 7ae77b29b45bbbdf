package pipeline

import (
	"os"
	"strings"
	"testing"
)

// The table in the comment of life.go, which people read, is the one by which requests live: every state at every event.
func TestLifeTable(t *testing.T) {
	src, err := os.ReadFile("life.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(src)) {
		if f := strings.Fields(strings.TrimPrefix(line, "//")); strings.HasPrefix(line, "//\t") && len(f) >= int(numEvents) {
			rows = append(rows, f)
		}
	}
	if len(rows) != int(numStates) { // the line of the events, and no line for stateImpossible
		t.Fatalf("the comment has %d lines, want %d", len(rows), numStates)
	}
	codes := map[string]state{".": stateImpossible}
	names := []string{
		"", "unknown", "pending", "pendingSaving", "pendingSaved", "waiting", "waitingSaving", "waitingSaved", "judged", "judgedSaving",
		"judgedSaved", "storing", "storingSaved", "over",
	}
	names[stateUnknown] = "new"
	for i, row := range rows[1:] {
		if codes[row[0]] = state(i + 1); row[1] != names[i+1] {
			t.Fatalf("line %d is of %q, want %q", i+1, row[1], names[i+1])
		}
	}
	events := []string{
		"began", "responded", "expired", "restored", "found", "decided", "dismissed", "gathered", "committed", "moved", "withdrawn",
		"inherited", "orphaned",
	}
	if got := strings.Join(rows[0], " "); got != strings.Join(events, " ") {
		t.Fatalf("the events are %q", got)
	}
	for s := stateImpossible; s < numStates; s++ {
		for ev := range numEvents {
			next, do, ok := s.on(ev)
			want := stateImpossible
			if s != stateImpossible {
				code := rows[s][2+ev]
				var known bool
				if want, known = codes[code]; !known {
					t.Fatalf("%s at %s: no state has the code %q", names[s], events[ev], code)
				}
			}
			if next != want || ok != (want != stateImpossible) || !ok && do != 0 {
				t.Errorf("%s at %s: %d, %b, %t; the comment says %d", names[s], events[ev], next, do, ok, want)
			}
		}
	}
}

// traced is what has become of a request by what the transitions asked for.
type traced struct {
	state                      state
	judged, stored, remembered bool // stored: or nothing of it is to be stored
	waits, relies              bool // a batch does
	queued, inCommit, saving   bool
	saved, resolving           bool
}

// after does what a transition asks for, and returns what is wrong with it.
func (l traced) after(ev event) (next traced, wrong string) {
	to, do, ok := l.state.on(ev)
	if !ok {
		return l, ""
	}
	has := func(a action) bool { return do&a != 0 }
	l.state = to
	switch ev {
	case eventDecided, eventDismissed:
		if l.judged {
			return l, "judged twice"
		}
		l.judged, l.stored = true, ev == eventDismissed
	case eventFound:
		l.judged = true
	case eventRestored:
		l.saved = true
	case eventCommitted:
		if !l.saving && !l.inCommit {
			return l, "stored by a commit that did not hold it"
		}
		if l.saving {
			l.saving, l.saved = false, true
		}
		if l.inCommit {
			l.inCommit, l.stored = false, true
			l.saved = l.saved && !l.resolving
		}
	case eventWithdrawn:
		l.saving, l.saved, l.resolving = false, false, false
	case eventInherited:
		if l.state == statePending {
			l.saving = false
		}
		l.inCommit, l.queued = false, false // the lost partition's
	case eventOrphaned:
		if l.resolving && !has(doRetain) {
			return l, "forgotten while its beginning is deleted"
		}
		return traced{state: to}, ""
	}
	if has(doRecall) {
		l.waits, l.relies = l.waits || l.relies, false
	}
	l.waits = (l.waits || has(doWait)) && !has(doFree)
	l.relies = (l.relies || has(doRely) || has(doSave)) && !has(doSettle)
	l.saving = l.saving || has(doSave)
	if has(doRetain) {
		l.resolving = false
	}
	if has(doResolve) {
		if !l.saving && !l.saved && ev != eventRestored {
			return l, "what was never stored is deleted"
		}
		l.resolving = true
	}
	if has(doEnter) {
		if !l.judged || l.queued || l.inCommit {
			return l, "in line to be stored, but not judged, or twice"
		}
		l.queued = true
	}
	if has(doStore) {
		if ev == eventGathered && !l.queued || ev == eventMoved && !l.inCommit {
			return l, "stored without having been in line"
		}
		l.queued, l.inCommit = false, true
	}
	l.remembered = l.remembered || has(doRemember)
	return l, l.wrong()
}

// wrong holds what has become of the request against its state.
func (l traced) wrong() string {
	switch {
	case l.state != stateOver && (l.state.isSaving() != l.saving || l.state.isSaved() != l.saved):
		return "the state is wrong about where the beginning is"
	case l.waits && !l.state.isWaiting() && l.state != statePending:
		return "a batch waits for what does not come"
	case l.relies && !l.saving:
		return "a batch relies on a commit that does not store the beginning"
	case l.judged != (l.state.isJudged() || l.state.isStoring() || l.state == stateOver):
		return "the state is wrong about whether it was judged"
	case l.state.isJudged() != l.queued:
		return "the state is wrong about whether it is in line to be stored"
	case l.state.isStoring() != l.inCommit:
		return "the state is wrong about whether a commit stores it"
	case l.stored != (l.state == stateOver):
		return "over before it is stored, or the other way round"
	case l.remembered != (l.state == stateOver):
		return "over and not remembered, or the other way round"
	case l.state == stateOver && (l.saving || l.saved) && !l.resolving:
		return "over, and its beginning stays in the store"
	}
	return ""
}

// Whatever happens in whatever order: all lives are walked, each until it comes to where another one has been.
func TestEveryLife(t *testing.T) {
	start := traced{state: stateUnknown}
	been, todo := map[traced]bool{start: true}, []traced{start}
	var states [numStates]bool
	var pairs [numStates][numEvents]bool
	for len(todo) > 0 {
		l := todo[0]
		todo = todo[1:]
		states[l.state] = true
		for ev := range numEvents {
			if ev == eventRestored && l.state == stateOver {
				pairs[l.state][ev] = true // of a life that ended while the partition was elsewhere
				continue
			}
			next, wrong := l.after(ev)
			if wrong != "" {
				t.Fatalf("%+v at event %d: %s: %+v", l, ev, wrong, next)
			}
			if _, _, ok := l.state.on(ev); !ok {
				continue
			}
			pairs[l.state][ev] = true
			if !been[next] {
				been[next] = true
				todo = append(todo, next)
			}
		}
	}
	for s := stateUnknown; s < numStates; s++ {
		for ev := range numEvents {
			if _, _, ok := s.on(ev); ok && !pairs[s][ev] {
				t.Errorf("state %d at event %d is in the table and cannot come about", s, ev)
			}
		}
		if !states[s] {
			t.Errorf("no life comes to state %d", s)
		}
	}
	if _, do, _ := stateOver.on(eventRestored); do != doResolve {
		t.Error("a beginning that is stored of a request that is over has to be deleted")
	}
}
