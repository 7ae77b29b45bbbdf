package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/version"
)

// rememberedHours is the kind of memory in which each instance stores what the hours of the log show of versions. Its rows are used again.
const rememberedHours = "version-hours"

const (
	// hourSlots is more than there are hours in a book, so that an hour takes the row of one that is forgotten.
	hourSlots = 1024
	// hoursKept is for how long hours stay in the book. Of those before only what they said is kept.
	hoursKept = 31 * 24 * time.Hour
)

// versionBook stores what the hours of the log show of versions with the requests that show it, and continues with that after a restart: what an hour says then is
// what it had said without one. The engine's loop alone uses it.
type versionBook struct {
	versionFacts
	setup *judging.Setup
	owner string // of the rows
}

// versionFacts are what is stored of it with the facts.
type versionFacts struct {
	Name string `json:"name"`
	// Settings are those by which the hours count.
	Settings string `json:"settings"`
	// Alone says that nobody shared the store, so that the book has all that those before it found.
	Alone bool `json:"alone,omitempty"`
	// From is the first hour that may be in the book. Before are the versions of other hours, from after the oldest instant.
	From   time.Time       `json:"from"`
	Oldest time.Time       `json:"oldest"`
	Before []codes.Version `json:"before"`
}

// openVersionBook continues the book of the instance, or where nobody else shares the store that of whoever used it last. Where the settings are others the
// hours count as they did, and a new book begins.
func openVersionBook(ctx context.Context, s *store.Store, setup *judging.Setup, book versionFacts, instance string, now time.Time) (*versionBook, error) {
	b := &versionBook{versionFacts: book, setup: setup, owner: instance}
	if b.Alone {
		b.owner = ""
	}
	b.Name = instance + " " + now.UTC().Format(time.RFC3339Nano)
	facts, err := s.Facts(ctx)
	if err != nil {
		return nil, err
	}
	was, versions, err := b.last(facts, instance)
	if err != nil {
		return nil, err
	}
	if b.Before = versions; was == nil || was.Settings != b.Settings || was.Alone != b.Alone {
		return b, nil
	}
	b.Name, b.From, b.Oldest, b.Before = was.Name, was.From, was.Oldest, was.Before
	rows, err := s.RememberedOf(ctx, rememberedHours)
	if err != nil {
		return nil, err
	}
	there := slices.Clone(b.Before)
	for i := range rows {
		name, hour, value, is := storedVersionHour(&rows[i])
		start := time.Unix(hour*3600, 0).UTC()
		if is && name == b.Name && strings.HasPrefix(rows[i].Key, b.owner+"\x00") && !start.Before(b.From) && start.Before(now.Add(24*time.Hour)) && setup.Judge.Versions.RestoreHour(hour, value) {
			there = append(there, codes.Version{From: start, To: start.Add(time.Hour)})
		}
	}
	for i := range versions { // an hour whose row is lost or damaged still has what it said
		for _, v := range outside(&versions[i], there) {
			v.Requests, v.Open, v.Said = 0, 0, 0
			b.Before = append(b.Before, v)
		}
	}
	return b, nil
}

// last is the book to continue, nil for none, and the versions with which it was stored.
func (b *versionBook) last(facts map[string]json.RawMessage, instance string) (*versionFacts, []codes.Version, error) {
	if !b.Alone {
		raw := facts[instance]
		if facts = nil; raw != nil {
			facts = map[string]json.RawMessage{instance: raw}
		}
	}
	all, latest, err := readFacts(facts)
	return latest.Book, all.Authorization.Versions, err
}

// changes are the hours that changed since the last call, to be stored with the requests that were judged meanwhile.
func (b *versionBook) changes() (out []tally.Remembered) {
	for _, s := range b.setup.Judge.Versions.Changed() {
		value := append(fmt.Appendf(nil, "%s\n%d\n", b.Name, s.Hour), s.Value...)
		out = append(out, tally.Remembered{Kind: rememberedHours, Key: b.owner + "\x00" + strconv.FormatInt(s.Hour%hourSlots, 10), Value: value})
	}
	return out
}

// forgone has the hours stored with a later commit that were not with this one.
func (b *versionBook) forgone(all []tally.Remembered) {
	for i := range all {
		if _, hour, _, is := storedVersionHour(&all[i]); is && all[i].Kind == rememberedHours {
			b.setup.Judge.Versions.Unsaved(hour)
		}
	}
}

