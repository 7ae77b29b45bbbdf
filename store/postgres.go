package store

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

// shared is PostgreSQL.
type shared struct {
	pool   *pgxpool.Pool
	where  string // without the password
	writer []byte // of this process's row in writers
	lock   int64  // the key of the advisory lock that writers to this store share
	log    zerolog.Logger

	mu    sync.Mutex    // one transaction writes at a time; who waits for long waits for the Store's turn
	done  int64         // numbers the transactions
	bound time.Duration // of the next attempt
}

// retryFor bounds how long a transaction is tried anew while the database cannot be reached. A transaction of which it is not known
// whether it was committed is tried until the context ends: giving up would mean to count it again, or not at all. attemptFor bounds a single
// attempt: a server that is reached may never answer. The bound doubles with each attempt that it cuts, up to attemptsWithin, since a server may be slow.
// What is done alone, such as pruning, has that much at once.
const (
	retryFor       = 30 * time.Second
	attemptFor     = 30 * time.Second
	attemptsWithin = 10 * time.Minute
)

// Keys of advisory locks: one for the schema, one that writers share and that who prunes has alone. A store that was made since several clusters
// may share a database has a key of its own in place of the second, so that clusters do not wait for each other.
const (
	schemaLock = 0x6e6f6465_74726101
	pruneLock  = 0x6e6f6465_74726102
)

// CheckDSN says what is wrong with a PostgreSQL DSN, without quoting it. It connects to nothing.
func CheckDSN(dsn string) error {
	if _, err := pgxpool.ParseConfig(dsn); err != nil {
		return fmt.Errorf("it is not a PostgreSQL DSN: %w", withoutDSN(err))
	}
	return nil
}

func openShared(ctx context.Context, dsn string, o Options, versions []migration) (*shared, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the PostgreSQL DSN: %w", withoutDSN(err))
	}
	c := config.ConnConfig
	p := &shared{where: describe(c), writer: make([]byte, 16), lock: pruneLock, log: o.Log, bound: attemptFor}
	_, _ = crand.Read(p.writer) // never fails
	schema := o.Schema
	switch path := c.RuntimeParams["search_path"]; {
	case o.ByName || schema == "" && path == "":
		if schema, err = placeOf(ctx, c, o); err != nil {
			return nil, fmt.Errorf("opening %s: %w", p.name(), lineError{err})
		}
		c.RuntimeParams["search_path"] = quoted(schema)
	case schema != "":
		c.RuntimeParams["search_path"] = quoted(schema)
	case !strings.ContainsAny(path, `,"$ `):
		schema = strings.ToLower(path)
	}
	tune(c)
	if o.ReadOnly {
		setDefault(c, "default_transaction_read_only", "on")
	}
	switch {
	case o.MaxConns > 0:
		config.MaxConns = int32(min(o.MaxConns, math.MaxInt32))
	case !strings.Contains(dsn, "pool_max_conns"):
		config.MaxConns = 4
	}
	if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("opening %s: %w", p.name(), err)
	}
	if err := p.prepare(ctx, schema, o, versions); err != nil {
		p.pool.Close()
		return nil, fmt.Errorf("opening %s: %w", p.name(), lineError{err})
	}
	return p, nil
}

func setDefault(c *pgx.ConnConfig, name, value string) {
	if _, is := c.RuntimeParams[name]; !is {
		c.RuntimeParams[name] = value
	}
}

// tune sets what the DSN leaves open. An analyzer that stands still within a transaction, or whose machine is gone, must not hold up the others.
func tune(c *pgx.ConnConfig) {
	setDefault(c, "application_name", "nodetrail")
	setDefault(c, "idle_in_transaction_session_timeout", "15s")
	setDefault(c, "tcp_keepalives_idle", "30")
	setDefault(c, "tcp_keepalives_interval", "10")
	setDefault(c, "tcp_keepalives_count", "3")
}

// lineError is an error in one line; pgx has one for each address that it tried.
type lineError struct{ error }

