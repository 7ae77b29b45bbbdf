package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Options say how much is kept, and for how long. The zero value has the defaults.
type Options struct {
	// ReadOnly opens the store to read what another process writes, or wrote.
	ReadOnly bool
	// Retention is how long the counts of an hour are kept; 0 is 90 days.
	Retention time.Duration
	// Step is how finely counts are kept: an hour, or what an hour has a whole number of; whole seconds. It is the store's from when it was
	// made. 0 is what the store has, or an hour for a new one.
	Step time.Duration
	// Hourly is how long they are kept by the step; older ones are kept by the day (UTC). 0 is 7 days.
	Hourly time.Duration
	// DedupeFor is how much later than others, by the log's times, an event may come again and be known; 0 is an hour.
	DedupeFor time.Duration
	// IdleLane is after how long without a commit a lane no longer holds back what is forgotten; 0 is a day.
	IdleLane time.Duration
	// MaxGroups bounds the groups of findings and the nodes of an hour, as tally.MaxGroups does, which is the default.
	MaxGroups int
	// MaxBytes is what Shrink holds the store to; 0 is no bound.
	MaxBytes int64
	// Schema is the schema in a PostgreSQL database, made where it is missing; "" is the DSN's search_path, or else that of Cluster.
	Schema string
	// Cluster is the name of the cluster whose events the store has. In PostgreSQL each cluster has a schema of its own, which is found by the name, or
	// made; a store of another cluster is refused with an *OtherClusterError. "" is the schema "nodetrail", which has no name; where it is missing and
	// one cluster is there to be read, that one. SQLite ignores it.
	Cluster string
	// ByName is whether what is read is found by Cluster alone, whatever Schema and the DSN say.
	ByName bool
	// MaxConns bounds the connections to PostgreSQL; 0 is what the DSN says, or else 4.
	MaxConns int
	// Log receives what does not stop the store.
	Log zerolog.Logger
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		of   *time.Duration
		want time.Duration
	}{{&o.Retention, 90 * 24 * time.Hour}, {&o.Hourly, 7 * 24 * time.Hour}, {&o.DedupeFor, time.Hour}, {&o.IdleLane, 24 * time.Hour}} {
		if *d.of <= 0 {
			*d.of = d.want
		}
	}
	if o.MaxGroups <= 0 {
		o.MaxGroups = tally.MaxGroups
	}
	return o
}

// Store is an open store. Its methods may be called concurrently; those that write wait for each other.
type Store struct {
	db      engine
	options Options
	owner   []byte // of the lanes that this Store acquired
	seconds int64  // of a step

	turn  turn // held while writing
	known *known
	aging aging
	// folded is when the evidence of commits was merged last, and added counts them since this Store was opened.
	folded time.Time
	added  int64
	// observed is made anew by each commit.
	observed rules.Observations
	leases   map[string]beat
	// maxMemory and foldEvery are the constants, but in tests.
	maxMemory int64
	foldEvery time.Duration
}

var _ tally.Store = (*Store)(nil)

var errReadOnly = errors.New("the store was opened to read only")

// OpenSQLite opens the embedded store in the file, which it makes, with its folder, where it is missing. A second process, or a second
// Store, that would write to it is refused; any may read (Options.ReadOnly). An older schema is brought up to date, a newer one refused.
func OpenSQLite(ctx context.Context, path string, o Options) (*Store, error) {
	o = o.withDefaults()
	var db *embedded
	var err error
	if o.ReadOnly {
		db, err = openEmbeddedReader(ctx, path, len(migrations))
	} else {
		db, err = openEmbedded(ctx, path, o.Log, migrations)
	}
	if err != nil {
		return nil, err
	}
	return newStore(ctx, db, o)
}

// OpenPostgres opens the store of a cluster in a PostgreSQL database, which several processes may write to. The DSN is a URL or key=value pairs, as
// libpq has them. No error holds its password. To read a cluster that is not there is an *UnknownClusterError.
func OpenPostgres(ctx context.Context, dsn string, o Options) (*Store, error) {
	o = o.withDefaults()
	db, err := openShared(ctx, dsn, o, migrations)
	if err != nil {
		return nil, err
	}
	return newStore(ctx, db, o)
}

