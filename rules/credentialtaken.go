package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// taking is a secret or a token that a kubelet, by its user agent, took from an address. It is judged when the minutes next to it are known.
type taking struct {
	Kind    uint8     `json:"k"`
	Value   string    `json:"v"` // the address, as [audit.PlainAddress] has it
	Text    string    `json:"t"` // the address as the event had it
	At      time.Time `json:"at"`
	AuditID string    `json:"id"`
	// Seen is the minute in which it came, where that was too late for the minutes next to it; else 0.
	Seen int64 `json:"s,omitzero"`
	// Lasted says that it ended more than a minute after it began: all else of that time may be missing.
	Lasted bool `json:"l,omitzero"`
	// Alone says that the kubelet was there for moments, and no other one.
	Alone bool `json:"d,omitzero"`
	// Around are addresses that the node used before and after it in the same minute.
	Around []around `json:"a,omitempty"`

	Object deniedObject `json:"o"`
}

// around is an address that was used in the minute of a taking: before it, after it, or both.
type around struct {
	Value  string `json:"v"`
	Before bool   `json:"b,omitzero"`
	After  bool   `json:"a,omitzero"`
}

const (
	// maxTakings bounds what waits to be judged of a node. A pod may use some dozens of secrets, and what is taken twice waits once.
	maxTakings        = 1024
	rememberedTakings = "credential-takings"
	// silentFor is how long after a request a Node must stay silent for its kubelet not to have made it. A kubelet that starts reports within seconds.
	silentFor = 4 * time.Minute
	// networkOfV6 is how many bits of an address name its network, in which a machine may choose any.
	networkOfV6 = 64
)

// inScope reports whether neither the API server's word nor the state shows that the node may not have what it asks for. What they do show is in other rules.
func inScope(r *Request) bool { return !r.NodeDenies() || r.lags() }

// took reports whether the request took a secret or a token away that no other rule names.
func took(r *Request) bool { return takes(r) && r.Succeeded() && inScope(r) }

// taking remembers what was taken, but not from the only address of the node if that is the Node's or the kubelet lives there.
func (d *credentialDetector) taking(n *credentials, u *use, text string, r *Request, s State) {
	if !took(r) {
		return
	}
	if h := n.habit(u.kind, u.value); h != nil && len(n.used[useV4])+len(n.used[useV6]) == 1 && (s == nil || h.Lived >= livesFor ||
		isLoopback(u.value) || !d.leased && d.shared(u.value) || hasAddress(slices.Concat(s.NodeAddressSets(n.name, r.Time)...), u.value)) {
		return
	}
	d.wait(n, u.useKey, text, 0, r)
}

// straggle implements straggler. What an API server logs whose clock is behind comes too late, always: the minutes next to it are over. A watch comes so if its
// beginning is not in the log. An address that the Node never had tells what was taken, or watched, all the same. Where the node's kubelet comes from is noted, since all of it may come late.
func (d *credentialDetector) straggle(r *Request, step int64) {
	text, logged := r.Event.Address()
	addr, ok := audit.PlainAddress(text)
	if r.Event.IsImpersonated || !logged || !ok || !IsKubelet(r.product(), d.kubelets) {
		return
	}
	n := d.known(r.Node)
	if n == nil {
		return
	}
	key := keyOfAddress(addr)
	minute := step / stepsPerMinute
	n.latest = max(n.latest, minute)
	if d.own(n, key.kind, key.value, minute, nil); took(r) || endsNow(r, step) && n.habit(key.kind, key.value) == nil {
		d.wait(n, key, text, minute, r)
	}
}

// endsNow reports whether the request is a watch that is late by its beginning alone, not by its end. Where the beginning is not in the log, nothing else tells from
// where it came.
func endsNow(r *Request, step int64) bool {
	return r.Attrs.Verb == "watch" && r.Allowed && r.Succeeded() && inScope(r) && stepOf(r.Event.StageTime) >= step
}

// watched reports whether it is a watch of what is not worth stealing, from an address of which nothing else came.
func (t *taking) watched() bool {
	return t.Object.Verb == "watch" && !(t.Object.APIGroup == "" && t.Object.Resource == "secrets")
}

