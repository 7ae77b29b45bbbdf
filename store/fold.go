package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/tally"
)

// The kinds of notes.
const (
	disagreement = iota
	place
)

// delta is what a commit adds to an hour.
type delta struct {
	*tally.Tally
	known *hourKeys
}

// counts adds the entries that are no duplicates to their hours, and the lanes' events.
func (w *work) counts(ctx context.Context) error {
	hours := map[int64]*delta{}
	of := func(hour int64) *delta {
		d := hours[hour]
		if d == nil {
			d = &delta{Tally: tally.New()}
			d.Bound(math.MaxInt) // the bound is the hour's, not the batch's
			hours[hour] = d
		}
		return d
	}
	for i := range w.marks {
		if m := &w.marks[i]; !m.duplicate {
			of(w.s.stepOf(m.entry.Time)).Add(m.entry)
		}
	}
	for i := range w.c.Lanes {
		l := &w.c.Lanes[i]
		if e := &l.Events; e.Read|e.Node|e.Judged|e.Duplicates|e.Malformed|e.Skipped != 0 || len(e.MalformedAt) > 0 {
			t := l.Latest
			if t.IsZero() {
				t = w.c.At
			}
			of(w.s.stepOf(t)).Events.Add(e)
		}
	}
	return w.s.put(ctx, w.w, hours)
}

