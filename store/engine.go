package store

import (
	"bytes"
	"cmp"
	"context"

	"github.com/nodetrail/nodetrail/tally"
)

// engine is a database that transactions run on.
type engine interface {
	// write runs f in one transaction, alone in this process, and commits it unless f returns an error. It may run f again, from the
	// start. What it returns is exact: nil if everything is stored, an error if nothing is. No other transaction that writes runs next to one
	// that is alone, in any process.
	write(ctx context.Context, alone bool, f func(tx) error) error
	// read runs f over one state of the store, while others may write.
	read(ctx context.Context, f func(reader) error) error
	// name says which database it is, without a password.
	name() string
	dialect() *dialect
	// size is how many bytes the store takes up, without what can be used again. It is exact only above most.
	size(ctx context.Context, r reader, most int64) (int64, error)
	close() error
}

// reader reads. Parameters are written $1, $2.
type reader interface {
	// each calls f for each row.
	each(ctx context.Context, sql string, args []any, f func(scan func(...any) error) error) error
}

// tx is a transaction that writes. The order of calls is that of the statements; PostgreSQL may send them later, at the latest before
// the next one that answers.
type tx interface {
	reader
	exec(ctx context.Context, sql string, args ...any) error
	// upsert puts the rows in, or merges them with those that are there.
	upsert(ctx context.Context, b *batch) error
	// remove deletes rows by the key of their table; of the batch only the key's columns are given.
	remove(ctx context.Context, t *sqlTable, keys *batch) error
	// mark stores requests whose keys are sorted and differ. It returns what was stored of each before. Nobody else changes what was stored without an
	// answer until the transaction ends.
	mark(ctx context.Context, all []seenRequest) (before []seenBefore, err error)
}

// seenKey is the ID of a request with the second of its time, so that those of one time lie together.
type seenKey struct {
	second int64
	id     tally.ID
}

func (k *seenKey) compare(o *seenKey) int {
	return cmp.Or(cmp.Compare(k.second, o.second), bytes.Compare(k.id[:], o.id[:]))
}

// seenRequest is a request with its answer, zero if there is none.
type seenRequest struct {
	seenKey
	answer tally.ID
}

// seenBefore is what was stored of a key.
type seenBefore struct {
	there  bool
	answer tally.ID
}

// answerBytes is an answer as it is stored, where none is empty.
func answerBytes(answer *tally.ID) []byte {
	if *answer == (tally.ID{}) {
		return []byte{}
	}
	return answer[:]
}
