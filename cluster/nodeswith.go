package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// With names the Nodes that existed at t and had the address or the host name by then, for ten minutes or from the first; the one that has had it for longest first.
func (n *Nodes) With(address string, t time.Time) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	type owner struct {
		name  string
		since int64
	}
	var owners []owner
	plain := plainName(address)
	for _, name := range slices.Concat(n.having[plain], n.having[address]) { // kubelets and clouds write what is plain
		since, has := hadSince(n.at[name], plain, t.UnixNano())
		if has && n.existed(name, t.UnixNano()) && !slices.ContainsFunc(owners, func(o owner) bool { return o.name == name }) {
			owners = append(owners, owner{name, since})
		}
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.name, b.name)) })
	out := make([]string, len(owners))
	for i := range owners {
		out[i] = owners[i].name
	}
	return out
}

// existed reports whether there was a Node of the name. The caller holds the lock.
func (n *Nodes) existed(name string, at int64) bool {
	return slices.ContainsFunc(n.lives[name], func(l nodeLife) bool { return l.from <= at && (l.to == 0 || at < l.to) })
}

// hadSince is since when what settled of the sets last by an instant has the address, and those before it.
func hadSince(sets []addressSet, plain string, at int64) (since int64, has bool) {
	for i := len(sets) - 1; i >= 0; i-- {
		s := &sets[i]
		if s.since > at || i > 0 && s.brief(at) {
			continue
		}
		if !slices.ContainsFunc(s.addresses, func(a string) bool { return plainName(a) == plain }) {
			break
		}
		since, has = s.since, true
	}
	return since, has
}

// plainName is the one way to write an IP address or a host name.
func plainName(s string) string {
	if a, ok := audit.PlainAddress(s); ok {
		return a.String()
	}
	return strings.TrimSuffix(strings.ToLower(s), ".")
}
