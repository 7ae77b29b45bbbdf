package app

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/tally"
)

// groupBook has the groups that nodes come with in addition to those that each has: an audit policy may treat such nodes apart. The zero value is not
// useful.
type groupBook struct {
	of map[string]*nodeGroups // by the groups, joined
	// full says that there are too many to tell apart.
	full bool
}

// nodeGroups are groups that a node came with together.
type nodeGroups struct {
	Groups []string  `json:"groups"`
	Last   time.Time `json:"last"`
	// Full says in place of groups that there were too many to tell apart.
	Full bool `json:"full,omitempty"`

	stored time.Time // the last that changes has handed out
}

const (
	// maxNodeGroups bounds a groupBook. A certificate has a few groups, and all nodes of a kind have the same.
	maxNodeGroups = 256
	// groupsEvery is how exactly it is stored when a node came with them last.
	groupsEvery = time.Hour
	// rememberedGroups is the kind of memory that has them.
	rememberedGroups = "node-groups"
)

func newGroupBook() *groupBook { return &groupBook{of: map[string]*nodeGroups{}} }

// add takes in a judgement. API servers evaluate their audit policy for who authenticated, whoever the user then acts as.
func (b *groupBook) add(j *pipeline.Judgement) {
	u := &j.Event.User
	if _, isNode := nodeid.Of(u.Username, u.Groups); !isNode || !slices.ContainsFunc(u.Groups, ofSomeNodes) {
		return
	}
	groups := slices.DeleteFunc(slices.Clone(u.Groups), func(g string) bool { return !ofSomeNodes(g) })
	slices.Sort(groups)
	key := strings.Join(groups, "\x00")
	x := b.of[key]
	if x == nil {
		if len(b.of) >= maxNodeGroups {
			key, groups, b.full = "", nil, true
		}
		if x = b.of[key]; x == nil {
			for i := range groups {
				groups[i] = strings.Clone(groups[i])
			}
			x = &nodeGroups{Groups: groups, Full: b.full}
			b.of[strings.Clone(key)] = x
		}
	}
	if j.Time.After(x.Last) {
		x.Last = j.Time
	}
}

// ofSomeNodes reports whether a group is none that every node is in.
func ofSomeNodes(group string) bool {
	return group != user.NodesGroup && group != user.AllAuthenticated
}

// changes are what has changed since it was called last, to be stored with the requests that were judged meanwhile, under the name of the book.
func (b *groupBook) changes(name string) (out []tally.Remembered) {
	for key, x := range b.of {
		if x.Last.Sub(x.stored) < groupsEvery {
			continue
		}
		x.stored = x.Last
		if value, err := json.Marshal(x); err == nil { // of strings and a time
			out = append(out, tally.Remembered{Kind: rememberedGroups, Key: name + "\x00" + key, Value: value})
		}
	}
	return out
}

// storedGroups are the books that were stored, as one, as far as nodes came with them from begin on.
func storedGroups(stored []tally.Remembered, begin time.Time) *groupBook {
	b := newGroupBook()
	for i := range stored {
		var x nodeGroups
		if json.Unmarshal(stored[i].Value, &x) != nil {
			b.full = true // nobody knows what it was
			continue
		}
		if x.Last.Add(groupsEvery).Before(begin) {
			continue
		}
		b.full = b.full || x.Full
		b.of[strings.Join(x.Groups, "\x00")] = &x
	}
	return b
}

// all are the groups, each once and in order.
func (b *groupBook) all() (out []string) {
	for _, x := range b.of {
		out = append(out, x.Groups...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// named are the sets of groups of nodes as far as they are among the given ones, each set once and in order.
func (b *groupBook) named(groups []string) (out [][]string) {
	if b == nil {
		return nil
	}
	for _, x := range b.of {
		set := slices.DeleteFunc(slices.Clone(x.Groups), func(g string) bool { return !slices.Contains(groups, g) })
		if len(set) > 0 && !slices.ContainsFunc(out, func(o []string) bool { return slices.Equal(o, set) }) {
			out = append(out, set)
		}
	}
	slices.SortFunc(out, slices.Compare)
	return out
}
