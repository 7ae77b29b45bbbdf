package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// rememberedGone is of a node that has not been there for long.
	rememberedGone = "birth-gone"
	// maxGone bounds the nodes that are gone, of which it is known from where their certificates came: a certificate is good for a year, or for ten. maxGoneOf
	// bounds the certificates of one.
	maxGone   = 1 << 15
	maxGoneOf = 2 * maxHolders
)

// goneNode is a node that has not been there for long, and from where it and its certificates came.
type goneNode struct {
	Name string     `json:"n"`
	Gone int64      `json:"g"` // in which step that was found
	Of   []goneHome `json:"c,omitempty"`
	dwelling
	slot int
}

// goneHome is from where a certificate came.
type goneHome struct {
	ID string `json:"i"`
	dwelling
}

// goneNodes are those that are gone. The zero value is not useful.
type goneNodes struct {
	all     map[string]*goneNode
	slots   slotSet
	changed map[*goneNode]struct{}
	// lost says that some were dropped because there were too many.
	lost bool
}

func newGoneNodes() goneNodes {
	return goneNodes{all: map[string]*goneNode{}, slots: newSlotSet(), changed: map[*goneNode]struct{}{}}
}

// leaves notes from where the node and its certificates came.
func (g *goneNodes) leaves(n *birthNode, step int64) {
	x := &goneNode{Name: n.name, Gone: step, dwelling: n.dwelling}
	for _, h := range n.holders {
		if h.Home != "" && strings.HasPrefix(h.ID, certCredential) {
			x.Of = append(x.Of, goneHome{h.ID, h.dwelling})
		}
	}
	was := g.all[n.name]
	if was != nil { // it has come again since, with some of the certificates
		for i := range was.Of {
			if !slices.ContainsFunc(x.Of, func(c goneHome) bool { return c.ID == was.Of[i].ID }) {
				x.Of = append(x.Of, was.Of[i])
			}
		}
		slices.SortStableFunc(x.Of, func(a, b goneHome) int { return b.Lived/livesFor - a.Lived/livesFor })
		if len(x.Of) > maxGoneOf {
			x.Of, g.lost = slices.Clip(x.Of[:maxGoneOf]), true
		}
		x.slot = was.slot
		delete(g.changed, was)
	}
	if x.Home == "" && len(x.Of) == 0 {
		return
	}
	if was == nil {
		if len(g.all) >= maxGone {
			g.makeRoom()
		}
		x.slot = g.slots.take()
	}
	g.all[x.Name] = x
	g.changed[x] = struct{}{}
}

// makeRoom drops those that have been gone for longest.
func (g *goneNodes) makeRoom() {
	all := slices.SortedFunc(maps.Values(g.all), func(a, b *goneNode) int { return cmp.Or(cmp.Compare(a.Gone, b.Gone), strings.Compare(a.Name, b.Name)) })
	for _, x := range all[:maxGone/16] {
		delete(g.all, x.Name)
		g.slots.drop(x.slot)
		delete(g.changed, x)
	}
	g.lost = true
}

// changes are those that are to be stored.
func (g *goneNodes) changes(out []Remembered) []Remembered {
	for _, x := range slices.SortedFunc(maps.Keys(g.changed), func(a, b *goneNode) int { return a.slot - b.slot }) {
		out = remember(out, rememberedGone, strconv.Itoa(x.slot), x)
	}
	clear(g.changed)
	return out
}

// restore puts back one that was stored.
func (g *goneNodes) restore(r *Remembered) error {
	x := &goneNode{}
	if err := json.Unmarshal(r.Value, x); err != nil {
		return err
	}
	slot, err := strconv.Atoi(r.Key)
	if err != nil || slot < 0 || slot >= maxGone || x.Name == "" || len(x.Name) > maxRemembered || len(x.Of) > maxGoneOf {
		return fmt.Errorf("a node that is none")
	}
	was := g.all[x.Name]
	if g.slots.used[slot] || was != nil && was.Gone >= x.Gone {
		return nil // of one that was dropped, and came again
	}
	if was != nil {
		g.slots.drop(was.slot)
		delete(g.changed, was)
	}
	x.slot = slot
	g.slots.used[slot], g.all[x.Name] = true, x
	return nil
}

// home is from where a certificate of the node came before the node was gone.
func (g *goneNodes) home(node, id string) (w dwelling) {
	if x := g.all[node]; x != nil {
		if i := slices.IndexFunc(x.Of, func(c goneHome) bool { return c.ID == id }); i >= 0 {
			w = x.Of[i].dwelling
		}
	}
	return w
}

// otherFamily reports whether a Node was made from an address of another family than the one from which its machine came before, and nothing shows that
// machines have both: neither does another node come from an address of that family, or have one, nor did this Node have one before.
func (d *birthDetector) otherFamily(m *made, home string, s State) bool {
	x, y, apart := twoAddresses(home, m.address)
	if !apart || x.Is4() == y.Is4() {
		return false
	}
	is := func(address string) bool {
		a, err := netip.ParseAddr(address)
		return err == nil && a.Unmap().Is4() == y.Is4()
	}
	has := func(node string, at time.Time) bool {
		return s != nil && slices.ContainsFunc(slices.Concat(s.NodeAddressSets(node, at)...), is)
	}
	for name, n := range d.nodes {
		if name != m.node.name && (is(n.Home) || is(n.Was) || has(name, m.at)) {
			return false
		}
	}
	n := m.node
	if is(n.Home) || is(n.Was) || is(m.h.Home) || is(m.h.Was) {
		return false
	}
	if s != nil { // the first addresses that the state has of a Node count at once: they must be of before
		if exists, known := s.NodeExists(n.name, n.Since.Add(time.Second)); exists && known && has(n.name, m.at) {
			return false
		}
	}
	return !d.gateway(home, m, s) && !d.gateway(m.address, m, s)
}