// put adds the deltas to the rows.
func (s *Store) put(ctx context.Context, w tx, hours map[int64]*delta) error {
	order := slices.Sorted(maps.Keys(hours))
	tables := []*sqlTable{&nodesTable, &findingsTable, &ambientTable, &admissionTable, &notesTable, &hoursTable}
	batches := make([]batch, len(tables))
	for i := range tables {
		batches[i].t = tables[i]
	}
	for _, hour := range order {
		d := hours[hour]
		known, err := s.known.of(ctx, w, hour)
		if err != nil {
			return err
		}
		d.known = known
		d.nodeRows(hour, s.known.most, &batches[0])
		if err := d.findingRows(hour, &batches[1]); err != nil {
			return err
		}
		d.ambientRows(hour, &batches[2])
		d.admissionRows(hour, &batches[3])
		if err := d.noteRows(hour, &batches[4]); err != nil {
			return err
		}
		d.hourRow(hour, &batches[5])
	}
	for i := range batches {
		if err := w.upsert(ctx, &batches[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *delta) nodeRows(hour int64, most int, b *batch) {
	rows := map[string]*tally.Node{}
	for _, name := range slices.Sorted(maps.Keys(d.Nodes)) {
		n, key := d.Nodes[name], escape(name)
		if !d.known.nodes[key] && len(d.known.nodes) >= most {
			key = tally.Others
		}
		d.known.nodes[key] = true
		if to := rows[key]; to != nil {
			to.Requests += n.Requests
			to.Deny += n.Deny
			to.Unknown += n.Unknown
			to.Excess += n.Excess
		} else {
			rows[key] = n
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		n := rows[key]
		b.add(hour, key, n.Requests, n.Deny, n.Excess, n.Unknown)
	}
}

// findingRows puts groups that are too many into wider ones, as a tally does.
func (d *delta) findingRows(hour int64, b *batch) error {
	type row struct {
		key string
		g   *tally.Group
	}
	rows := map[tally.ID]*row{}
	all := make([]row, 0, len(d.Groups))
	keys := make(map[string]tally.Key, len(d.Groups))
	for k, g := range d.Groups {
		text := keyText(&k)
		all, keys[text] = append(all, row{text, g}), k
	}
	slices.SortFunc(all, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	for i := range all {
		r := &all[i]
		id := hash(r.key)
		if !d.known.findings[id] {
			k := keys[r.key]
			k, room := d.known.rooms.Place(&k, r.g.Class(&k), r.g.Wide, func(k tally.Key) bool { return d.known.findings[hash(keyText(&k))] })
			if room.Wide {
				r.key, r.g.Wide, r.g.Reason, r.g.Params = keyText(&k), true, "", nil
				id = hash(r.key)
			}
		}
		d.known.findings[id] = true
		if to := rows[id]; to != nil {
			merge(to.g, r.g)
		} else {
			rows[id] = r
		}
	}
	for _, id := range sortedIDs(rows) {
		addFinding(b, hour, id, rows[id].key, rows[id].g)
	}
	return nil
}

// addFinding adds the row of a group.
func addFinding(b *batch, hour int64, id tally.ID, key string, g *tally.Group) {
	b.add(hour, id[:], key, g.Count, g.Low, nanos(g.First, noFirst), nanos(g.Last, noLast), escape(string(g.Reason)), paramsText(g.Params),
		int64(g.Severity), outcome(g), flag(g.Wide), auditIDs(g.AuditIDs), int64(len(g.AuditIDs)), gatheredText(g.Origins.Users),
		gatheredText(g.Origins.Groups), gatheredText(g.Origins.Impersonated), gatheredText(addressTexts(g.Origins.Addresses)), gatheredText(answerTexts(g.Origins.Answers)))
}

// merge adds one group to another that stands for many too.
func merge(to, g *tally.Group) {
	t := tally.New()
	t.Groups[tally.Key{}] = to
	t.MergeGroup(tally.Key{}, g)
}

// outcome is what became of a group's requests, in the column allowed.
func outcome(g *tally.Group) int64 { return max(flag(g.Allowed), 2*flag(g.Succeeded)) }

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// auditIDs writes IDs with a space between, which no escaped ID holds.
func auditIDs(ids []string) string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = strings.ReplaceAll(escape(id), " ", `\20`)
	}
	return strings.Join(all, " ")
}

// parseAuditIDs reads the first few of the IDs; the row may hold more.
func parseAuditIDs(s string, listed int64) ([]string, error) {
	if listed == 0 {
		return nil, nil
	}
	all := strings.SplitN(s, " ", tally.MaxAuditIDs+1)
	all = all[:min(len(all), tally.MaxAuditIDs)]
	for i := range all {
		var err error
		if all[i], err = unescape(all[i]); err != nil {
			return nil, fmt.Errorf("reading audit IDs: %w", err)
		}
	}
	return all, nil
}

func (d *delta) ambientRows(hour int64, b *batch) {
	rows, keys := map[tally.ID]int64{}, map[tally.ID]string{}
	all := map[string]int64{}
	for k, n := range d.Ambient {
		all[ambientText(&k)] += n
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		n, id := all[key], hash(key)
		if !d.known.ambient[id] && len(d.known.ambient) >= tally.MaxAmbient-1 {
			key = ambientText(&tally.AmbientKey{})
			id = hash(key)
		}
		d.known.ambient[id] = true
		rows[id] += n
		keys[id] = key
	}
	for _, id := range sortedIDs(rows) {
		b.add(hour, id[:], keys[id], rows[id])
	}
}

func (d *delta) admissionRows(hour int64, b *batch) {
	rows := map[string]int64{}
	for k, n := range d.Admission {
		rows[admissionText(&k)] = *n
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		b.add(hour, key, rows[key])
	}
}

// noteRows lists disagreements, and places where the input was malformed, as far as the hour has room.
func (d *delta) noteRows(hour int64, b *batch) error {
	type note struct {
		id   tally.ID
		body []byte
	}
	var notes [2][]note
	add := func(kind int, id tally.ID, v any) error {
		body, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("writing a note: %w", err)
		}
		notes[kind] = append(notes[kind], note{id, body})
		return nil
	}
	for i := range d.Disagreements {
		if d.known.notes[disagreement] >= tally.MaxDisagree {
			d.Sums.DisagreeMore += int64(len(d.Disagreements) - i)
			break
		}
		g := &d.Disagreements[i]
		// Two requests of one ID differ in their time.
		if err := add(disagreement, hash(g.Time.String()+" "+g.AuditID), g); err != nil {
			return err
		}
		d.known.notes[disagreement]++
	}
	for i := range d.Events.MalformedAt {
		p := &d.Events.MalformedAt[i]
		if d.known.notes[place] >= tally.MaxMalformed {
			break
		}
		p.File, p.Cause = tally.Bounded(p.File), tally.Bounded(p.Cause)
		if err := add(place, hash(fmt.Sprint(p.Line, " ", len(p.File), " ", p.File, " ", p.Cause)), p); err != nil {
			return err
		}
		d.known.notes[place]++
	}
	for kind := range notes {
		slices.SortFunc(notes[kind], func(a, b note) int { return bytes.Compare(a.id[:], b.id[:]) })
		notes[kind] = slices.CompactFunc(notes[kind], func(a, b note) bool { return a.id == b.id })
		for _, n := range notes[kind] {
			b.add(hour, int64(kind), n.id[:], n.body)
		}
	}
	return nil
}

// sumsOf are the numbers of an hour that add up, in the order of sumNames.
func sumsOf(s *tally.Sums, e *tally.Events) []*int64 {
	return []*int64{
		&s.Allow, &s.Deny, &s.Unknown, &s.RaceAllow, &s.RaceDeny, &s.Undecided, &s.Compared, &s.Agree, &s.RacesCompared, &s.RacesAgree,
		&s.ReasonsCompared, &s.ReasonsEqual, &s.DisagreeMore,
		&e.Read, &e.Node, &e.Judged, &e.Duplicates, &e.Malformed, &e.Skipped,
	}
}

func (d *delta) hourRow(hour int64, b *batch) {
	row := []any{hour, nanos(d.From, noFirst), nanos(d.To, noLast)}
	for _, n := range sumsOf(&d.Sums, &d.Events) {
		row = append(row, *n)
	}
	b.add(append(row, int64(1))...)
}
