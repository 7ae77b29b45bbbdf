package rules

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// credentialDetector follows from which addresses and with which certificates the kubelets come, by minutes.
//
// One address or certificate after another is a change, and no finding: a lease of DHCP, a gateway, a rotation. Two at the same time are two
// clients. What is at the same time is shown by the minutes in which each was used.
type credentialDetector struct {
	kubeletNames
	nodes   map[string]*credentials  // MaxNodes at most
	pending map[int64][]*credentials // by minute, the nodes with an open one
	done    int64                    // minutes before it were taken in
	owners  latest[owner]
	dirty   map[string]struct{} // nodes of which more is worth storing than is
	told    map[string]struct{} // keys of owners
	taken   map[string][]taking // by node, what is still to be judged
	came    map[string]struct{} // nodes with a habit of which Came is set
	// takenStored says that what is stored of it is not empty.
	takenStored bool
	leased      bool // see tellsLives
	pools       pools
	minute      int64              // that was taken in last
	dwellers    map[string]dweller // by address, at the end of that minute; nil until they are asked for
	// networks are the IPv6 networks of Nodes by then, each with the only one that is in it; nil until they are asked for.
	networks map[netip.Prefix]string
	dropping
}

// The kinds of what a kubelet comes with.
const (
	useV4 = iota
	useV6
	useCertificate
	useKinds
)

// credentials is what is known of one node.
type credentials struct {
	name   string
	used   [useKinds][]*habit
	latest int64        // minute
	agent  string       // a user agent that is a kubelet's
	open   []openMinute // those that are not over, in no order
	fresh  bool         // more is known than what is stored of it by itself
}

// openMinute is what a node uses in a minute that is not over.
type openMinute struct {
	minute int64
	uses   []use
	many   map[useKey]int // where they are, if they are more than fewUses
}

// use is that of one address or certificate.
type use struct {
	useKey
	text        string // the address as an event had it
	first, last time.Time
	count       int64
	renews      int64 // of those, how many renew the node's Lease
	slots       uint8 // of the minute, in which the Lease was renewed
	// renewedFirst and renewedLast are when.
	renewedFirst, renewedLast time.Time

	id      string // of the first request
	product string // of that, where it is no kubelet's
}

// useKey tells what a node uses apart.
type useKey struct {
	kind  uint8
	value string
}

// habit is how a node has used an address or a certificate.
type habit struct {
	Value   string
	First   time.Time
	Last    time.Time
	Minutes uint64 // the last is the lowest bit
	Minute  int64  // the last
	Count   int64  // since First
	Renews  int64  `json:",omitempty"` // how many renew the node's Lease
	IDs     []string
	Product string `json:",omitempty"` // of the latest, where it is no kubelet's
	Beats   beats  `json:",omitempty"`
	Came    int64  `json:",omitempty"` // the minute in which it came after ten minutes without, until that is judged
	stored  time.Time
	life
}

const (
	mostHabits = 4
	// fewUses is how many uses in a minute are looked through one by one.
	fewUses = 8
	// inTurn is how often two must have taken turns in an hour, where requests are so few that no minute shows both.
	inTurn = 4
	// rotation is for how long an old certificate may still be used next to the new one, in minutes.
	rotation = 10
	// movedFor is for how many minutes a node has come from an address that its Node does not have until that shows: others report its addresses late.
	movedFor = 10
	// habitFor is how long what is not used any more is remembered.
	habitFor = 48 * time.Hour
)

const (
	rememberedCredentials = "credentials"
	// rememberedCredentialsNow is of the nodes of which more is known than what is stored of each by itself.
	rememberedCredentialsNow = "credentials-now"
	rememberedOwner          = "credential-owner"
)

func newCredentialDetector(o DetectorOptions) Detector {
	return &credentialDetector{
		kubeletNames: kubeletNames{o.Kubelets}, nodes: map[string]*credentials{}, pending: map[int64][]*credentials{}, owners: newLatest[owner](8 * MaxNodes),
		dirty: map[string]struct{}{}, told: map[string]struct{}{}, taken: map[string][]taking{},
		came: map[string]struct{}{},
	}
}

