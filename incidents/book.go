package incidents

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Book holds the groups of findings of each credential. Not safe for concurrent use.
type Book struct {
	cluster string
	of      map[holder][]*part
}

// ReportMost is how many incidents a report lists; it counts the others.
const ReportMost = 1000

// holder is whose credential is used.
type holder struct {
	name string
	kind Kind
}

// part is what one step of time holds of a group of findings.
type part struct {
	key      tally.Key
	group    *tally.Group
	act      rules.Act
	excepted bool
}

// NewBook returns an empty one. The IDs of its incidents are those of the cluster.
func NewBook(cluster string) *Book { return &Book{cluster: cluster, of: map[holder][]*part{}} }

// Add takes in what a step of time of at most [Pause] holds of a group. The group is not changed, and must not be changed afterwards. excepted says
// that an exception covers the group.
func (b *Book) Add(k *tally.Key, g *tally.Group, excepted bool) {
	if k.Node == "" || g.Severity <= rules.Low || !rules.OfHolder(k.Rule) {
		return // it is about no credential, or harmless
	}
	p := &part{key: *k, group: g, act: rules.ActOf(k.Rule, tally.ReasonOf(g.Reason, k.Apart), g.Severity, g.Allowed, g.Succeeded), excepted: excepted}
	of := holderOf(k, &g.Origins)
	b.of[of] = append(b.of[of], p)
}

// Incidents returns the incidents as of a time, which is that of the log's last request: the open ones first, then the latest.
func (b *Book) Incidents(now time.Time) []Incident {
	out, _ := b.First(now, func(*Incident) bool { return true }, math.MaxInt/2, nil)
	return out
}

// Report returns those that a report lists, and counts the others by their state.
func (b *Book) Report(now time.Time, exists func(node string) bool) ([]Incident, map[State]int) {
	return b.First(now, func(*Incident) bool { return true }, ReportMost, exists)
}

// First returns at most so many of the incidents that are chosen, in the order of [Book.Incidents], and counts the others by their state. It keeps no others
// in memory. Those of nodes that exist come before those of all others when there are too many: a client can make up any number of names. exists is nil where
// that is not known.
func (b *Book) First(now time.Time, chosen func(*Incident) bool, most int, exists func(node string) bool) (out []Incident, more map[State]int) {
	out, more = []Incident{}, map[State]int{}
	made := func(in *Incident) int {
		if exists != nil && in.Kind == OfNode && !exists(in.Credential) {
			return 1
		}
		return 0
	}
	cut := func() {
		slices.SortFunc(out, func(x, y Incident) int { return cmp.Or(cmp.Compare(made(&x), made(&y)), compare(x, y)) })
		for i := most; i < len(out); i++ {
			more[out[i].State]++
		}
		n := min(len(out), most)
		clear(out[n:])
		out = out[:n]
	}
	for of, parts := range b.of {
		slices.SortFunc(parts, compareParts)
		for _, s := range spans(parts) {
			in := s.incident(b.cluster, of, now)
			if !chosen(&in) {
				continue
			}
			if out = append(out, in); len(out) >= 2*most {
				cut()
			}
		}
	}
	cut()
	slices.SortFunc(out, compare)
	return out, more
}

// compare puts the open ones first, then the worst, then the latest.
func compare(a, b Incident) int {
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(severityOf(b.Severity), severityOf(a.Severity)), b.Last.Compare(a.Last), strings.Compare(a.Credential, b.Credential),
		strings.Compare(string(a.Kind), string(b.Kind)), a.First.Compare(b.First))
}

func rank(i *Incident) int {
	return slices.Index([]State{Open, Quiet, Closed}, i.State)
}

func severityOf(s string) rules.Severity {
	v, err := rules.ParseSeverity(s)
	if err != nil {
		return rules.None
	}
	return v
}