func (e lineError) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e lineError) Unwrap() error { return e.error }

func quoted(schema string) string { return pgx.Identifier{schema}.Sanitize() }

func describe(c *pgx.ConnConfig) string {
	return "PostgreSQL " + c.User + "@" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// withoutDSN leaves out of an error what quotes the DSN, which holds the password.
func withoutDSN(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var p *pgconn.ParseConfigError
	if errors.As(err, &p) {
		if inner := errors.Unwrap(p); inner != nil {
			return withoutDSN(inner)
		}
		return errors.New("it is not a DSN")
	}
	return err
}

func (p *shared) prepare(ctx context.Context, schema string, o Options, versions []migration) error {
	if o.ReadOnly {
		return p.read(ctx, func(r reader) error {
			err := check(ctx, r, len(versions))
			var e *pgconn.PgError
			if errors.As(err, &e) && e.Code == "42P01" {
				return fmt.Errorf("nothing is stored there yet: %w", err)
			}
			if err != nil || o.Cluster == "" {
				return err
			}
			return ofCluster(ctx, r, schema, o.Cluster)
		})
	}
	return pgx.BeginFunc(ctx, p.pool, func(t pgx.Tx) error {
		w := &sharedTx{t: t}
		if err := w.exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
			return err
		}
		if schema != "" {
			there := false
			if err := w.each(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, []any{schema},
				func(scan func(...any) error) error { return scan(&there) }); err != nil {
				return err
			}
			if !there {
				if err := w.exec(ctx, `CREATE SCHEMA `+quoted(schema)); err != nil {
					return fmt.Errorf("making the schema %s: %w", schema, err)
				}
			}
		}
		fresh := false
		if err := w.each(ctx, `SELECT to_regclass('meta') IS NULL`, nil, func(scan func(...any) error) error { return scan(&fresh) }); err != nil {
			return err
		}
		if err := migrate(ctx, w, versions, p.dialect()); err != nil {
			return err
		}
		if err := w.flush(ctx); err != nil {
			return fmt.Errorf("bringing the schema to version %d: %w", len(versions), err)
		}
		if len(versions) < clusterVersion {
			return nil
		}
		if fresh {
			if err := w.exec(ctx, `INSERT INTO meta (name, value) VALUES ('lock', $1)`, rand.Int64()); err != nil {
				return err
			}
		}
		if err := w.each(ctx, `SELECT value FROM meta WHERE name = 'lock'`, nil, func(scan func(...any) error) error { return scan(&p.lock) }); err != nil {
			return err
		}
		if err := claim(ctx, w, schema, o.Cluster); err != nil {
			return err
		}
		return w.flush(ctx)
	})
}

func (p *shared) name() string { return p.where }

// size takes tables as they are, but of findings, which may have room left by those that were deleted, the rows.
func (p *shared) size(ctx context.Context, r reader, most int64) (n int64, err error) {
	const tables = `SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = current_schema() AND c.relname <> $1`
	one := func(sql string, args ...any) (got int64, err error) {
		err = r.each(ctx, sql, args, func(scan func(...any) error) error { return scan(&got) })
		return got, err
	}
	if n, err = one(tables, ""); err != nil || n <= most {
		return n, err
	}
	others, err := one(tables, findingsTable.name)
	if err != nil {
		return 0, err
	}
	rows, err := one(findingsBytes(), int64(rowBytes))
	return others + rows, err
}

func (p *shared) dialect() *dialect {
	// The order of texts must not depend on the locale of the server, which may change.
	return &dialect{integer: "BIGINT", text: `TEXT COLLATE "C"`, bytes: "BYTEA", least: "least", greatest: "greatest", instr: "strpos", lock: "FOR UPDATE"}
}

func (p *shared) close() error {
	p.pool.Close()
	return nil
}