// known is what is known of a node, from now on at the latest; nil where there are too many nodes.
func (d *credentialDetector) known(node string) *credentials {
	n := d.nodes[node]
	if n == nil && len(d.nodes) < MaxNodes {
		n = &credentials{name: strings.Clone(node)}
		d.nodes[n.name] = n
	}
	return n
}

func keyOfAddress(addr netip.Addr) useKey {
	if addr.Is6() {
		return useKey{useV6, addr.String()}
	}
	return useKey{useV4, addr.String()}
}

// follow implements follower. What is no kubelet by its own word, and not kubeadm, is flagged by each of its requests, and says nothing of the kubelet. Of what it takes away,
// the address counts all the same: programs on a node come from there.
func (d *credentialDetector) follow(r *Request, f *followed, step int64, s State) {
	if r.Event.IsImpersonated {
		return
	}
	n, agent, product := f.creds, r.Event.UserAgent, ""
	if n == nil {
		n = d.nodes[r.Node]
		f.creds = n
	}
	if n == nil || n.agent != agent || agent == "" {
		if product = r.product(); IsKubelet(product, d.kubelets) || program(product) == "kubeadm" {
			product = ""
		} else if product = cmp.Or(product, "-"); !takes(r) {
			return
		}
		if n == nil {
			if n = d.known(r.Node); n == nil {
				return
			}
			f.creds = n
		}
		if len(agent) <= maxRemembered && product == "" {
			n.agent = strings.Clone(agent)
		}
	}
	at := d.at(n, step/stepsPerMinute)
	if id := r.Event.User.CredentialID; id != "" && len(id) <= maxRemembered && product == "" {
		at.use(n, useKey{useCertificate, id}, "").add(r, "")
	}
	if text, logged := r.Event.Address(); logged {
		u := at.address(text)
		if u == nil {
			addr, ok := audit.PlainAddress(text)
			if !ok {
				return
			}
			u = at.use(n, keyOfAddress(addr), text)
		}
		if u.add(r, product); renewsLease(r) { // a client that is no kubelet is here only with what it takes
			u.renew(r)
		}
		if product == "" && takes(r) {
			d.taking(n, u, text, r, s)
		}
	}
}

// at returns the node's open minute.
func (d *credentialDetector) at(n *credentials, minute int64) *openMinute {
	for i := len(n.open) - 1; i >= 0; i-- {
		if o := &n.open[i]; o.minute == minute {
			return o
		}
	}
	n.latest = max(n.latest, minute)
	d.pending[minute] = append(d.pending[minute], n)
	if len(n.open) < cap(n.open) { // what was closed is used again
		n.open = n.open[:len(n.open)+1]
	} else {
		n.open = append(n.open, openMinute{})
	}
	o := &n.open[len(n.open)-1]
	*o = openMinute{minute: minute, uses: o.uses[:0]}
	return o
}

// address returns the use of an address that an event had in the same form, if it is easily found.
func (o *openMinute) address(text string) *use {
	for i := range o.uses[:min(len(o.uses), fewUses)] {
		if u := &o.uses[i]; u.text == text && text != "" {
			return u
		}
	}
	return nil
}

// use returns the use of the key, which may be none yet. It is valid until the next call.
func (o *openMinute) use(n *credentials, k useKey, text string) *use {
	if o.many != nil {
		if i, is := o.many[k]; is {
			return &o.uses[i]
		}
	} else {
		for i := range o.uses {
			if u := &o.uses[i]; u.useKey == k {
				return u
			}
		}
	}
	k.value = n.known(k)
	if len(text) > maxRemembered {
		text = ""
	}
	if text == k.value {
		text = k.value
	} else {
		text = strings.Clone(text)
	}
	o.uses = append(o.uses, use{useKey: k, text: text})
	switch {
	case o.many != nil:
		o.many[k] = len(o.uses) - 1
	case len(o.uses) > fewUses:
		o.many = map[useKey]int{}
		for i := range o.uses {
			o.many[o.uses[i].useKey] = i
		}
	}
	return &o.uses[len(o.uses)-1]
}

// known returns a copy of the key's value, the one that is there if it was used before.
func (n *credentials) known(k useKey) string {
	for _, h := range n.used[k.kind] {
		if h.Value == k.value {
			return h.Value
		}
	}
	return strings.Clone(k.value)
}

