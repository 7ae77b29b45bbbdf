package app

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// holderBook keeps from which addresses the credential of each node was used, and whether the log names the credential and the address of each request. The
// zero value is not useful.
type holderBook struct {
	nodes map[string]*heldNode
	// fresh are the nodes that changes has not handed out.
	fresh map[*heldNode]struct{}
	// forgot is when the latest request was of a node that was forgotten, as there were too many.
	forgot, told time.Time
	// stale is by how much less than what is true a time may be that was stored.
	stale time.Duration
	most  int // nodes
}

// heldNode is the use of one node's credential.
type heldNode struct {
	Node string `json:"node"`
	// Unnamed is the latest request of which the log does not name the credential, Nowhere that of which it does not name the address, More that whose
	// address was forgotten, as there were too many.
	Unnamed   *heldRequest  `json:"unnamed,omitempty"`
	Nowhere   *heldRequest  `json:"nowhere,omitempty"`
	More      *heldRequest  `json:"more,omitempty"`
	Addresses []heldAddress `json:"addresses,omitempty"`
	// Finer is when the latest request was whose times are not whole seconds.
	Finer time.Time `json:"finer,omitzero"`

	last, stored time.Time
}

// heldRequest is one of the requests that show something.
type heldRequest struct {
	At      time.Time `json:"at"`
	AuditID string    `json:"id,omitempty"`

	named time.Time // when AuditID was
}

