package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// credentialDetector follows from which addresses and with which certificates the kubelets come, by minutes.
//
// One address or certificate after another is a change, and no finding: a lease of DHCP, a gateway, a rotation. Two at the same time are two
// clients. What is at the same time is told by the minutes in which each was used.
type credentialDetector struct {
	kubelets []string
	nodes    map[string]*credentials // MaxNodes at most
	pending  map[int64]map[useKey]*use
	done     int64 // minutes before it were taken in
	owners   latest[owner]
	dirty    map[string]struct{} // nodes
	told     map[string]struct{} // keys of owners
	dropping
}

// The kinds of what a kubelet comes with.
const (
	useV4 = iota
	useV6
	useCertificate
	useKinds
)

// useKey is a node's use of an address or a certificate.
type useKey struct {
	node  *credentials
	kind  uint8
	value string
}

// use is what there was of it in one minute.
type use struct {
	first, last time.Time
	count       int64
	id          string // of the first request
}

// credentials is what is known of one node.
type credentials struct {
	name   string
	used   [useKinds][]*habit
	latest int64  // minute
	agent  string // a user agent that is a kubelet's
	// recent are the uses that the last requests added to: mostly those of the next request.
	recent [useKinds]struct {
		minute int64
		value  string
		addr   string // as the event has it
		use    *use
	}
}

// habit is how a node has used an address or a certificate.
type habit struct {
	Value   string
	First   time.Time
	Last    time.Time
	Minutes uint64 // the last is the lowest bit
	Minute  int64  // the last
	Count   int64  // since First
	IDs     []string
	stored  time.Time
}

// owner says which node used an address or a certificate first, and whether others did too.
type owner struct {
	Node   string
	Shared bool
}

const (
	mostHabits = 4
	// inTurn is how often two must have taken turns in an hour, where requests are so few that no minute shows both.
	inTurn = 4
	// rotation is for how long an old certificate may still be used beside the new one, in minutes.
	rotation = 10
	// habitFor is how long what is not used any more is remembered.
	habitFor = 48 * time.Hour
)

const (
	rememberedCredentials = "credentials"
	rememberedOwner       = "credential-owner"
)

func newCredentialDetector(o DetectorOptions) Detector {
	return &credentialDetector{
		kubelets: o.Kubelets, nodes: map[string]*credentials{}, pending: map[int64]map[useKey]*use{}, owners: newLatest[owner](8 * MaxNodes),
		dirty: map[string]struct{}{}, told: map[string]struct{}{},
	}
}

func (d *credentialDetector) configure(o DetectorOptions) { d.kubelets = o.Kubelets }