// takes reports whether the request takes something away that is worth stealing: a secret, or what makes its holder a pod: a token or a pod's certificate.
func takes(r *Request) bool {
	a := r.Attrs
	certified := a.APIGroup == "certificates.k8s.io" && a.Resource == "podcertificaterequests" && a.Subresource == ""
	return r.Allowed && a.ResourceRequest && (a.APIGroup == "" && a.Resource == "secrets" && !writes(a.Verb) || (isToken(a) || certified) && a.Verb == "create")
}

// renewsLease reports whether the request is a sign of life, which a kubelet gives every ten seconds.
func renewsLease(r *Request) bool {
	a := r.Attrs
	return a.APIGroup == "coordination.k8s.io" && a.Resource == "leases" && a.Namespace == "kube-node-lease" && writes(a.Verb)
}

func (u *use) add(r *Request, product string) {
	u.count++
	switch {
	case u.count == 1:
		u.first, u.last, u.id, u.product = r.Time, r.Time, strings.Clone(r.Event.AuditID), strings.Clone(product)
	case r.Time.After(u.last):
		u.last = r.Time
	case r.Time.Before(u.first) || r.Time.Equal(u.first) && r.Event.AuditID < u.id:
		u.first, u.id, u.product = r.Time, strings.Clone(r.Event.AuditID), strings.Clone(product)
	}
}

// Advance implements Detector.
func (d *credentialDetector) Advance(t time.Time, s State, found func(*Detection)) {
	end := stepOf(t) / stepsPerMinute
	var minutes []int64
	for m := range d.pending {
		if m < end {
			minutes = append(minutes, m)
		}
	}
	slices.Sort(minutes)
	for _, m := range minutes {
		d.judgeCame(m, s, found)
		d.take(m, s, found)
		delete(d.pending, m)
	}
	d.judgeCame(end, s, found)
	if end > d.done && len(d.taken) > 0 {
		d.judgeSilent(end, s, found)
	}
	if end/60 != d.done/60 {
		d.forget(t, s)
	}
	d.done = end
}

// take takes in a minute, and judges the one before, which needs the next one to be distinguished from a change.
func (d *credentialDetector) take(minute int64, s State, found func(*Detection)) {
	type used struct {
		*use
		node *credentials
	}
	var all []used
	for _, n := range d.pending[minute] {
		o := d.at(n, minute)
		for i := range o.uses {
			all = append(all, used{&o.uses[i], n})
		}
	}
	slices.SortFunc(all, func(a, b used) int {
		if c := a.first.Compare(b.first); c != 0 {
			return c
		}
		if a.node != b.node {
			return strings.Compare(a.node.name, b.node.name)
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.value, b.value))
	})
	several := map[*credentials]uint8{} // the kinds of which a node has used more than one
	for _, u := range all {
		if first, other := d.own(u.node, u.kind, u.value, minute, s); other && u.kind == useCertificate {
			found(&Detection{
				Finding: Finding{
					Rule: CredentialMisuse, Reason: SharedCertificate, Severity: High, Subject: u.node.name, Allowed: true,
					Params: codes.Params{codes.Text(ParamFirst, first)},
				},
				Time: timeOfMinute(minute + 1), First: u.first, Last: u.last, Count: u.count, AuditIDs: idsOf(u.id), Product: "kubelet",
			})
		}
		if u.node.note(u.use, minute) {
			d.came[u.node.name] = struct{}{}
		}
		if len(u.node.used[u.kind]) > 1 {
			several[u.node] |= 1 << u.kind
		}
	}
	for _, n := range d.pending[minute] {
		d.live(n, d.at(n, minute).uses, s)
		d.surround(n, minute)
		n.close(minute)
		if n.worthStoring() {
			d.dirty[n.name] = struct{}{}
		}
	}
	d.minute, d.dwellers, d.networks = minute, nil, nil
	nodes := slices.SortedFunc(maps.Keys(several), func(a, b *credentials) int { return strings.Compare(a.name, b.name) })
	for _, n := range nodes {
		for kind := range uint8(useKinds) {
			if several[n]>>kind&1 == 1 {
				d.judge(n, kind, minute, s, found)
			}
		}
	}
	if len(d.taken) > 0 {
		d.leased = d.tellsLives()
		took := slices.DeleteFunc(slices.Clone(d.pending[minute]), func(n *credentials) bool { return d.taken[n.name] == nil })
		slices.SortFunc(took, func(a, b *credentials) int { return strings.Compare(a.name, b.name) })
		for _, n := range took {
			d.judgeTaken(n, minute, false, s, found)
		}
	}
}