// heldAddress is an address from which a credential was used.
type heldAddress struct {
	Address string    `json:"address"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	// Ended is when the latest request ended that began before: a watch may last from before the window until in it, or from before the log.
	Ended   time.Time `json:"ended,omitzero"`
	AuditID string    `json:"id,omitempty"` // of the first

	text string // as an event had it last
}

const (
	// maxHeldAddresses bounds the addresses of a node: those of two families, before and after a change or two.
	maxHeldAddresses = 8
	// heldEvery is how exactly it is stored when a credential was used last.
	heldEvery = time.Hour
	// rememberedHolders is the kind of memory that has the nodes of a holderBook, each with the instance that wrote it.
	rememberedHolders = "holders"
)

func newHolderBook() *holderBook {
	return &holderBook{nodes: map[string]*heldNode{}, fresh: map[*heldNode]struct{}{}, most: rules.MaxNodes}
}

// add takes in a judgement.
func (b *holderBook) add(j *pipeline.Judgement) {
	ev := j.Event
	if !j.IsNode || j.Node == "" || ev.IsImpersonated {
		return
	}
	n := b.nodes[j.Node]
	if n == nil {
		if len(b.nodes) >= b.most {
			b.forget()
		}
		n = &heldNode{Node: strings.Clone(j.Node)}
		b.nodes[n.Node] = n
	}
	n.last = later(n.last, j.Time)
	if j.Time.Nanosecond() != 0 || ev.StageTime.Nanosecond() != 0 {
		n.Finer = later(n.Finer, j.Time)
	}
	if ev.User.CredentialID == "" {
		n.note(&n.Unnamed, j)
	}
	text, logged := ev.Address()
	if !logged {
		n.note(&n.Nowhere, j)
	} else if i := slices.IndexFunc(n.Addresses, func(a heldAddress) bool { return a.text == text }); i >= 0 {
		n.Addresses[i].add(j)
	} else {
		n.from(text, j)
	}
	if n.stored.IsZero() || n.last.Sub(n.stored) >= heldEvery {
		b.fresh[n] = struct{}{}
	}
}

// forget makes room: it drops the quarter of the nodes that were not there for longest.
func (b *holderBook) forget() {
	all := slices.SortedFunc(maps.Values(b.nodes), func(x, y *heldNode) int { return x.last.Compare(y.last) })
	for _, n := range all[:(len(all)+3)/4] {
		b.forgot = later(b.forgot, n.last)
		delete(b.nodes, n.Node)
	}
}

// note takes in a request that shows something; the ID is that of one of the last hour.
func (n *heldNode) note(r **heldRequest, j *pipeline.Judgement) {
	x := *r
	if x == nil {
		x = &heldRequest{}
		*r, n.stored = x, time.Time{}
	}
	if j.Time.Sub(x.named) >= heldEvery {
		x.AuditID, x.named = strings.Clone(tally.Bounded(j.Event.AuditID)), j.Time
	}
	x.At = later(x.At, j.Time)
}

// add takes in a request.
func (a *heldAddress) add(j *pipeline.Judgement) {
	a.use(j.Time)
	a.Ended = later(a.Ended, j.Event.StageTime)
}

// until is when it was in use for certain.
func (a *heldAddress) until() time.Time { return later(a.Last, a.Ended) }

func (a *heldAddress) use(at time.Time) {
	a.Last = later(a.Last, at)
	if at.Before(a.First) {
		a.First = at
	}
}

// from takes in an address that no event had in this form, or not lately.
func (n *heldNode) from(text string, j *pipeline.Judgement) {
	plain, ok := audit.PlainAddress(text)
	if !ok {
		n.note(&n.Nowhere, j)
		return
	}
	address := plain.String()
	for i := range n.Addresses {
		if a := &n.Addresses[i]; a.Address == address {
			a.text = strings.Clone(text)
			a.add(j)
			return
		}
	}
	if len(n.Addresses) >= maxHeldAddresses {
		oldest := slices.MinFunc(n.Addresses, func(x, y heldAddress) int { return x.until().Compare(y.until()) })
		n.Addresses = slices.DeleteFunc(n.Addresses, func(a heldAddress) bool { return a.Address == oldest.Address })
		n.More = latest(n.More, &heldRequest{At: oldest.until(), AuditID: oldest.AuditID})
	}
	n.Addresses = append(n.Addresses, heldAddress{
		Address: address, First: j.Time, Last: j.Time, Ended: j.Event.StageTime, AuditID: strings.Clone(tally.Bounded(j.Event.AuditID)), text: strings.Clone(text),
	})
	n.stored = time.Time{}
}

// changes are the nodes that changed since the last call, to be stored with the requests that were judged meanwhile, under the name of the book. When
// called for the last time, it has all that is not stored as it is.
func (b *holderBook) changes(name string, last bool) (out []tally.Remembered) {
	if last {
		for _, n := range b.nodes {
			if n.last.After(n.stored) {
				b.fresh[n] = struct{}{}
			}
		}
	}
	store := func(n *heldNode) {
		if value, err := json.Marshal(n); err == nil { // of strings and times
			out = append(out, tally.Remembered{Kind: rememberedHolders, Key: name + "\x00" + n.Node, Value: value})
		}
	}
	for n := range b.fresh {
		n.stored = n.last
		store(n)
	}
	clear(b.fresh)
	if b.forgot.After(b.told) {
		b.told = b.forgot
		store(&heldNode{More: &heldRequest{At: b.forgot}})
	}
	return out
}

// resumed is the book of that name as it was stored, to be continued.
func resumed(stored []tally.Remembered, name string) (*holderBook, error) {
	b, err := storedHolders(slices.DeleteFunc(slices.Clone(stored), func(x tally.Remembered) bool { return !strings.HasPrefix(x.Key, name+"\x00") }))
	if err != nil {
		return nil, err
	}
	b.stale, b.told = 0, b.forgot
	for _, n := range b.nodes {
		for _, r := range []*heldRequest{n.Unnamed, n.Nowhere, n.More} {
			n.last = later(n.last, r.at())
		}
		for i := range n.Addresses {
			n.last = later(n.last, n.Addresses[i].Last)
		}
		n.stored = n.last
	}
	return b, nil
}

// storedHolders are the books that were stored, as one.
func storedHolders(stored []tally.Remembered) (*holderBook, error) {
	b := newHolderBook()
	b.stale = heldEvery
	for i := range stored {
		one := &heldNode{}
		if err := json.Unmarshal(stored[i].Value, one); err != nil {
			return nil, err
		}
		if one.Node == "" {
			b.forgot = later(b.forgot, one.More.at())
			continue
		}
		n := b.nodes[one.Node]
		if n == nil {
			b.nodes[one.Node] = one
			continue
		}
		n.merge(one)
	}
	return b, nil
}

func (r *heldRequest) at() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.At
}

// latest is the later one of two requests, either of which may be nil.
func latest(a, b *heldRequest) *heldRequest {
	if b.at().After(a.at()) {
		return b
	}
	return a
}

// merge takes in what another book has of the node.
func (n *heldNode) merge(o *heldNode) {
	n.Finer = later(n.Finer, o.Finer)
	n.Unnamed, n.Nowhere, n.More = latest(n.Unnamed, o.Unnamed), latest(n.Nowhere, o.Nowhere), latest(n.More, o.More)
	for _, a := range o.Addresses {
		at := slices.IndexFunc(n.Addresses, func(x heldAddress) bool { return x.Address == a.Address })
		if at < 0 {
			n.Addresses = append(n.Addresses, a)
			continue
		}
		n.Addresses[at].use(a.First)
		n.Addresses[at].use(a.Last)
		n.Addresses[at].Ended = later(n.Addresses[at].Ended, a.Ended)
	}
}

// holders is what the log shows of who uses the nodes' credentials. What a rule found decides. That nothing was found proves something only where each request
// names its credential and came from an address of its own node that no other node used in that time.
func (p *proof) holders(in *checks.Input) {
	if p.held == nil || p.to.IsZero() {
		return
	}
	if p.nodeGroups != nil { // a store has the groups since it has the holders
		in.NodeGroups, in.NodeGroupsKnown = p.nodeGroups.all(), !p.nodeGroups.full
	}
	others, out := in.OfOthers(), &checks.Findings{}
	misnamed := map[string]bool{}
	for k, g := range p.groups() {
		if k.Rule == rules.NodeIdentity && (g.Reason == rules.NameLetterCase || g.Reason == rules.NameDomain) {
			misnamed[k.Node] = true
		}
	}
	for k, g := range p.groups() {
		if !others[k.Node] {
			secondUser(&k, g, misnamed[k.Node], out)
		}
	}
	for _, name := range p.facts.Disabled {
		if rules.OfHolder(name) {
			out.Doubt(checks.Item{Code: checks.CodeRuleOff, Object: name})
		}
	}
	p.missedOfNodes.doubt(out, p.to.Add(-in.MinWindow))
	p.heldAddresses(in, others, out)
	in.Holders = out
}

// leastWhole is how many requests show that all times of a log are whole seconds, if those of each are. Of times with microseconds one in a million is.
const leastWhole = 50

// recent reports whether what is known to have been at a time, and may be stale, may have been since another one.
func (b *holderBook) recent(at, since time.Time) bool {
	return !at.IsZero() && !at.Add(b.stale).Before(since)
}

// wholeSeconds reports whether no request of a node has a time that is not a whole second, since that time.
func (b *holderBook) wholeSeconds(since time.Time) bool {
	if b.recent(b.forgot, since) {
		return false
	}
	for _, n := range b.nodes {
		if b.recent(n.Finer, since) {
			return false
		}
	}
	return true
}

// secondUser adds what a group of findings says about who else holds a credential: that somebody did with it what its kubelet does not do. A kubelet whose
// user name is not quite that of its Node does what is another node's all the time, so that only how the credential is used shows somebody else.
func secondUser(k *tally.Key, g *tally.Group, misnamed bool, out *checks.Findings) {
	if k.Node == "" || k.Rule == rules.BootstrapTokenMisuse || byOthers(k.Node, &g.Origins) {
		return
	}
	act := rules.ActOf(k.Rule, g.Reason, g.Severity, g.Allowed, g.Succeeded)
	client := g.Reason == rules.ForeignClient || g.Reason == rules.ProviderAgent
	if act == rules.Circumstance && !client {
		return
	}
	item := checks.Item{
		Code: checks.CodeSecondUser, Node: k.Node, Client: k.Product, Value: cmp.Or(string(g.Reason), k.Rule), From: g.First, To: g.Last, AuditIDs: g.AuditIDs,
		Count: g.Count,
	}
	if g.Severity < rules.High || misnamed && k.Rule != rules.CredentialMisuse {
		item.Code = checks.CodeSecondUserDoubtful
		out.Doubt(item)
		return
	}
	out.Looked++
	out.Wrong = append(out.Wrong, item)
}

// byOthers reports whether nobody who authenticated as the node made the requests: who acts as a node, or asks for what is another node's, does not hold
// that node's credential.
func byOthers(node string, o *tally.Origins) bool {
	return o.NotBy(nodeid.UserPrefix + strings.TrimPrefix(node, nodeid.UserPrefix))
}

// heldAddresses adds the credentials and the addresses that the log does not show to be a node's own.
func (p *proof) heldAddresses(in *checks.Input, others map[string]bool, out *checks.Findings) {
	from := p.to.Add(-in.MinWindow)
	within := func(at time.Time) bool { return p.held.recent(at, from) }
	if within(p.held.forgot) {
		out.Doubt(checks.Item{Code: checks.CodeAddressesMore, To: p.held.forgot})
	}
	users := map[string][]heldBy{}
	names := slices.Sorted(maps.Keys(p.held.nodes))
	for _, name := range names {
		n := p.held.nodes[name]
		for i := range n.Addresses {
			if a := &n.Addresses[i]; within(a.until()) {
				users[a.Address] = append(users[a.Address], heldBy{name, a})
			}
		}
	}
	for _, name := range names {
		n := p.held.nodes[name]
		if others[name] {
			continue
		}
		out.Looked++
		for _, r := range []struct {
			code checks.Code
			*heldRequest
		}{{checks.CodeCredentialUnnamed, n.Unnamed}, {checks.CodeAddressUnnamed, n.Nowhere}, {checks.CodeAddressesMore, n.More}} {
			if within(r.at()) {
				out.Doubt(checks.Item{Code: r.code, Node: name, From: r.At, To: r.At, AuditIDs: idsOf(r.AuditID)})
			}
		}
		own := p.state.addressesOf(name)
		for i := range n.Addresses {
			a := &n.Addresses[i]
			item := checks.Item{Node: name, Value: a.Address, From: a.First, To: a.until(), AuditIDs: idsOf(a.AuditID)}
			if !within(a.until()) {
				continue
			}
			if item.Object = sharer(users[a.Address], name, a, p.held.stale); item.Object != "" {
				item.Code = checks.CodeAddressShared
				out.Doubt(item)
			} else if !slices.Contains(own, a.Address) {
				item.Code = checks.CodeAddressForeign
				out.Doubt(item)
			}
		}
	}
}

// heldBy is the use of an address by a node.
type heldBy struct {
	node string
	*heldAddress
}

// sharer is the first other node that used the address in the same time, "" for none: a node may get the address of one that is gone.
func sharer(all []heldBy, node string, a *heldAddress, stale time.Duration) string {
	for _, o := range all {
		if o.node != node && !o.First.After(a.Last.Add(stale)) && !a.First.After(o.Last.Add(stale)) {
			return o.node
		}
	}
	return ""
}

func idsOf(id string) []string {
	if id == "" {
		return nil
	}
	return []string{id}
}