// compareParts puts the first first. It is a total order but for parts that say the same.
func compareParts(a, b *part) int {
	if c := cmp.Or(a.group.First.Compare(b.group.First), a.group.Last.Compare(b.group.Last)); c != 0 {
		return c
	}
	return a.key.Compare(&b.key)
}

// span is the parts of an incident.
type span struct {
	first, last time.Time
	acts        []*part // what somebody did, in order
	covered     []*part // what exceptions cover, where that is not all of the incident
	beside      []*part // circumstances of that time
}

// spans puts sorted parts together. What an exception covers is no part of what somebody did: it accompanies an incident, and is one by itself only where it is
// a pause away from all others. Circumstances begin and prolong nothing, since they last.
func spans(parts []*part) []*span {
	var acts, covered, lasting []*part
	for _, p := range parts {
		switch {
		case p.act == rules.Circumstance:
			lasting = append(lasting, p)
		case p.excepted:
			covered = append(covered, p)
		default:
			acts = append(acts, p)
		}
	}
	out := follow(acts)
	alone := accompany(out, covered, func(s *span, p *part) { s.covered = append(s.covered, p) })
	out = append(out, follow(alone)...)
	accompany(out, lasting, func(s *span, p *part) { s.beside = append(s.beside, p) })
	return out
}

// follow makes incidents of acts: each follows the one before within [Pause].
func follow(acts []*part) (out []*span) {
	for _, p := range acts {
		n := len(out)
		if n == 0 || p.group.First.Sub(out[n-1].last) >= Pause {
			out = append(out, &span{first: p.group.First, last: p.group.Last})
			n++
		}
		s := out[n-1]
		s.acts = append(s.acts, p)
		if p.group.Last.After(s.last) {
			s.last = p.group.Last
		}
	}
	return out
}

// accompany adds each part to the first incident that is not a pause away from it, and returns the others.
func accompany(all []*span, parts []*part, add func(*span, *part)) (others []*part) {
	for _, p := range parts {
		i := slices.IndexFunc(all, func(s *span) bool {
			return !p.group.First.After(s.last.Add(Pause)) && !p.group.Last.Before(s.first.Add(-Pause))
		})
		if i < 0 {
			others = append(others, p)
			continue
		}
		add(all[i], p)
	}
	return others
}

// ID is that of the incident of a credential that began at a time, in every process.
func ID(cluster, credential string, first time.Time) string {
	h := sha256.New()
	var n [8]byte
	for _, s := range []string{"incident", cluster, credential, first.UTC().Format(time.RFC3339Nano)} {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// holderOf is whose credential was used, as far as the findings tell who was authenticated. Who acts as a node does not hold its credential, and a user may have
// the name of a node.
func holderOf(k *tally.Key, o *tally.Origins) holder {
	of := holder{k.Node, KindOf(k.Node)}
	if node := nodeid.UserPrefix + k.Node; !o.NotBy(node) {
		return of
	} else if slices.Contains(o.Users, k.Node) {
		of.kind = kindOfUser(k.Node)
	} else if slices.Contains(o.Impersonated, node) || slices.Contains(o.Impersonated, k.Node) {
		of.name = o.Users[0]
		if name, is := strings.CutPrefix(of.name, nodeid.UserPrefix); is && name != "" {
			return holder{name, OfNode}
		}
		of.kind = kindOfUser(of.name)
	}
	return of
}

func kindOfUser(name string) Kind {
	if kind := KindOf(name); kind != OfNode {
		return kind
	}
	return OfUser
}

// id is what the ID of an incident has of the holder. A node and a user of one name are two.
func (h *holder) id() string {
	if h.kind == OfUser && KindOf(h.name) == OfNode {
		return "user:" + h.name
	}
	return h.name
}

// KindOf says of which sort a credential is.
func KindOf(credential string) Kind {
	switch {
	case strings.HasPrefix(credential, audit.BootstrapUserPrefix):
		return OfBootstrap
	case strings.Contains(credential, ":"): // no name of a node has one
		return OfUser
	}
	return OfNode
}