// storedVersionHour reads a row: the name of the book, the hour, and what it holds.
func storedVersionHour(r *tally.Remembered) (name string, hour int64, value []byte, is bool) {
	parts := strings.SplitN(string(r.Value), "\n", 3)
	if len(parts) < 3 {
		return "", 0, nil, false
	}
	hour, err := strconv.ParseInt(parts[1], 10, 64)
	return parts[0], hour, []byte(parts[2]), err == nil && hour >= 0 && hour < 1<<40
}

// forget forgets the hours that are too old, once the log is as far as that time. What they said is kept for as long as span.
func (b *versionBook) forget(to time.Time, span time.Duration) {
	if to.IsZero() {
		return
	}
	b.Oldest = to.Add(-span).UTC()
	keep := evidence.HourOf(later(b.Oldest, to.Add(-hoursKept))).Start()
	said := versionsOf(b.setup, b.setup.Judge.Versions.Forget(keep))
	b.Before = since(append(b.Before, said...), nil, b.Oldest)
	if len(said) > 0 {
		b.From = later(b.From, keep).UTC()
	}
}

// told are all versions, with those that were found in the hours of the book.
func (b *versionBook) told(found []codes.Version) []codes.Version {
	return since(b.Before, found, b.Oldest)
}

// united are versions of several who tell of the same hours: of several instances, or of before and since. Nothing that any of them says is lost, and their order
// does not matter. Those that say the same of hours that touch are one.
func united(all []codes.Version) (out []codes.Version) {
	var telling []codes.Version
	nothing := func(v *codes.Version) bool {
		return v.Basis == string(version.Nothing) && v.Requests+v.Open+v.Doubts+v.Against == 0 && !v.Moved
	}
	for i := range all {
		if !nothing(&all[i]) {
			telling = append(telling, all[i])
		}
	}
	parts := telling
	for i := range all {
		if nothing(&all[i]) { // what was assumed of an hour in which somebody else judged requests is no matter
			parts = append(parts, outside(&all[i], telling)...)
		}
	}
	type stretch struct {
		codes.Version
		says string
	}
	order := func(a, b stretch) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), strings.Compare(a.says, b.says), cmp.Compare(a.Requests, b.Requests), cmp.Compare(a.Open, b.Open),
			cmp.Compare(a.Said, b.Said), cmp.Compare(a.Against, b.Against), cmp.Compare(a.Doubts, b.Doubts), slices.Compare(a.Examples, b.Examples))
	}
	sorted := make([]stretch, len(parts))
	for i := range parts {
		sorted[i] = stretch{parts[i], saying(&parts[i])}
	}
	slices.SortFunc(sorted, order)
	last := map[string]int{}
	var joined []stretch
	for i := range sorted {
		v := &sorted[i]
		at, there := last[v.says]
		if !there || v.From.After(joined[at].To) {
			last[v.says] = len(joined)
			joined = append(joined, *v)
			continue
		}
		o := &joined[at]
		o.To = later(o.To, v.To)
		addCounts(&o.Version, &v.Version)
		o.Examples = slices.Clone(o.Examples)
		for _, id := range v.Examples {
			if len(o.Examples) < 5 && !slices.Contains(o.Examples, id) {
				o.Examples = append(o.Examples, id)
			}
		}
	}
	slices.SortFunc(joined, order)
	for i := range joined {
		out = append(out, joined[i].Version)
	}
	return out
}

// saying is what a version says, whenever it does and of however many requests. It is the same where sameVersion is true of two that touch.
func saying(v *codes.Version) string {
	of := *v
	of.From, of.To, of.Said, of.Requests, of.Open, of.Examples = time.Time{}, time.Time{}, 0, 0, 0, nil
	of.Against, of.Doubts = min(of.Against, 1), min(of.Doubts, 1)
	b, err := json.Marshal(&of)
	if err != nil {
		return "" // of strings and numbers
	}
	return string(b)
}

// outside are the parts of a version in whose hours none of the others is.
func outside(v *codes.Version, others []codes.Version) (out []codes.Version) {
	for h := evidence.HourOf(v.From); h.Start().Before(v.To); h++ {
		if slices.ContainsFunc(others, func(o codes.Version) bool { return o.From.Before(h.End()) && o.To.After(h.Start()) }) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].To.Equal(h.Start()) {
			out[last].To = h.End()
			continue
		}
		part := *v
		part.From, part.To = h.Start(), h.End()
		out = append(out, part)
	}
	return out
}
