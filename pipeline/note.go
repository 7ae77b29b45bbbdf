package pipeline

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// notes says whether noteLane is open.
type notes struct {
	mu   sync.Mutex
	open bool
}

// noteLane is the lane through which findings are stored that no request shows.
const noteLane = "notes"

// Note stores a finding that no request shows, as of the given time. It counts once for the same rule, node, name, reason and minute. It returns when
// the finding is in line to be stored.
func (e *Engine) Note(ctx context.Context, at time.Time, f tally.Finding) error {
	minute := at.UTC().Truncate(time.Minute)
	sum := sha256.Sum256([]byte(f.Key.Rule + "\x00" + f.Key.Node + "\x00" + f.Key.Name + "\x00" + string(f.Key.Reason) + "\x00" + f.Key.Apart + "\x00" + minute.Format(time.RFC3339)))
	entry := tally.Entry{Time: at.UTC(), Findings: []tally.Finding{f}}
	copy(entry.ID[:], sum[:])
	entry = entry.Own()
	e.notes.mu.Lock()
	defer e.notes.mu.Unlock()
	if !e.notes.open {
		if _, err := e.Open(ctx, noteLane, 0); err != nil {
			return err
		}
		e.notes.open = true
	}
	return e.do(ctx, func() error {
		if l := e.parts.open[noteLane]; l != nil {
			e.parts.found(l, entry, e.opt.Now())
		}
		return nil
	})
}