// wait has what was taken wait to be judged; seen is the minute in which it came, if that was too late.
func (d *credentialDetector) wait(n *credentials, u useKey, text string, seen int64, r *Request) {
	waiting := d.taken[n.name]
	a := r.Attrs
	t := taking{Kind: u.kind, Value: u.value, At: r.Time, Seen: seen, Lasted: r.Event.StageTime.Sub(r.Time) > time.Minute, Object: deniedObject{
		Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: clip(a.Name),
	}}
	for i := range waiting {
		if o := &waiting[i]; o.Value == t.Value && o.Object == t.Object && minuteAt(o.At) == minuteAt(t.At) {
			if r.Time.Before(o.At) || r.Time.Equal(o.At) && r.Event.AuditID < o.AuditID {
				o.At, o.AuditID = r.Time, strings.Clone(clip(r.Event.AuditID))
			}
			return
		}
	}
	if len(waiting) >= maxTakings {
		i := spare(waiting, &t.Object)
		if i < 0 {
			return
		}
		waiting = slices.Delete(waiting, i, i+1)
	}
	for _, s := range [...]*string{&t.Object.Verb, &t.Object.APIGroup, &t.Object.Resource, &t.Object.Subresource, &t.Object.Namespace, &t.Object.Name} {
		*s = strings.Clone(*s)
	}
	t.Value, t.Text, t.AuditID = strings.Clone(t.Value), strings.Clone(clip(text)), strings.Clone(clip(r.Event.AuditID))
	d.taken[n.name] = append(waiting, t)
}

// spare is the index of what gives room to an object of which nothing waits: the last one of an object that waits already. It is negative if there is none.
// Whoever takes one object from ever new addresses leaves room for the others.
func spare(waiting []taking, object *deniedObject) int {
	seen, several := map[deniedObject]bool{}, -1
	for i := range waiting {
		o := waiting[i].Object
		if o == *object {
			return -1
		}
		if seen[o] {
			several = i
		}
		seen[o] = true
	}
	return several
}

func minuteAt(t time.Time) int64 { return stepOf(t) / stepsPerMinute }

// surround notes which addresses the node used before and after what was taken in the minute, which is about to be closed.
func (d *credentialDetector) surround(n *credentials, minute int64) {
	waiting := d.taken[n.name]
	for i := range waiting {
		t := &waiting[i]
		if minuteAt(t.At) != minute {
			continue
		}
		o := d.at(n, minute)
		for j := range o.uses[:min(len(o.uses), fewUses)] {
			if u := &o.uses[j]; u.kind != useCertificate && u.value != t.Value {
				if a := (around{u.value, u.first.Before(t.At), u.last.After(t.At)}); a.Before || a.After {
					t.Around = append(t.Around, a)
				}
			}
		}
	}
}

// judgeSilent judges what was taken with the credentials of nodes of which nothing came since. All minutes before end have been taken in.
func (d *credentialDetector) judgeSilent(end int64, s State, found func(*Detection)) {
	until, over := end-1, len(d.pending) == 0
	d.leased = d.tellsLives()
	if over {
		until = end // nothing came after what was taken in: the log is silent, or at its end
	}
	for _, name := range slices.Sorted(maps.Keys(d.taken)) {
		if n := d.nodes[name]; n != nil {
			d.judgeTaken(n, until, over, s, found)
		} else {
			delete(d.taken, name)
		}
	}
}