func newStore(ctx context.Context, db engine, o Options) (*Store, error) {
	owner := make([]byte, 16)
	_, _ = rand.Read(owner) // it never fails
	s := &Store{db: db, turn: newTurn(), options: o, owner: owner, known: newKnown(o.MaxGroups), aging: aging{elapsed: time.Now}, leases: map[string]beat{}, maxMemory: maxMemory, foldEvery: foldEvery}
	if err := s.settle(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return s, nil
}

// closeWithin is how long Close waits for who writes.
const closeWithin = 15 * time.Second

// Close closes the store. What was committed is stored already. Where somebody writes to a server that does not answer, it is left open.
func (s *Store) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), closeWithin)
	defer stop()
	if err := s.turn.take(ctx); err != nil {
		return fmt.Errorf("closing %s: %w", s.db.name(), err)
	}
	defer s.turn.give()
	if err := s.db.close(); err != nil {
		return fmt.Errorf("closing %s: %w", s.db.name(), err)
	}
	return nil
}

// write runs f in a transaction; the caller holds mu.
func (s *Store) write(ctx context.Context, doing string, f func(tx) error) error {
	return s.writeAs(ctx, false, doing, f)
}

func (s *Store) writeAs(ctx context.Context, alone bool, doing string, f func(tx) error) error {
	if s.options.ReadOnly {
		return fmt.Errorf("%s: %w", doing, errReadOnly)
	}
	if err := s.db.write(ctx, alone, f); err != nil {
		return fmt.Errorf("%s in %s: %w", doing, s.db.name(), err)
	}
	return nil
}

func (s *Store) read(ctx context.Context, doing string, f func(reader) error) error {
	if err := s.db.read(ctx, f); err != nil {
		return fmt.Errorf("%s from %s: %w", doing, s.db.name(), err)
	}
	return nil
}