// close ends a minute. Its memory is used again, unless it is much.
func (n *credentials) close(minute int64) {
	i := slices.IndexFunc(n.open, func(o openMinute) bool { return o.minute == minute })
	if i < 0 {
		return
	}
	last := len(n.open) - 1
	n.open[i], n.open[last] = n.open[last], n.open[i]
	if n.open[last].many != nil {
		n.open[last] = openMinute{}
	}
	n.open = n.open[:last]
}

func idsOf(ids ...string) []string {
	return slices.DeleteFunc(ids, func(s string) bool { return s == "" })
}

// note enters a minute's use. Where there are too many it takes the place of another one, but of none that is still to be judged next to others, in its minute or the
// next: who comes from ever new addresses would not be found. It reports whether the node has come from there anew.
func (n *credentials) note(u *use, minute int64) (came bool) {
	n.fresh = true
	list := n.used[u.kind]
	i := slices.IndexFunc(list, func(h *habit) bool { return h.Value == u.value })
	if i < 0 {
		if len(list) >= mostHabits {
			oldest := -1
			for j, h := range list {
				if h.Minute < minute-1 && (oldest < 0 || h.yields(list[oldest])) {
					oldest = j
				}
			}
			if oldest < 0 {
				return false
			}
			list = slices.Delete(list, oldest, oldest+1)
		}
		list = append(list, &habit{Value: u.value, First: u.first, Minute: minute})
		i = len(list) - 1
		n.used[u.kind] = list
	}
	h := list[i]
	if came = u.kind != useCertificate && (h.Count == 0 || minute-h.Minute > movedFor); came {
		h.Came = minute
	}
	h.Beats = h.Beats.enter(minute-h.Minute, u.slots)
	h.Minutes = h.Minutes<<min(uint64(max(minute-h.Minute, 0)), 64) | 1
	h.Minute, h.Count, h.Renews = max(h.Minute, minute), h.Count+u.count, h.Renews+u.renews
	if u.last.After(h.Last) {
		h.Last = u.last
	}
	h.Product = u.product
	if u.id != "" {
		h.IDs = append(slices.Delete(h.IDs, 0, max(0, len(h.IDs)-4)), u.id)
	}
	return came
}

// yields reports whether it gives room before the other one does: it was not used for longer. Where somebody comes from ever new addresses, the first ones stay until
// judgeCame has judged them.
func (h *habit) yields(o *habit) bool {
	if h.Came != 0 || o.Came != 0 {
		return h.Came == 0 || o.Came != 0 && h.Came > o.Came
	}
	return h.Last.Before(o.Last)
}

// at reports whether it was used in a minute of the last hour.
func (h *habit) at(minute int64) bool {
	back := h.Minute - minute
	return back >= 0 && back < 64 && h.Minutes>>back&1 == 1
}