// judgeTaken judges what was taken before the given minute. All minutes up to that have been taken in; over says that the log has nothing more.
func (d *credentialDetector) judgeTaken(n *credentials, minute int64, over bool, s State, found func(*Detection)) {
	waiting := d.taken[n.name]
	slices.SortFunc(waiting, func(a, b taking) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.AuditID, b.AuditID)) })
	var sets [][]string
	if s != nil {
		sets = s.NodeAddressSets(n.name, timeOfMinute(minute))
	}
	waiting = slices.DeleteFunc(d.detours(n, waiting, s), func(t taking) bool {
		m := max(minuteAt(t.At), t.Seen)
		if m >= minute {
			return false
		}
		is, maybe := d.handed(n, &t, m, minute)
		o := d.originOf(n, &t, m, s)
		wait := minute <= m+movedFor && !over
		if is || maybe && !over || o.maybe && wait {
			return is
		}
		moved := d.movedTo(n, &t, o.nobody)
		if moved > 0 && moved < livesFor && wait {
			return false
		}
		home, doubtful, silent := "", false, time.Time{}
		if t.Seen == 0 {
			home = d.intruded(n, &t, m, o.sets, o.strange && !o.claimed, s)
			if at, here := n.habit(t.Kind, home), n.habit(t.Kind, t.Value); at != nil && here != nil && here.Alive >= livesFor {
				if on, alone := d.detoured(n, t.Kind, m, s, at); on && !alone {
					return true // the kubelet lives here, and was there for moments
				}
			}
		}
		if home == "" {
			if !o.strange || !d.outside(n, &t, s) {
				return true
			}
			if wait || o.claimed && o.livesUntil(m, minute) {
				return false // others may report the node's new address yet, or its kubelet may live there
			}
			behind := false
			if home = d.homes(n, t.Kind, t.Value, o.sets, sets, s); home == "" && t.Seen == 0 {
				home = n.lastLived(&t)
				behind = home != ""
			}
			if home == "" || d.cameLate(n, home, m) && !d.lived(n, home) {
				if silent = n.silentAround(m, s); silent.IsZero() || o.renewed && minute <= m+movedFor {
					return !d.leased || n.livesAnywhere(m, home) || minute > m+int64(habitFor/time.Minute)
				}
			} else if (d.cameLate(n, home, m) || !d.lived(n, home) || n.cameAfter(&t, home) || behind) && n.livesAnywhere(m, home) || o.claimed && !d.lived(n, home) {
				return true
			}
			// After the end of the state, the Node may have got it. A kubelet may have lived there for moments.
			doubtful = !s.AddressesKnown(t.At) || !silent.IsZero() && !s.AddressesKnown(timeOfMinute(m).Add(silentFor)) || o.claimed && (o.alive > 0 || minute <= m+movedFor)
		}
		if t.Lasted {
			dark, lives := d.dark(t.Value, minuteAt(t.At))
			if dark && lives {
				return true
			}
			doubtful = doubtful || dark
		}
		f := Finding{
			Rule: CredentialMisuse, Reason: SecretTaken, Severity: Critical, Subject: n.name, Apart: t.Value, Allowed: true,
			Params: codes.Params{codes.Text(ParamHome, home), codes.Text(ParamAddress, t.Text)},
		}
		took := &t.Object
		if t.watched() {
			f.Reason, f.Severity, took = SecondAddress, High, &deniedObject{}
			f.Params = codes.Params{codes.Text(ParamAddress, t.Text), codes.Text(ParamHome, home)}
		}
		if !silent.IsZero() {
			f.Params = codes.Params{codes.Text(ParamAddress, t.Text), codes.Time(ParamSince, silent)}
			if t.watched() {
				f.Reason, f.Severity = UsedInSilence, Medium
			}
		}
		if doubtful || t.Alone || moved >= livesFor || d.pooled(n, t.Value, minute, s) {
			f.Severity = Medium
		}
		found(&Detection{
			Finding: f, Time: t.At, First: t.At, Last: t.At, Count: 1, AuditIDs: idsOf(t.AuditID), Product: "kubelet",
			Verb: took.Verb, APIGroup: took.APIGroup, Resource: took.Resource, Subresource: took.Subresource, Namespace: took.Namespace, Name: took.Name,
		})
		return true
	})
	if d.taken[n.name] = waiting; len(waiting) == 0 {
		delete(d.taken, n.name)
	}
}

// silentAround is since when the Node has been silent, if it was so before the minute and for some minutes after it: no kubelet started then. It is zero if it
// was not, and where the state does not tell. A node of which the log has no kubelet has nothing else that tells. Whoever only renews its Lease leaves it silent.
func (n *credentials) silentAround(minute int64, s State) time.Time {
	t := timeOfMinute(minute)
	if since := s.SilentSince(n.name, t.Add(silentFor+ClockDoubt)); since.Before(t) && s.AddressesKnown(t) {
		return since
	}
	return time.Time{}
}