// write numbers its transactions and stores the number with each. Where the connection is lost during the commit, that number, read
// under a lock that the lost transaction has until it ends, tells whether it was stored.
func (p *shared) write(ctx context.Context, alone bool, f func(tx) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	unsure, began := false, time.Now()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		most := p.bound
		if alone {
			most = attemptsWithin
		}
		one, stop := context.WithTimeout(ctx, most)
		err := p.attempt(one, alone, &unsure, f)
		cut := one.Err() != nil && ctx.Err() == nil
		stop()
		switch {
		case cut && !alone: // it may be slow, and not hang
			p.bound = min(2*p.bound, attemptsWithin)
		case err == nil && time.Since(began) < attemptFor:
			p.bound = attemptFor
		}
		if err == nil {
			return nil
		}
		if !unsure && (!transient(err) || time.Since(began) > retryFor) {
			return err
		}
		p.log.Warn().Err(lineError{err}).Bool("unsure", unsure).Str("database", p.where).Msg("a transaction is tried again")
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			if unsure {
				return fmt.Errorf("it is not known whether it was stored: %w: %w", ctx.Err(), err)
			}
			return errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// attempt runs the transaction once. It sets unsure when it is not known how the transaction ended, and clears it when that of the
// attempt before is.
func (p *shared) attempt(ctx context.Context, alone bool, unsure *bool, f func(tx) error) (err error) {
	t, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// What cannot be taken back here ends with the connection.
			undo, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer stop()
			_ = t.Rollback(undo)
		}
	}()
	w := &sharedTx{t: t}
	if *unsure {
		done := int64(0)
		if err := w.each(ctx, `SELECT done FROM writers WHERE writer = $1 FOR UPDATE`, []any{p.writer},
			func(scan func(...any) error) error { return scan(&done) }); err != nil {
			return err
		}
		*unsure = false
		if done == p.done {
			return t.Rollback(ctx)
		}
	}
	if err := p.locked(ctx, w, alone, f); err != nil {
		return err
	}
	// Once begun it is not given up, so that there is an answer.
	commit, stop := context.WithTimeout(context.WithoutCancel(ctx), retryFor)
	defer stop()
	err = t.Commit(commit)
	var refused *pgconn.PgError
	*unsure = err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) && (!errors.As(err, &refused) || closes(refused))
	return err
}

func (p *shared) locked(ctx context.Context, w *sharedTx, alone bool, f func(tx) error) error {
	lock := `SELECT pg_advisory_xact_lock_shared($1)`
	if alone {
		lock = `SELECT pg_advisory_xact_lock($1)`
	}
	if err := w.exec(ctx, lock, p.lock); err != nil {
		return err
	}
	if err := f(w); err != nil {
		return err
	}
	if err := w.exec(ctx, `INSERT INTO writers (writer, done, at) VALUES ($1, $2, $3)
		ON CONFLICT (writer) DO UPDATE SET done = excluded.done, at = excluded.at`, p.writer, p.done, time.Now().UnixNano()); err != nil {
		return err
	}
	return w.flush(ctx)
}

// transient says whether it makes sense to try again.
func transient(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return closes(e) || e.Code == "40001" || e.Code == "40P01" || e.Code == "55P03" || e.Code == "53300"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// closes says whether the server ends the connection with the error: classes 08 and 57P, and what stood idle for too long.
func closes(e *pgconn.PgError) bool {
	return strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "57P") || e.Code == "25P03"
}

func (p *shared) read(ctx context.Context, f func(reader) error) error {
	return pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(t pgx.Tx) error {
		return f(&sharedTx{t: t})
	})
}

// sharedTx sends statements together, up to the next one that answers.
type sharedTx struct {
	t     pgx.Tx
	queue pgx.Batch
}

func (w *sharedTx) flush(ctx context.Context) error {
	if w.queue.Len() == 0 {
		return nil
	}
	queue := w.queue
	w.queue = pgx.Batch{}
	return w.t.SendBatch(ctx, &queue).Close()
}

