package incidents

import (
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// Hours gathers the findings of a log by the hour, for a [Book]. Not safe for concurrent use.
type Hours struct {
	hours map[int64]*tally.Tally
	names tally.Names // of all hours, in which the same objects come again
	most  int
}

// NewHours returns an empty one, that tells at most so many groups of a class apart in an hour, as [tally.Tally.Bound] says.
func NewHours(most int) *Hours { return &Hours{hours: map[int64]*tally.Tally{}, most: most} }

// Add takes in the findings of an entry. Nothing of it is kept that may alias other memory.
func (h *Hours) Add(e *tally.Entry) {
	if len(e.Findings) == 0 {
		return
	}
	hour := e.Time.Truncate(time.Hour).Unix()
	t := h.hours[hour]
	if t == nil {
		t = tally.New()
		t.Bound(h.most)
		t.Share(&h.names)
		h.hours[hour] = t
	}
	for i := range e.Findings {
		t.AddFinding(e, &e.Findings[i])
	}
}

// Book returns a book of all that was added. excepted says whether an exception covers a group; nil if there is none.
func (h *Hours) Book(cluster string, excepted func(*tally.Key, *tally.Group) bool) *Book {
	b := NewBook(cluster)
	for _, t := range h.hours {
		for k, g := range t.Groups {
			b.Add(&k, g, excepted != nil && excepted(&k, g))
		}
	}
	return b
}