// intruded returns the address of the node's kubelet, if something was taken from another one while the kubelet was there; else "". sets are the addresses
// that the Node had at once, strange is whether the other one is strange to it.
func (d *credentialDetector) intruded(n *credentials, t *taking, m int64, sets [][]string, strange bool, s State) string {
	if isLoopback(t.Value) || d.ownNetwork(n, sets, t.Value, s) {
		return ""
	}
	var other *habit // nil for one of too many addresses
	if i := slices.IndexFunc(n.used[t.Kind], func(h *habit) bool { return h.Value == t.Value }); i >= 0 {
		other = n.used[t.Kind][i]
	}
	for kind := range uint8(useCertificate) {
		for _, home := range n.used[kind] {
			if home.Value == t.Value || isLoopback(home.Value) || d.gateway(n, home.Value, s) && d.gateway(n, t.Value, s) || together(sets, home.Value, t.Value) {
				continue
			}
			mine, its := rank(sets, home.Value), rank(sets, t.Value)
			steady := home.surrounds(t, other, m)
			switch {
			case its > mine:
			case kind != t.Kind:
				// Of the other family an address is a second one only where the Node says which ones it has of both.
				if (mine == isCurrent || d.ownNetwork(n, sets, home.Value, s)) && strange && steady {
					return home.Value
				}
			case other == nil:
				if steady {
					return home.Value
				}
			default:
				if (steady || beside(home, other, m+1)) && (mine > its || home.dwells(other) || !other.dwells(home) && !other.First.Before(home.First)) {
					return home.Value
				}
			}
		}
	}
	return ""
}

// surrounds reports whether the address was in use before and after the taking from another one: in the minutes next to it, or in the same minute where the
// node used neither in the one next to it, as in the first and the last minute of a log. A change from one to the other does not look like this.
func (h *habit) surrounds(t *taking, other *habit, m int64) bool {
	if !h.at(m) {
		return false
	}
	i := slices.IndexFunc(t.Around, func(a around) bool { return a.Value == h.Value })
	next := func(minute int64, seen bool) bool {
		return h.at(minute) || seen && (other == nil || !other.at(minute))
	}
	return next(m-1, i >= 0 && t.Around[i].Before) && next(m+1, i >= 0 && t.Around[i].After)
}

// movedTo is for how many minutes all signs of life of the node have come from where something was taken, if that is strange by its family alone: a kubelet that starts anew may
// come by the other one, and somebody who stopped it may do what it did.
func (d *credentialDetector) movedTo(n *credentials, t *taking, nobody bool) int64 {
	if h := n.habit(t.Kind, t.Value); nobody && h != nil && h.alone(n) {
		return h.Lived
	}
	return 0
}

// outside reports whether a strange address is no gateway's, and the Node is known at the time.
func (d *credentialDetector) outside(n *credentials, t *taking, s State) bool {
	if s == nil || isLoopback(t.Value) || d.gateway(n, t.Value, s) && d.livesBehind(n, t, s) {
		return false
	}
	_, known := s.NodeExists(n.name, t.At) // where the state begins later, it may have had it then
	return known
}

// livesBehind reports whether the kubelet lives behind the gateway from which something was taken, or the log has no Leases. With the credentials of three nodes somebody
// makes a gateway of any address.
func (d *credentialDetector) livesBehind(n *credentials, t *taking, s State) bool {
	for kind := range uint8(useCertificate) {
		for _, h := range n.used[kind] {
			if (h.Value == t.Value || d.gateway(n, h.Value, s)) && h.Alive >= livesFor { // a gateway may have several addresses
				return true
			}
		}
	}
	for _, other := range d.nodes {
		if other.renews(useV4, true) || other.renews(useV6, true) {
			return false
		}
	}
	return true
}

// cameLate reports whether the node's kubelet came from its home more than ten minutes after something was taken, for the first time. Then only a kubelet that lives there tells
// that it was silent until then.
func (d *credentialDetector) cameLate(n *credentials, home string, m int64) bool {
	h := n.at(home)
	return h != nil && minuteAt(h.First) > m+movedFor
}

