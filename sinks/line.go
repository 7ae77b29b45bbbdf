package sinks

import (
	"slices"

	"github.com/nodetrail/nodetrail/rules"
)

// weights is how many weights of findings there are.
const weights = 2 * (int(rules.Critical) + 1)

// weight orders findings by how much they would be missed: changes of incidents above all, in their order; then those of requests that passed authorization above all of refused ones, then by severity.
func (f *Finding) weight() int {
	if f.Incident != nil {
		return weights - 1
	}
	n := int(severityOf(f.Severity))
	if f.Authorized {
		n += weights / 2
	}
	return n
}

// line is findings of one weight, the oldest first.
type line struct {
	all  []*queued // from head on
	head int
}

func (l *line) push(w *queued) { l.all = append(l.all, w) }

// unshift puts w before all others.
func (l *line) unshift(w *queued) {
	if l.head == 0 {
		l.all = slices.Insert(l.all, 0, w)
		return
	}
	l.head--
	l.all[l.head] = w
}

// pop takes out the oldest, nil if there is none.
func (l *line) pop() *queued {
	for l.head < len(l.all) {
		w := l.all[l.head]
		l.all[l.head] = nil
		l.head++
		if l.head > 1024 && l.head > len(l.all)/2 {
			n := copy(l.all, l.all[l.head:])
			clear(l.all[n:])
			l.all, l.head = l.all[:n], 0
		}
		if !w.moved {
			return w
		}
	}
	return nil
}
