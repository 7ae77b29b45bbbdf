package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

func (e *embedded) name() string { return "the store " + e.path }

func (e *embedded) size(ctx context.Context, r reader, _ int64) (n int64, err error) {
	err = r.each(ctx, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`, nil,
		func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

func (e *embedded) dialect() *dialect {
	return &dialect{integer: "INTEGER", text: "TEXT", bytes: "BLOB", least: "min", greatest: "max", instr: "instr", clustered: "WITHOUT ROWID"}
}

func (e *embedded) write(ctx context.Context, _ bool, f func(tx) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.broken != nil {
		return e.broken
	}
	if err := e.there(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return explain(err)
	}
	// A statement that is interrupted may end the transaction by itself, so once begun it goes through.
	ctx = context.WithoutCancel(ctx)
	err := f(&embeddedTx{e})
	if err == nil {
		if _, err = e.exec(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	if _, undo := e.exec(ctx, "ROLLBACK"); undo != nil && !strings.Contains(undo.Error(), "no transaction is active") {
		e.broken = fmt.Errorf("the store must be opened again: a batch could not be taken back: %w", undo)
		return errors.Join(explain(err), e.broken)
	}
	return explain(err)
}

// begin begins a transaction. While another program holds the file locked it waits, but not for long after ctx has ended, which SQLite's own wait does
// not heed.
func (e *embedded) begin(ctx context.Context) error {
	for until := time.Now().Add(lockedFor); ; {
		_, err := e.exec(context.WithoutCancel(ctx), "BEGIN IMMEDIATE")
		if code(err)&0xff != sqlite3.SQLITE_BUSY || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
	}
}

func (e *embedded) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	s := e.prepared[text]
	if s != nil {
		return s, nil
	}
	s, err := e.conn.PrepareContext(ctx, numbered(text))
	if err != nil {
		return nil, err
	}
	e.prepared[text] = s
	return s, nil
}

// numbered writes parameters as SQLite does: without their numbers where they come in order, once each. SQLite keeps a list of numbers, which the
// driver reads for each parameter that it binds.
func numbered(text string) string {
	var plain strings.Builder
	parts := strings.Split(text, "$")
	for i, part := range parts {
		if i > 0 {
			number := strconv.Itoa(i)
			rest, ok := strings.CutPrefix(part, number)
			if !ok || rest != "" && rest[0] >= '0' && rest[0] <= '9' {
				return strings.ReplaceAll(text, "$", "?")
			}
			plain.WriteByte('?')
			part = rest
		}
		plain.WriteString(part)
	}
	return plain.String()
}

func (e *embedded) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	s, err := e.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (e *embedded) read(ctx context.Context, f func(reader) error) (err error) {
	t, err := e.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return explain(err)
	}
	defer func() {
		// Of a transaction that failed nothing may be left to end.
		if undo := t.Rollback(); err == nil && undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = undo
		}
	}()
	return explain(f(embeddedReader{t}))
}

func forEach(rows *sql.Rows, f func(scan func(...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type embeddedReader struct{ t *sql.Tx }

func (r embeddedReader) each(ctx context.Context, text string, args []any, f func(scan func(...any) error) error) error {
	rows, err := r.t.QueryContext(ctx, numbered(text), args...)
	if err != nil {
		return err
	}
	return forEach(rows, f)
}

type embeddedTx struct{ e *embedded }

func (w *embeddedTx) each(ctx context.Context, text string, args []any, f func(scan func(...any) error) error) error {
	s, err := w.e.statement(ctx, text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	return forEach(rows, f)
}

func (w *embeddedTx) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.e.exec(ctx, text, args...)
	return err
}

// rowsAtOnce is how many rows a statement holds: more cost more to prepare and gain nothing.
const rowsAtOnce = 32

// values writes n rows of so many parameters.
func values(n, columns int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString([]string{"VALUES (", ", ("}[min(i, 1)])
		for c := range columns {
			if c > 0 {
				b.WriteString(", ")
			}
			b.WriteString("$" + strconv.Itoa(i*columns+c+1))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// inChunks calls f with the arguments of rowsAtOnce rows, and of single rows for what is left.
func inChunks(args []any, columns int, f func(rows int, args []any) error) error {
	for len(args) > 0 {
		rows := 1
		if len(args) >= rowsAtOnce*columns {
			rows = rowsAtOnce
		}
		if err := f(rows, args[:rows*columns]); err != nil {
			return err
		}
		args = args[rows*columns:]
	}
	return nil
}

func (w *embeddedTx) upsert(ctx context.Context, b *batch) error {
	if b.n == 0 {
		return nil
	}
	columns := len(b.t.columns)
	statements := [2]string{}
	return inChunks(b.args, columns, func(rows int, args []any) error {
		s := &statements[min(rows-1, 1)]
		if *s == "" {
			*s = b.t.insert(w.e.dialect(), values(rows, columns))
		}
		_, err := w.e.exec(ctx, *s, args...)
		return err
	})
}

func (w *embeddedTx) remove(ctx context.Context, t *sqlTable, keys *batch) error {
	var where []string
	for i, c := range t.columns[:t.key] {
		where = append(where, c.name+" = $"+strconv.Itoa(i+1))
	}
	s := "DELETE FROM " + t.name + " WHERE " + strings.Join(where, " AND ")
	for i := range keys.n {
		if _, err := w.e.exec(ctx, s, keys.args[i*t.key:(i+1)*t.key]...); err != nil {
			return err
		}
	}
	return nil
}

func (w *embeddedTx) mark(ctx context.Context, all []seenRequest) ([]seenBefore, error) {
	before := make([]seenBefore, len(all))
	columns := len(seenTable.columns)
	args := make([]any, 0, columns*len(all))
	for i := range all {
		args = append(args, all[i].second, all[i].id[:], answerBytes(&all[i].answer))
	}
	if _, err := w.e.exec(ctx, "SAVEPOINT mark"); err != nil {
		return nil, err
	}
	known := false
	err := inChunks(args, columns, func(rows int, args []any) error {
		if known {
			return nil
		}
		n, err := w.insertSeen(ctx, rows, args)
		known = n < int64(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	if known {
		// Some were there: only one by one tells which.
		if _, err := w.e.exec(ctx, "ROLLBACK TO mark"); err != nil {
			return nil, err
		}
		for i := range all {
			n, err := w.insertSeen(ctx, 1, args[columns*i:columns*(i+1)])
			if err != nil {
				return nil, err
			}
			if n == 1 {
				continue
			}
			before[i].there = true
			if err := w.each(ctx, "SELECT answer FROM seen WHERE second = $1 AND id = $2", args[columns*i:columns*i+2], func(scan func(...any) error) error {
				var answer []byte
				err := scan(&answer)
				copy(before[i].answer[:], answer)
				return err
			}); err != nil {
				return nil, err
			}
		}
	}
	_, err = w.e.exec(ctx, "RELEASE mark")
	return before, err
}

func (w *embeddedTx) insertSeen(ctx context.Context, rows int, args []any) (int64, error) {
	text := "INSERT INTO seen (second, id, answer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
	if rows > 1 {
		text = "INSERT INTO seen (second, id, answer) " + values(rows, len(seenTable.columns)) + " ON CONFLICT DO NOTHING"
	}
	r, err := w.e.exec(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