// follow implements follower. What is no kubelet by its own word is flagged by each of its requests, and says nothing of the kubelet.
func (d *credentialDetector) follow(r *Request, f *followed, step int64, _ State) {
	if r.Event.IsImpersonated {
		return
	}
	n, agent := f.creds, r.Event.UserAgent
	if n == nil {
		n = d.nodes[r.Node]
		f.creds = n
	}
	if n == nil || n.agent != agent {
		if !IsKubelet(Product(agent), d.kubelets) {
			return
		}
		if n == nil {
			if len(d.nodes) >= MaxNodes {
				return
			}
			n = &credentials{name: strings.Clone(r.Node)}
			d.nodes[n.name] = n
			f.creds = n
		}
		if len(agent) <= maxRemembered {
			n.agent = strings.Clone(agent)
		}
	}
	minute := step / stepsPerMinute
	if id := r.Event.User.CredentialID; id != "" && len(id) <= maxRemembered {
		d.add(n, useCertificate, minute, id, r, id)
	}
	// The last source address is the connection's own; those before it are the client's claims (k8s.io/apimachinery/pkg/util/net.SourceIPs).
	if ips := r.Event.SourceIPs; len(ips) > 0 {
		text := ips[len(ips)-1]
		for _, kind := range [...]uint8{useV4, useV6} {
			if c := &n.recent[kind]; c.use != nil && c.minute == minute && c.addr == text && text != "" {
				d.add(n, kind, minute, c.value, r, text)
				return
			}
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		addr = addr.Unmap().WithZone("") // a zone may be any text
		kind := uint8(useV4)
		if addr.Is6() {
			kind = useV6
		}
		d.add(n, kind, minute, addr.String(), r, text)
	}
}

func (d *credentialDetector) add(n *credentials, kind uint8, minute int64, value string, r *Request, text string) {
	c := &n.recent[kind]
	if c.use == nil || c.minute != minute || c.value != value {
		at := d.pending[minute]
		if at == nil {
			at = map[useKey]*use{}
			d.pending[minute] = at
		}
		u := at[useKey{n, kind, value}]
		if u == nil {
			u = &use{first: r.Time, last: r.Time, id: strings.Clone(r.Event.AuditID)}
			value = strings.Clone(value)
			at[useKey{n, kind, value}] = u
		}
		c.minute, c.value, c.addr, c.use = minute, strings.Clone(value), "", u
		if len(text) <= maxRemembered {
			c.addr = strings.Clone(text)
		}
		n.latest = max(n.latest, minute)
	}
	u := c.use
	u.count++
	switch {
	case r.Time.After(u.last):
		u.last = r.Time
	case r.Time.Before(u.first) || r.Time.Equal(u.first) && r.Event.AuditID < u.id:
		u.first, u.id = r.Time, strings.Clone(r.Event.AuditID)
	}
}

// Advance implements Detector.
func (d *credentialDetector) Advance(t time.Time, _ State, found func(*Detection)) {
	end := stepOf(t) / stepsPerMinute
	var minutes []int64
	for m := range d.pending {
		if m < end {
			minutes = append(minutes, m)
		}
	}
	slices.Sort(minutes)
	for _, m := range minutes {
		d.take(m, found)
		delete(d.pending, m)
	}
	if end/60 != d.done/60 {
		d.forget(t)
	}
	d.done = end
}

// take takes in a minute, and judges the one before, which needs the next one to be told from a change.
func (d *credentialDetector) take(minute int64, found func(*Detection)) {
	at := d.pending[minute]
	keys := slices.SortedFunc(maps.Keys(at), func(a, b useKey) int {
		return cmp.Or(at[a].first.Compare(at[b].first), strings.Compare(a.node.name, b.node.name), cmp.Compare(a.kind, b.kind), strings.Compare(a.value, b.value))
	})
	touched := map[*credentials]uint8{}
	for _, k := range keys {
		u := at[k]
		if first, other := d.own(k); other && k.kind == useCertificate {
			found(&Detection{
				Finding: Finding{
					Rule: "node-credential-misuse", Severity: High, Subject: k.node.name, Detail: "certificate", Allowed: true,
					Message: fmt.Sprintf("node %s uses the client certificate that node %s has used", k.node.name, first),
				},
				Time: timeOfMinute(minute + 1), First: u.first, Last: u.last, Count: u.count, AuditIDs: idsOf(u.id), Product: "kubelet",
			})
		}
		k.node.note(k, u, minute)
		touched[k.node] |= 1 << k.kind
		d.dirty[k.node.name] = struct{}{}
	}
	nodes := slices.SortedFunc(maps.Keys(touched), func(a, b *credentials) int { return strings.Compare(a.name, b.name) })
	for _, n := range nodes {
		for kind := range uint8(useKinds) {
			if touched[n]>>kind&1 == 1 && len(n.used[kind]) > 1 {
				d.judge(n, kind, minute, found)
			}
		}
	}
}

func idsOf(ids ...string) []string {
	return slices.DeleteFunc(ids, func(s string) bool { return s == "" })
}

// own says which node used an address or a certificate first, if it was another one.
func (d *credentialDetector) own(k useKey) (first string, other bool) {
	o := d.owners.get(k.value)
	if o == nil {
		d.owners.add(k.value, &owner{Node: k.node.name})
		d.told[k.value] = struct{}{}
		return "", false
	}
	if o.Node == k.node.name {
		return "", false
	}
	if !o.Shared {
		o.Shared = true
		d.told[k.value] = struct{}{}
	}
	return o.Node, true
}

// note enters a minute's use.
func (n *credentials) note(k useKey, u *use, minute int64) {
	list := n.used[k.kind]
	i := slices.IndexFunc(list, func(h *habit) bool { return h.Value == k.value })
	if i < 0 {
		if len(list) >= mostHabits {
			oldest := 0
			for j, h := range list {
				if h.Last.Before(list[oldest].Last) {
					oldest = j
				}
			}
			list = slices.Delete(list, oldest, oldest+1)
		}
		list = append(list, &habit{Value: k.value, First: u.first, Minute: minute})
		i = len(list) - 1
		n.used[k.kind] = list
	}
	h := list[i]
	h.Minutes = h.Minutes<<min(uint64(max(minute-h.Minute, 0)), 64) | 1
	h.Minute, h.Count = max(h.Minute, minute), h.Count+u.count
	if u.last.After(h.Last) {
		h.Last = u.last
	}
	if len(h.IDs) >= 5 {
		h.IDs = append(h.IDs[:0:0], h.IDs[1:]...)
	}
	h.IDs = idsOf(append(h.IDs, u.id)...)
}

// at reports whether it was used in a minute of the last hour.
func (h *habit) at(minute int64) bool {
	back := h.Minute - minute
	return back >= 0 && back < 64 && h.Minutes>>back&1 == 1
}

// judge looks at the pairs of what a node uses, when the given minute has been taken in.
func (d *credentialDetector) judge(n *credentials, kind uint8, minute int64, found func(*Detection)) {
	list := slices.SortedFunc(slices.Values(n.used[kind]), func(a, b *habit) int {
		return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Value, b.Value))
	})
	for i, home := range list {
		for _, other := range list[i+1:] {
			if d.shared(home.Value) && d.shared(other.Value) {
				continue // addresses of a proxy or a gateway, through which several nodes come
			}
			switch {
			case kind == useCertificate:
				if sides := beside(home, other, minute); sides && home.Last.Sub(other.First) >= rotation*time.Minute {
					found(n.detection(home, other, "certificates", minute, High, fmt.Sprintf(
						"two client certificates of node %s are in use at once: the new one since %s, the old one still at %s, which is no rotation: one may be a copy",
						n.name, stamp(other.First.Truncate(time.Second)), stamp(home.Last.Truncate(time.Second)))))
				}
			case beside(home, other, minute):
				found(n.detection(home, other, "address "+other.Value, minute, High, fmt.Sprintf(
					"the credential of node %s is used from %s while it is in use from %s", n.name, other.Value, home.Value)))
			case turns(home, other, minute) >= inTurn:
				found(n.detection(home, other, "address "+other.Value, minute, Medium, fmt.Sprintf(
					"the credential of node %s is used in turn from %s and %s, %d times in an hour", n.name, home.Value, other.Value, turns(home, other, minute))))
			}
		}
	}
}

