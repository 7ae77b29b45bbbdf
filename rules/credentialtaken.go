package rules

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// taking is a secret or a token that a kubelet, by its user agent, took from an address. It is judged when the minutes next to it are known.
type taking struct {
	Kind    uint8     `json:"k"`
	Value   string    `json:"v"` // the address, as [PlainAddress] has it
	Text    string    `json:"t"` // the address as the event had it
	At      time.Time `json:"at"`
	AuditID string    `json:"id"`

	Object deniedObject `json:"o"`
}

const (
	// maxTakings bounds what waits to be judged of a node. A pod may use some dozens of secrets, and what is taken twice waits once.
	maxTakings        = 1024
	rememberedTakings = "credential-takings"
	// networkOfV6 is how many bits of an address name its network, in which a machine may choose any.
	networkOfV6 = 64
)

// inScope reports whether neither the API server's word nor the state shows that the node may not have what it asks for. What they do show is in other rules.
func inScope(r *Request) bool { return !r.NodeDenies() || r.lags() }

// took reports whether the request took a secret or a token away that no other rule names.
func took(r *Request) bool { return takes(r) && r.Succeeded() && inScope(r) }

// taking remembers what was taken from an address that is not the only one of the node.
func (d *credentialDetector) taking(n *credentials, u *use, text string, r *Request) {
	v4, v6 := n.used[useV4], n.used[useV6]
	if len(v4)+len(v6) == 1 && len(n.used[u.kind]) == 1 && n.used[u.kind][0].Value == u.value || !took(r) {
		return
	}
	waiting := d.taken[n.name]
	if len(waiting) >= maxTakings {
		return
	}
	a := r.Attrs
	t := taking{Kind: u.kind, Value: u.value, At: r.Time, Object: deniedObject{
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
	for _, s := range [...]*string{&t.Object.Verb, &t.Object.APIGroup, &t.Object.Resource, &t.Object.Subresource, &t.Object.Namespace, &t.Object.Name} {
		*s = strings.Clone(*s)
	}
	t.Value, t.Text, t.AuditID = strings.Clone(t.Value), strings.Clone(clip(text)), strings.Clone(clip(r.Event.AuditID))
	d.taken[n.name] = append(waiting, t)
}

func minuteAt(t time.Time) int64 { return stepOf(t) / stepsPerMinute }

// judgeTaken judges what was taken before the given minute, which has been taken in.
func (d *credentialDetector) judgeTaken(n *credentials, minute int64, s State, found func(*Detection)) {
	waiting := d.taken[n.name]
	slices.SortFunc(waiting, func(a, b taking) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.AuditID, b.AuditID)) })
	var sets [][]string
	if s != nil {
		sets = s.NodeAddressSets(n.name)
	}
	waiting = slices.DeleteFunc(waiting, func(t taking) bool {
		m := minuteAt(t.At)
		if m >= minute {
			return false
		}
		if home := d.intruded(n, &t, m, sets); home != "" {
			f := Finding{
				Rule: CredentialMisuse, Reason: SecretTaken, Severity: Critical, Subject: n.name, Apart: t.Value, Allowed: true,
				Params: codes.Params{codes.Text(ParamHome, home), codes.Text(ParamAddress, t.Text)},
			}
			o := &t.Object
			found(&Detection{
				Finding: f, Time: t.At, First: t.At, Last: t.At, Count: 1, AuditIDs: idsOf(t.AuditID), Product: "kubelet",
				Verb: o.Verb, APIGroup: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name,
			})
		}
		return true
	})
	if d.taken[n.name] = waiting; len(waiting) == 0 {
		delete(d.taken, n.name)
	}
}

// intruded returns the address of the node's kubelet, if something was taken from another one while the kubelet was there; else "". sets are the addresses
// that the Node had at once.
func (d *credentialDetector) intruded(n *credentials, t *taking, m int64, sets [][]string) string {
	if isLoopback(t.Value) {
		return ""
	}
	i := slices.IndexFunc(n.used[t.Kind], func(h *habit) bool { return h.Value == t.Value })
	for kind := range uint8(useCertificate) {
		for _, home := range n.used[kind] {
			if home.Value == t.Value || isLoopback(home.Value) || d.shared(home.Value) && d.shared(t.Value) || together(sets, home.Value, t.Value) {
				continue
			}
			mine, its := rank(sets, home.Value), rank(sets, t.Value)
			steady := home.at(m-1) && home.at(m) && home.at(m+1)
			switch {
			case its > mine:
			case kind != t.Kind:
				// Of the other family an address is a second one only where the Node says which ones it has of both.
				if mine == isCurrent && strangeOf(sets, t.Value) && steady {
					return home.Value
				}
			case i < 0: // one of too many addresses
				if steady {
					return home.Value
				}
			default:
				if other := n.used[t.Kind][i]; beside(home, other, m+1) && (mine > its || !other.First.Before(home.First)) {
					return home.Value
				}
			}
		}
	}
	return ""
}

// What an address is to a Node.
const (
	isStrange = iota
	isFormer
	isCurrent
)

// rank says what an address is to a Node that had sets of addresses.
func rank(sets [][]string, address string) int {
	for i := len(sets) - 1; i >= 0; i-- {
		switch {
		case !hasAddress(sets[i], address):
		case i == len(sets)-1:
			return isCurrent
		default:
			return isFormer
		}
	}
	return isStrange
}

// together reports whether a Node had both addresses at once.
func together(sets [][]string, a, b string) bool {
	return slices.ContainsFunc(sets, func(all []string) bool { return hasAddress(all, a) && hasAddress(all, b) })
}

// strangeOf reports whether a Node has addresses of the address's family, and never had one in its network.
func strangeOf(sets [][]string, address string) bool {
	a, ok := PlainAddress(address)
	if !ok {
		return false
	}
	bits := a.BitLen()
	if a.Is6() {
		bits = networkOfV6
	}
	network, family := netip.PrefixFrom(a, bits), false
	for _, s := range slices.Concat(sets...) {
		o, ok := PlainAddress(s)
		if !ok || o.Is6() != a.Is6() {
			continue
		}
		if family = true; network.Contains(o) {
			return false
		}
	}
	return family
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
