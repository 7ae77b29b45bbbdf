package tally

import (
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

// Class is what groups of findings share a bound with: those of one rule, node and reason, of one severity, and either refused or allowed. A client
// makes as many refused requests as it likes; they fill their own classes and no other.
type Class struct {
	Rule, Node string
	Reason     rules.Reason
	Severity   rules.Severity
	Allowed    bool
}

// Class is that of the finding.
func (f *Finding) Class() Class {
	return Class{Rule: f.Key.Rule, Node: f.Key.Node, Reason: f.Reason, Severity: f.Severity, Allowed: f.Allowed}
}

// Class is that of a group with the key.
func (g *Group) Class(k *Key) Class {
	return Class{Rule: k.Rule, Node: k.Node, Reason: g.Reason, Severity: g.Severity, Allowed: g.Allowed}
}

// wide is the key of the group that stands for the further findings of the class on the node.
func (c *Class) wide(node string) Key {
	apart := c.Severity.String() + " " + string(c.Reason)
	if c.Allowed {
		apart = "allowed " + apart
	}
	return Key{Rule: c.Rule, Node: node, Apart: apart}
}

// WideKey is the key of the group that stands for the further findings of the class on its node.
func (c *Class) WideKey() Key { return c.wide(c.Node) }

// ReasonOf is the reason of a group with the key: its own, or that of the class that it stands for.
func ReasonOf(own rules.Reason, apart string) rules.Reason {
	if own != "" {
		return own
	}
	return rules.Reason(apart[strings.LastIndexByte(apart, ' ')+1:])
}

// Shares of the bound of Rooms.
const (
	refusedShare = 50 // of the refused groups of a class, for one node
	allowedShare = 10 // of the allowed ones
	wideShare    = 16 // of the groups of a class that each stand for one node's further findings
	refusedTotal = 2  // of all refused groups
	ownShare     = 10 // of the groups of all rules that users write, refused and allowed ones each
)

// Rooms says which groups of findings are distinguished, and which are counted in a wider one because there are too many. Its invariant: where an
// allowed request is counted does not depend on the refused ones, however many they are, nor on requests of another reason or severity. Its zero
// value has no room; not safe for concurrent use. Findings of rules that users write have rooms of their own.
type Rooms struct {
	most          int
	used, wide    map[Class]int // by node, and with Node "" of all nodes
	refused, dull int           // refused groups, and those among the wide ones
	// mine is for the rules that users write, which take no room of the others'; nil before the first. There all allowed groups share a bound too.
	mine    *Rooms
	isMine  bool
	allowed int
}

// NewRooms returns empty rooms: of each class of allowed groups, and of all refused ones together, about so many are distinguished.
func NewRooms(most int) *Rooms {
	return &Rooms{most: most, used: map[Class]int{}, wide: map[Class]int{}}
}

// Room is what a group takes up.
type Room struct {
	class Class
	// Wide says that the group stands for many.
	Wide bool
}

// Place returns under which key a group of the key and class is counted, and its room. Where the key is known to exist already nothing is taken.
// wide is for a group that stands for many already. The key returned may alias what was given.
func (r *Rooms) Place(k *Key, c Class, wide bool, known func(Key) bool) (Key, Room) {
	r = r.of(c.Rule)
	if !wide && r.own(&c) {
		return *k, r.take(c, r.used, &r.refused, false)
	}
	key := *k
	if !wide {
		key = c.wide(c.Node)
	}
	if known(key) {
		return key, Room{Wide: true}
	}
	all := c
	all.Node = ""
	if r.wide[all] >= max(1, r.most/wideShare) || !c.Allowed && r.dull >= max(1, r.most/refusedTotal) {
		if key = c.wide(Others); known(key) {
			return key, Room{Wide: true}
		}
	}
	return key, r.take(c, r.wide, &r.dull, true)
}

// of returns the rooms for findings of a rule.
func (r *Rooms) of(rule string) *Rooms {
	if r.isMine || rules.BuiltIn(rule) {
		return r
	}
	if r.mine == nil {
		r.mine = NewRooms(max(1, r.most/ownShare))
		r.mine.isMine = true
	}
	return r.mine
}

// own reports whether there is room for one more group of the class that is distinguished.
func (r *Rooms) own(c *Class) bool {
	all := *c
	all.Node = ""
	if c.Allowed {
		return r.used[*c] < max(1, r.most/allowedShare) && r.used[all] < r.most && (!r.isMine || r.allowed < r.most)
	}
	return r.used[*c] < max(1, r.most/refusedShare) && r.refused < max(1, r.most/refusedTotal)
}

func (r *Rooms) take(c Class, in map[Class]int, refused *int, wide bool) Room {
	reason := string(c.Reason)
	own(&c.Rule, &c.Node, &reason)
	c.Reason = rules.Reason(reason)
	all := c
	all.Node = ""
	in[c]++
	in[all]++
	switch {
	case !c.Allowed:
		*refused++
	case !wide:
		r.allowed++
	}
	return Room{class: c, Wide: wide}
}

// Leave gives a room back.
func (r *Rooms) Leave(o Room) {
	r = r.of(o.class.Rule)
	in, refused := r.used, &r.refused
	if o.Wide {
		in, refused = r.wide, &r.dull
	}
	all := o.class
	all.Node = ""
	for _, c := range []Class{o.class, all} {
		if in[c]--; in[c] <= 0 {
			delete(in, c)
		}
	}
	switch {
	case !o.class.Allowed:
		*refused--
	case !o.Wide:
		r.allowed--
	}
}