// lastLived is where the node's kubelet lived before something was taken from elsewhere, behind a gateway or a load balancer; "" where it lived nowhere.
func (n *credentials) lastLived(t *taking) string {
	var last *habit
	n.elsewhere(n.habit(t.Kind, t.Value), func(h *habit) bool {
		if h.Alive >= livesFor && h.Began.Before(t.At) && (last == nil || h.Renewed.After(last.Renewed)) {
			last = h
		}
		return false
	})
	if last == nil {
		return ""
	}
	return last.Value
}

// cameAfter reports whether the node's kubelet lives where something was taken, and came from its home after that for the first time.
func (n *credentials) cameAfter(t *taking, home string) bool {
	h, at := n.habit(t.Kind, t.Value), n.at(home)
	return h != nil && h.Alive >= livesFor && (at == nil || at.First.After(t.At))
}

// livesAnywhere reports whether a kubelet of the node lives at another address than its home at the minute or later: it is not silent, and somewhere else, as behind a NAT.
func (n *credentials) livesAnywhere(m int64, home string) bool {
	for kind := range uint8(useCertificate) {
		if slices.ContainsFunc(n.used[kind], func(h *habit) bool { return h.Value != home && h.livesSince(m) }) {
			return true
		}
	}
	return false
}

// tellsLives reports whether the log may have Leases: several nodes without any are of a log that has none, in which nothing tells of a silent kubelet.
func (d *credentialDetector) tellsLives() bool {
	if len(d.nodes) < mostOwners {
		return true
	}
	for _, n := range d.nodes {
		if n.renews(useV4, true) || n.renews(useV6, true) {
			return true
		}
	}
	return false
}

// renews reports whether the log has renewals of the node's Lease from addresses of the family; loopback ones, which are of no network, count if so asked.
func (n *credentials) renews(kind uint8, loopback bool) bool {
	return slices.ContainsFunc(n.used[kind], func(h *habit) bool { return h.Renews > 0 && (loopback || !isLoopback(h.Value)) })
}

// homes returns an address of the Node, of the family if there is one, from which its kubelet came at any time: one of those that it had when something came
// from another one, or of those that it had later.
func (d *credentialDetector) homes(n *credentials, kind uint8, other string, then, later [][]string, s State) string {
	return cmp.Or(d.home(n, kind, other, then, s), d.home(n, useV4+useV6-kind, other, then, s), d.home(n, kind, other, later, s), d.home(n, useV4+useV6-kind, other, later, s))
}

// home returns one of a family; "" where the kubelet comes by a gateway or a proxy alone.
func (d *credentialDetector) home(n *credentials, kind uint8, other string, sets [][]string, s State) string {
	for _, all := range slices.Backward(sets) {
		for _, text := range all {
			a, ok := audit.PlainAddress(text)
			if !ok || a.Is6() != (kind == useV6) || a.IsLoopback() || a.String() == other {
				continue
			}
			own := a.String()
			if o := d.owners.get(own); o != nil && (slices.Contains(o.Nodes, n.name) || len(o.Nodes) == mostOwners && n.habit(kind, own) != nil) && !d.gateway(n, own, s) {
				return own
			}
		}
	}
	return ""
}

// takings appends what waits to be judged.
func (d *credentialDetector) takings(out []Remembered) []Remembered {
	if len(d.taken) == 0 && !d.takenStored {
		return out
	}
	d.takenStored = len(d.taken) > 0
	return remember(out, rememberedTakings, "", d.taken)
}

// restoreTakings puts it back.
func (d *credentialDetector) restoreTakings(value []byte) error {
	var all map[string][]taking
	if err := json.Unmarshal(value, &all); err != nil {
		return err
	}
	d.takenStored = len(all) > 0
	for name, taken := range all {
		taken = slices.DeleteFunc(taken, func(t taking) bool { return t.Kind >= useCertificate })
		if len(name) <= maxRemembered && len(taken) > 0 && len(d.taken) < MaxNodes {
			d.taken[name] = taken[:min(len(taken), maxTakings)]
		}
	}
	return nil
}
