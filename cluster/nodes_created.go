package cluster

import "time"

// CreatedBetween reports whether a Node object of this name began its life after from and not after to.
func (n *Nodes) CreatedBetween(name string, from, to time.Time) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, l := range n.lives[name] {
		if l.from > from.UnixNano() && l.from <= to.UnixNano() {
			return true
		}
	}
	return false
}
