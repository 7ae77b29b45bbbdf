package tally

import "github.com/nodetrail/nodetrail/rules"

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

// Shares of the bound of Rooms.
const (
	refusedShare = 50 // of the refused groups of a class, for one node
	allowedShare = 10 // of the allowed ones
	wideShare    = 16 // of the groups of a class that each stand for one node's further findings
	refusedTotal = 2  // of all refused groups
)

// Rooms says which groups of findings are told apart, and which are counted in a wider one because there are too many. Its invariant: where an
// allowed request is counted does not depend on the refused ones, however many they are, nor on requests of another reason or severity. Its zero
// value has no room; not safe for concurrent use.
type Rooms struct {
	most          int
	used, wide    map[Class]int // by node, and with Node "" of all nodes
	refused, dull int           // refused groups, and those among the wide ones
}

// NewRooms returns empty rooms: of each class of allowed groups, and of all refused ones together, about so many are told apart.
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

// own reports whether there is room for one more group of the class that is told apart.
func (r *Rooms) own(c *Class) bool {
	all := *c
	all.Node = ""
	if c.Allowed {
		return r.used[*c] < max(1, r.most/allowedShare) && r.used[all] < r.most
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
	if !c.Allowed {
		*refused++
	}
	return Room{class: c, Wide: wide}
}

// Leave gives a room back.
func (r *Rooms) Leave(o Room) {
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
	if !o.class.Allowed {
		*refused--
	}
}