func (w *sharedTx) each(ctx context.Context, text string, args []any, f func(scan func(...any) error) error) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	rows, err := w.t.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *sharedTx) exec(_ context.Context, text string, args ...any) error {
	w.queue.Queue(text, args...)
	return nil
}

// arrays turns rows into a parameter for each column, and writes what selects them again.
func arrays(columns []column, b *batch) (source string, args []any) {
	types := [...]string{integer: "bigint[]", text: "text[]", blob: "bytea[]"}
	for i, c := range columns {
		if i > 0 {
			source += ", "
		}
		source += "$" + strconv.Itoa(i+1) + "::" + types[c.kind]
		switch c.kind {
		case integer:
			args = append(args, columnOf[int64](b, i, len(columns)))
		case text:
			args = append(args, columnOf[string](b, i, len(columns)))
		case blob:
			args = append(args, columnOf[[]byte](b, i, len(columns)))
		}
	}
	return "unnest(" + source + ")", args
}

func columnOf[T any](b *batch, i, columns int) []T {
	out := make([]T, 0, b.n)
	for ; i < len(b.args); i += columns {
		v, _ := b.args[i].(T) // the column's kind says so
		out = append(out, v)
	}
	return out
}

func (w *sharedTx) upsert(ctx context.Context, b *batch) error {
	if b.n == 0 {
		return nil
	}
	source, args := arrays(b.t.columns, b)
	d := (*shared)(nil).dialect()
	return w.exec(ctx, b.t.insert(d, "SELECT * FROM "+source), args...)
}

func (w *sharedTx) remove(ctx context.Context, t *sqlTable, keys *batch) error {
	if keys.n == 0 {
		return nil
	}
	source, args := arrays(t.columns[:t.key], keys)
	var where []string
	for _, c := range t.columns[:t.key] {
		where = append(where, "t."+c.name+" = k."+c.name)
	}
	return w.exec(ctx, "DELETE FROM "+t.name+" t USING "+source+" AS k ("+t.names(t.key)+") WHERE "+strings.Join(where, " AND "), args...)
}

// mark waits where another analyzer has stored an ID and not committed yet: then it was there, unless the other one fails.
func (w *sharedTx) mark(ctx context.Context, all []seenRequest) ([]seenBefore, error) {
	before := make([]seenBefore, len(all))
	seconds, ids, answers := make([]int64, len(all)), make([][]byte, len(all)), make([][]byte, len(all))
	at := make(map[seenKey]int, len(all))
	for i := range all {
		seconds[i], ids[i], answers[i] = all[i].second, all[i].id[:], answerBytes(&all[i].answer)
		before[i].there = true
		at[all[i].seenKey] = i
	}
	stored := 0
	err := w.each(ctx, `INSERT INTO seen (second, id, answer) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[])
		ON CONFLICT DO NOTHING RETURNING second, id`, []any{seconds, ids, answers}, func(scan func(...any) error) error {
		var key seenKey
		var id []byte
		if err := scan(&key.second, &id); err != nil {
			return err
		}
		copy(key.id[:], id)
		before[at[key]].there = false
		stored++
		return nil
	})
	if err != nil || stored == len(all) {
		return before, err
	}
	// What is locked here nobody else answers until this transaction ends. The rest has its answer.
	const those = ` FROM seen s JOIN unnest($1::bigint[], $2::bytea[]) AS k (second, id) ON s.second = k.second AND s.id = k.id`
	if err := w.exec(ctx, `SELECT 1`+those+` WHERE length(s.answer) = 0 ORDER BY s.second, s.id FOR UPDATE OF s`, seconds, ids); err != nil {
		return nil, err
	}
	err = w.each(ctx, `SELECT s.second, s.id, s.answer`+those, []any{seconds, ids}, func(scan func(...any) error) error {
		var key seenKey
		var id, answer []byte
		if err := scan(&key.second, &id, &answer); err != nil {
			return err
		}
		copy(key.id[:], id)
		if b := &before[at[key]]; b.there {
			copy(b.answer[:], answer)
		}
		return nil
	})
	return before, err
}
