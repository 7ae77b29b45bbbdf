package evidence

import "iter"

// Renewals returns the slots, counted from 1970, in which a node renewed its Lease in the hours from first to last, in order.
func (l *Ledger) Renewals(node string, first, last Hour) iter.Seq[int64] {
	return slotsOf(first, last, func(h Hour) *Slots {
		if n := l.Node(node, h); n != nil {
			return &n.Renewed
		}
		return nil
	})
}

// ServerRenewals is Renewals of an API server.
func (l *Ledger) ServerRenewals(server string, first, last Hour) iter.Seq[int64] {
	return slotsOf(first, last, func(h Hour) *Slots {
		if s := l.Server(server, h); s != nil {
			return &s.Renewed
		}
		return nil
	})
}

// ServerStarts returns the slots in which an API server started.
func (l *Ledger) ServerStarts(server string, first, last Hour) iter.Seq[int64] {
	return slotsOf(first, last, func(h Hour) *Slots {
		if s := l.Server(server, h); s != nil {
			return &s.Started
		}
		return nil
	})
}

func slotsOf(first, last Hour, of func(Hour) *Slots) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for h := first; h <= last; h++ {
			s := of(h)
			if s == nil {
				continue
			}
			for i := range s.All() {
				if !yield(int64(h)*int64(slotsPerHour) + int64(i)) {
					return
				}
			}
		}
	}
}