// judge looks at the pairs of what a node uses, when the given minute has been taken in.
func (d *credentialDetector) judge(n *credentials, kind uint8, minute int64, s State, found func(*Detection)) {
	var own []string // the addresses of the Node, once they are needed
	list := slices.SortedFunc(slices.Values(n.used[kind]), func(a, b *habit) int {
		return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Value, b.Value))
	})
	through := func(h *habit) bool { // many nodes come so
		if kind == useCertificate {
			return d.shared(h.Value)
		}
		return d.gateway(n, h.Value, s)
	}
	for i, home := range list {
		for _, other := range list[i+1:] {
			home, isOwn := home, false // whether the Node has home
			if through(home) && through(other) {
				continue // addresses of a proxy or a gateway, through which several nodes come
			}
			if kind != useCertificate && (isLoopback(home.Value) || isLoopback(other.Value)) {
				continue // the kubelet of an API server's own host has two ways to it
			}
			if kind != useCertificate && (beside(home, other, minute) || turns(home, other, minute) >= inTurn) {
				var sets [][]string
				if s != nil {
					sets = s.NodeAddressSets(n.name, timeOfMinute(minute))
				}
				if together(sets, home.Value, other.Value) || d.ownNetwork(n, sets, home.Value, s) && d.ownNetwork(n, sets, other.Value, s) {
					continue // the node has both
				}
				if its, mine := rank(sets, other.Value), rank(sets, home.Value); its > mine || its == mine && other.dwells(home) {
					home, other = other, home
				}
				isOwn = rank(sets, home.Value) == isCurrent
			}
			switch {
			case kind == useCertificate:
				if beside(home, other, minute) && home.Last.Sub(other.First) >= rotation*time.Minute || outlasts(home, other, minute) {
					found(n.detection(other, TwoCertificates, "", minute, High, codes.Params{
						codes.Time(ParamSince, other.First.Truncate(time.Second)), codes.Time(ParamUntil, home.Last.Truncate(time.Second)),
					}))
				}
			case beside(home, other, minute):
				severity := High
				switch on, alone := d.detoured(n, kind, minute-1, s, home, other); {
				case on && !alone:
					continue
				case on:
					severity = Medium
				}
				if home.moved(other, minute-1) || other.moved(home, minute-1) || d.pooled(n, other.Value, minute, s) {
					severity = Medium
				}
				found(n.detection(other, SecondAddress, other.Value, minute, severity, codes.Params{
					codes.Text(ParamAddress, other.Value), codes.Text(ParamHome, home.Value),
				}))
			case turns(home, other, minute) >= inTurn && (isOwn || !d.severalAt(home.Value) || !d.severalAt(other.Value)): // else perhaps a gateway's, of which little is seen
				found(n.detection(other, SecondAddress, other.Value, minute, Medium, codes.Params{
					codes.Text(ParamAddress, other.Value), codes.Text(ParamHome, home.Value), codes.Int(ParamTurns, turns(home, other, minute)),
				}))
			case s != nil && !through(other) && home.Last.Before(other.First) && other.Minute-stepOf(other.First)/stepsPerMinute >= movedFor:
				if own == nil {
					own = slices.Concat([]string{""}, s.NodeAddresses(n.name))
				}
				if hasAddress(own, home.Value) && !(hasAddress(own, other.Value) && (other.Alive >= livesFor || home.Alive < livesFor ||
					hasAddress(slices.Concat(s.NodeAddressSets(n.name, other.First)...), other.Value))) {
					found(n.detection(other, MovedAddress, other.Value, minute, Medium, codes.Params{
						codes.Text(ParamAddress, other.Value), codes.Text(ParamHome, home.Value),
					}))
				}
			}
		}
	}
}

// hasAddress reports whether an address is among those of a Node, as that says them.
func hasAddress(all []string, address string) bool {
	return slices.ContainsFunc(all, func(s string) bool {
		a, ok := audit.PlainAddress(s)
		return ok && a.String() == address
	})
}

func isLoopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback()
}

// detection is about the one of two that is used less, mostly the intruder's.
func (n *credentials) detection(other *habit, reason Reason, apart string, minute int64, sev Severity, p codes.Params) *Detection {
	return &Detection{
		Finding: Finding{Rule: CredentialMisuse, Reason: reason, Severity: sev, Subject: n.name, Apart: apart, Allowed: true, Params: p},
		Time:    timeOfMinute(minute + 1), First: other.First, Last: other.Last, Count: other.Count, AuditIDs: slices.Clone(other.IDs), Product: cmp.Or(other.Product, "kubelet"),
	}
}

// forget drops what has not been used for long, but not where the kubelet of a Node that is there lived last: who comes after days is judged next to that.
func (d *credentialDetector) forget(t time.Time, s State) {
	for name, n := range d.nodes {
		left, last := 0, n.lastHome(t, s)
		for k := range n.used {
			n.used[k] = slices.DeleteFunc(n.used[k], func(h *habit) bool { return t.Sub(h.Last) > habitFor && h != last })
			left += len(n.used[k])
		}
		n.fresh = true
		if left == 0 && n.latest < stepOf(t)/stepsPerMinute {
			delete(d.nodes, name)
			d.dropped = true
		}
	}
}