// shared reports whether several nodes come from there.
func (d *credentialDetector) shared(value string) bool {
	o := d.owners.get(value)
	return o != nil && o.Shared
}

// beside reports whether in the minute before the given one both were used, and one of them in the minutes before and after that too. A
// change from one to the other and, later, back does not look like this.
func beside(a, b *habit, minute int64) bool {
	m := minute - 1
	if !a.at(m) || !b.at(m) {
		return false
	}
	return a.at(m-1) && a.at(m+1) || b.at(m-1) && b.at(m+1)
}

// turns is how often in the hour up to the minute, which is one of them, use went over from one to the other.
func turns(a, b *habit, minute int64) (n int) {
	if !a.at(minute) && !b.at(minute) || bits.OnesCount64(a.Minutes) < 2 || bits.OnesCount64(b.Minutes) < 2 {
		return 0
	}
	was := 0
	for m := minute - 59; m <= minute; m++ {
		var is int
		switch {
		case a.at(m) && b.at(m):
			continue
		case a.at(m):
			is = 1
		case b.at(m):
			is = 2
		default:
			continue
		}
		if was != 0 && is != was {
			n++
		}
		was = is
	}
	return n
}

// detection is about the one of two that is used less, mostly the intruder's.
func (n *credentials) detection(home, other *habit, detail string, minute int64, sev Severity, message string) *Detection {
	return &Detection{
		Finding: Finding{Rule: "node-credential-misuse", Severity: sev, Subject: n.name, Detail: detail, Allowed: true, Message: message},
		Time:    timeOfMinute(minute + 1), First: other.First, Last: other.Last, Count: other.Count, AuditIDs: slices.Clone(other.IDs), Product: "kubelet",
	}
}

// forget drops what has not been used for long.
func (d *credentialDetector) forget(t time.Time) {
	for name, n := range d.nodes {
		left := 0
		for k := range n.used {
			n.used[k] = slices.DeleteFunc(n.used[k], func(h *habit) bool { return t.Sub(h.Last) > habitFor })
			left += len(n.used[k])
		}
		if left == 0 && n.latest < stepOf(t)/stepsPerMinute {
			delete(d.nodes, name)
			d.dropped = true
		}
	}
}
