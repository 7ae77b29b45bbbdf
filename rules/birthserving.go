package rules

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// namesSettle is for how many steps a name is waited for that the Node had, but for less than ten minutes: a cloud's controller writes it some minutes after the kubelet has
// asked, and then it has to stay for ten minutes.
const namesSettle = 20 * stepsPerMinute

// serving judges the names of a kubelet's serving certificate. Whoever holds the node's credential can write any address and name into the Node's status, ask for a
// certificate, and take them back: so a name is the Node's own only if it stayed for ten minutes, and not if it is another machine's or a service's.
func (d *birthDetector) serving(b *birth, now int64, s State, found func(*Detection)) {
	again := b.Judged && !b.Doubt
	b.Doubt = false
	var ever []string
	var sets [][]string
	known := false
	if s != nil {
		ever, known = s.NodeAddresses(b.Node), s.AddressesKnown(b.At)
	}
	if known { // else the Node may have had them for long before the state begins
		switch end := b.At.Add(time.Duration(namesSettle) * DetectStep); {
		case now >= stepOf(end):
			sets = s.NodeAddressSets(b.Node, end)
		case d.ended(now):
			sets = s.NodeAddressSets(b.Node, time.Time{})
		default:
			b.Doubt, sets = true, s.NodeAddressSets(b.Node, b.At)
		}
	}
	var foreign, brief []string
	sure := false
	for _, name := range b.Names {
		switch {
		case b.namesService(name), d.ofAnotherNode(b, name, s):
			foreign, sure = append(foreign, name), true
		case len(ever) == 0: // the state does not have the Node
		case !hasName(ever, name):
			foreign = append(foreign, name)
		case len(sets) > 0 && !hasName(slices.Concat(sets...), name):
			brief = append(brief, name)
		}
	}
	if b.Doubt && len(foreign) > 0 { // the finding names those alone
		brief = nil
	}
	b.Doubt = b.Doubt && len(brief) > 0
	approved := !b.Approved.IsZero() || !b.Signed.IsZero()
	if b.Doubt || len(foreign)+len(brief) == 0 || again && !approved {
		return
	}
	f := Finding{
		Rule: BootstrapImpersonation, Reason: ServingNames, Severity: Medium, Subject: plainNode(b.User), Allowed: true,
		Params: codes.Params{codes.Text(ParamUser, b.User), codes.Text(ParamNode, b.Node)},
	}
	// Where the state begins later, or has ended, the Node may have had them then. A machine may lose an address within minutes, such as one of DHCP.
	if approved && (sure || known && (len(foreign) > 0 || slices.ContainsFunc(brief, isHostName))) {
		f.Severity = High
	}
	all := slices.Concat(foreign, brief)
	for _, name := range all[:min(len(all), 5)] {
		f.Params = append(f.Params, codes.Text(ParamObject, name))
	}
	found(b.detection(f, b.At))
}

// ended reports whether the log has nothing more.
func (d *birthDetector) ended(now int64) bool { return d.latest > 0 && now > d.latest+stepsPerMinute }

// namesService reports whether a name is one by which pods reach services, with those of the API server, or stands for many names. No machine has one, whatever its Node says.
func (b *birth) namesService(name string) bool {
	name = plainHost(name)
	switch name {
	case "kubernetes":
		return b.Node != name // a machine may be called so
	case "kubernetes.default":
		return true
	}
	return strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc.cluster.local") || strings.Contains(name, "*")
}

// ofAnotherNode reports whether a name is that of another node's machine: its Node had it first and has it, or is called so, and its kubelet has done something since. A machine
// that is gone gives up its address, whether or not its Node is still there. What three Nodes have is nobody's, such as the address of a bridge that each machine has.
func (d *birthDetector) ofAnotherNode(b *birth, name string, s State) bool {
	if s == nil || isLoopback(name) || plainHost(name) == "localhost" {
		return false
	}
	with := s.NodesWith(name, b.At)
	if len(with) > 0 && len(with) < mostOwners && with[0] != b.Node && d.goesOn(with[0], b.At) {
		return true
	}
	host := plainHost(name)
	exists, _ := s.NodeExists(host, b.At)
	return exists && host != b.Node && d.goesOn(host, b.At)
}

// goesOn reports whether the node has done something since.
func (d *birthDetector) goesOn(node string, since time.Time) bool {
	n := d.nodes[node]
	return n != nil && slices.ContainsFunc(n.holders, func(h *holder) bool { return h.Last > stepOf(since) })
}

// hasName reports whether an address or a host name is among those of a Node.
func hasName(all []string, name string) bool {
	return slices.ContainsFunc(all, func(a string) bool { return sameAddress(a, name) })
}

// plainHost is the one way to write a host name.
func plainHost(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

func isHostName(name string) bool {
	_, err := netip.ParseAddr(name)
	return err != nil
}

// sameAddress compares host names without case, and IP addresses by what they mean.
func sameAddress(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	x, err := netip.ParseAddr(a)
	y, wrong := netip.ParseAddr(b)
	return err == nil && wrong == nil && x.Unmap() == y.Unmap()
}