// Acquire makes this Store the lane's owner. It is refused with source.ErrFenced where another one owns the lane under a higher fence.
// Under an equal one the last to acquire owns it, but for fence 0, under which nobody is ever refused. recent bounds Lane.Recent, which
// holds the IDs of the latest times.
func (s *Store) Acquire(ctx context.Context, lane string, fence int64, recent int) (*tally.Lane, error) {
	if err := s.turn.take(ctx); err != nil {
		return nil, err
	}
	defer s.turn.give()
	var out *tally.Lane
	err := s.write(ctx, "acquiring "+lane, func(w tx) (err error) {
		out, err = s.acquire(ctx, w, lane, fence, recent)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) acquire(ctx context.Context, w tx, lane string, fence int64, recent int) (*tally.Lane, error) {
	name, out := laneText(lane), &tally.Lane{}
	now := nanos(time.Now(), noLast)
	err := w.exec(ctx, `INSERT INTO lanes (lane, fence, owner, position, latest, updated) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
		name, fence, []byte{}, []byte{}, int64(noLast), now)
	if err != nil {
		return nil, err
	}
	stored, latest, position := int64(0), int64(0), []byte(nil)
	err = w.each(ctx, s.db.dialect().sql(`SELECT fence, position, latest FROM lanes WHERE lane = $1 {lock}`), []any{name},
		func(scan func(...any) error) error { return scan(&stored, &position, &latest) })
	if err != nil {
		return nil, err
	}
	if stored > fence {
		return nil, fmt.Errorf("under fence %d, and it has %d: %w", fence, stored, source.ErrFenced)
	}
	out.Position, out.Latest = string(position), fromNanos(latest)
	if err := w.exec(ctx, `UPDATE lanes SET fence = $2, owner = $3, updated = $4 WHERE lane = $1`, name, fence, s.owner, now); err != nil {
		return nil, err
	}
	err = w.each(ctx, `SELECT id, event, until FROM opened WHERE lane = $1 ORDER BY until, id`, []any{name}, func(scan func(...any) error) error {
		var id, event []byte
		var until int64
		if err := scan(&id, &event, &until); err != nil {
			return err
		}
		o := tally.Opened{Event: event, Until: fromNanos(until)}
		copy(o.ID[:], id)
		out.Opened = append(out.Opened, o)
		return nil
	})
	if err != nil || recent <= 0 {
		return out, err
	}
	err = w.each(ctx, `SELECT id, answer FROM seen ORDER BY second DESC, id DESC LIMIT $1`, []any{int64(recent)}, func(scan func(...any) error) error {
		var id, answer []byte
		if err := scan(&id, &answer); err != nil {
			return err
		}
		var one tally.Seen
		copy(one.ID[:], id)
		copy(one.Answer[:], answer)
		out.Recent = append(out.Recent, one)
		return nil
	})
	return out, err
}

// Memory returns the rules' memory, the oldest first.
func (s *Store) Memory(ctx context.Context) ([]tally.Remembered, error) {
	var out []tally.Remembered
	err := s.read(ctx, "reading the rules' memory", func(r reader) error {
		out = nil
		return r.each(ctx, `SELECT kind, key, value FROM memory ORDER BY at, kind, id`, nil, func(scan func(...any) error) error {
			var kind string
			var key, value []byte
			if err := scan(&kind, &key, &value); err != nil {
				return err
			}
			kind, err := unescape(kind)
			out = append(out, tally.Remembered{Kind: kind, Key: string(key), Value: value})
			return err
		})
	})
	return out, err
}

// Facts returns the facts that each instance stored last.
func (s *Store) Facts(ctx context.Context) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	err := s.read(ctx, "reading facts", func(r reader) error {
		return r.each(ctx, `SELECT instance, body FROM facts`, nil, func(scan func(...any) error) error {
			var instance string
			var body []byte
			if err := scan(&instance, &body); err != nil {
				return err
			}
			instance, err := unescape(instance)
			out[instance] = body
			return err
		})
	})
	return out, err
}

// Alert is an active alert.
type Alert struct {
	Key string
	// First and Last are when what it tells of began and came last.
	First, Last time.Time
	// Payload is the caller's own, as JSON.
	Payload json.RawMessage
}

// Alerts returns the alerts that were put and not deleted, the oldest first.
func (s *Store) Alerts(ctx context.Context) ([]Alert, error) {
	var out []Alert
	err := s.read(ctx, "reading alerts", func(r reader) error {
		out = nil
		return r.each(ctx, `SELECT key, first, last, payload FROM alerts ORDER BY first, id`, nil, func(scan func(...any) error) error {
			var key, payload []byte
			var first, last int64
			err := scan(&key, &first, &last, &payload)
			out = append(out, Alert{Key: string(key), First: fromNanos(first), Last: fromNanos(last), Payload: payload})
			return err
		})
	})
	return out, err
}

// PutAlerts stores alerts, each in place of the one with its key, and deletes those with the keys gone; all or nothing.
func (s *Store) PutAlerts(ctx context.Context, put []Alert, gone []string) error {
	rows := map[string]*Alert{}
	for i := range put {
		rows[put[i].Key] = &put[i]
	}
	b, deleted := &batch{t: &alertsTable}, &batch{}
	for _, k := range sortedByHash(rows) {
		a, id := rows[k], hash(k)
		b.add(id[:], []byte(k), nanos(a.First, noFirst), nanos(a.Last, noLast), []byte(a.Payload))
	}
	set := map[string]bool{}
	for _, k := range gone {
		set[k] = true
	}
	for _, k := range sortedByHash(set) {
		id := hash(k)
		deleted.add(id[:])
	}
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	return s.write(ctx, "storing alerts", func(w tx) error {
		if err := w.upsert(ctx, b); err != nil {
			return err
		}
		return w.remove(ctx, &alertsTable, deleted)
	})
}
