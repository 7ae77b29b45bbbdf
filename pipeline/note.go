package pipeline

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// noteLane is the lane through which findings are stored that no request shows.
const noteLane = "notes"

// Note stores a finding that no request shows, as of the given time. It counts once for the same key, detail and minute. It returns when
// the finding is in line to be stored.
func (e *Engine) Note(ctx context.Context, at time.Time, f tally.Finding) error {
	minute := at.UTC().Truncate(time.Minute)
	sum := sha256.Sum256([]byte(f.Key.Rule + "\x00" + f.Key.Node + "\x00" + f.Key.Name + "\x00" + f.Key.Detail + "\x00" + minute.Format(time.RFC3339)))
	entry := tally.Entry{Time: at.UTC(), Findings: []tally.Finding{f}}
	copy(entry.ID[:], sum[:])
	entry = entry.Own()
	e.noting.Lock()
	defer e.noting.Unlock()
	if !e.notes {
		if _, err := e.Open(ctx, noteLane, 0); err != nil {
			return err
		}
		e.notes = true
	}
	return e.do(ctx, func() error {
		if l := e.lanes[noteLane]; l != nil {
			e.note(l, entry)
		}
		return nil
	})
}
