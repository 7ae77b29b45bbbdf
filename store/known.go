package store

import (
	"context"

	"github.com/nodetrail/nodetrail/tally"
)

// known remembers which rows hours have, so that their number can be bounded without asking the database each time. It is what this
// process knows: analyzers that share a database can together exceed a bound as many times as they are.
type known struct {
	most  int
	hours map[int64]*hourKeys
	tick  int64
}

type hourKeys struct {
	nodes    map[string]bool
	findings map[tally.ID]bool
	rooms    *tally.Rooms // of the findings
	ambient  map[tally.ID]bool
	notes    [2]int
	used     int64
}

func (k *hourKeys) size() int { return len(k.nodes) + len(k.findings) + len(k.ambient) }

// maxKnown bounds the keys in memory, of all hours but the one used last.
const maxKnown = 200_000

func newKnown(most int) *known { return &known{most: most, hours: map[int64]*hourKeys{}} }

// forget is for when the database may hold less than what was put in.
func (k *known) forget() { clear(k.hours) }

// shrink forgets the hours that were not used for longest.
func (k *known) shrink() {
	for {
		total, oldest := 0, int64(0)
		for h, keys := range k.hours {
			total += keys.size() + 100
			if was := k.hours[oldest]; was == nil || keys.used < was.used {
				oldest = h
			}
		}
		if total <= maxKnown || len(k.hours) <= 1 {
			return
		}
		delete(k.hours, oldest)
	}
}

func (k *known) of(ctx context.Context, r reader, hour int64) (*hourKeys, error) {
	k.tick++
	keys := k.hours[hour]
	if keys != nil {
		keys.used = k.tick
		return keys, nil
	}
	keys = &hourKeys{nodes: map[string]bool{}, findings: map[tally.ID]bool{}, rooms: tally.NewRooms(k.most), ambient: map[tally.ID]bool{}, used: k.tick}
	err := r.each(ctx, `SELECT node FROM nodes WHERE hour = $1`, []any{hour}, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		keys.nodes[name] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachFinding(ctx, r, `hour = $1`, []any{hour}, func(_ int64, key tally.Key, g *tally.Group) {
		keys.findings[hash(keyText(&key))] = true
		keys.rooms.Place(&key, g.Class(&key), g.Wide, func(tally.Key) bool { return false })
	})
	if err != nil {
		return nil, err
	}
	err = r.each(ctx, `SELECT id FROM ambient WHERE hour = $1`, []any{hour}, func(scan func(...any) error) error {
		var id []byte
		if err := scan(&id); err != nil {
			return err
		}
		var one tally.ID
		copy(one[:], id)
		keys.ambient[one] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.each(ctx, `SELECT kind, count(*) FROM notes WHERE hour = $1 GROUP BY kind`, []any{hour}, func(scan func(...any) error) error {
		var kind, n int64
		if err := scan(&kind, &n); err != nil {
			return err
		}
		keys.notes[kind&1] = int(n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	k.hours[hour] = keys
	return keys, nil
}
