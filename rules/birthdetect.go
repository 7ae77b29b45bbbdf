package rules

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// birthReader is a detector that is shown requests about certificates and requests with tokens, whoever makes them.
type birthReader interface {
	Detector
	// bear takes in such a request. It must keep neither the request nor its strings.
	bear(r *Request, step int64)
}

// ofBirth reports whether the request is for those who read births.
func ofBirth(r *Request) bool {
	return audit.Signs(r.Event) || !r.IsNode && strings.HasPrefix(r.Event.User.CredentialID, tokenCredential)
}

// tokenCredential begins the credential IDs of service accounts' tokens, certCredential those of certificates (k8s.io/apiserver/pkg/authentication/request/x509).
const (
	tokenCredential = "JTI="
	certCredential  = "X509SHA256="
)

const (
	// aliveBefore and aliveAfter are the steps around a request in which one credential renews the Lease of a node that is alive: a Lease lasts for 40
	// seconds. A kubelet that is stopped to be made anew renews no more; the first seconds after are left out for the clocks of API servers.
	aliveBefore           = 4
	aliveFrom, aliveAfter = 2, 5
	// settled is after how many steps a request is judged.
	settled = aliveAfter + 1
	// maxOpenBirths bounds the requests that are followed, openFor for how long: kube-controller-manager deletes what is not signed after a day.
	maxOpenBirths = 4096
	openBirthFor  = 25 * time.Hour
	// maxHolders bounds the credentials that are known of a node.
	maxHolders = 6
	// maxFirstUses bounds the first uses of certificates that are not judged yet.
	maxFirstUses = 4 * MaxNodes
)

// birthDetector follows certificate requests to their certificates, and those to their first use.
type birthDetector struct {
	opt        Bootstrap
	nodes      map[string]*birthNode // MaxNodes at most
	open       map[string]*birth     // by Signing.Key
	owners     latest[addressOwner]
	issued     latest[issue]
	joins      latest[issue] // by the name of the node: the latest one that somebody else asked for
	minted     latest[mint]
	first      []firstUse
	uses       map[tokenPlace]*tokenUse
	made       []made
	latest     int64               // the latest step of any request
	ownersTold map[string]struct{} // the addresses whose owners changed
	// proven is the first step in which a certificate was used that a request in the log asked for; 0 for none.
	proven int64
	done   int64
	gone   goneNodes
	kubeletNames
	birthMemory
	objects signingObjects
	dropping
}

// birthNode is what is known of a node's credentials.
type birthNode struct {
	name    string
	address string // as the latest request had it
	last    *holder
	holders []*holder
	// open are renewals of the Lease that are not taken in, in no order; crowded is the latest minute of which there were too many.
	open    []renewals
	crowded int64
	dwelling
}

// holder is a credential of a node, or where its ID is not in the log the address that it is used from.
type holder struct {
	ID      string    `json:"i,omitempty"`
	Address string    `json:"a"` // of the first use
	First   time.Time `json:"f"`
	Audit   string    `json:"u"`
	Last    int64     `json:"l"`
	// Those in which it renewed the Lease.
	steps
	// Came are those in which a kubelet used it.
	Came steps `json:"c,omitzero"`
	// Kept is the last step for which the node must not forget it: its use would show that nobody set up the node again.
	Kept int64 `json:"k,omitempty"`
	dwelling
}

// birth is a certificate request.
type birth struct {
	Key     string    `json:"k"`
	At      time.Time `json:"t"` // of the first event of it
	Node    string    `json:"n"`
	Signer  string    `json:"g"`
	User    string    `json:"u"`
	Names   []string  `json:"s,omitempty"`
	Address string    `json:"a,omitempty"`
	Product string    `json:"p,omitempty"`
	Audit   []string  `json:"i"`
	// Approved, and Signed with the certificate's ID, are when that was logged first.
	Approved time.Time `json:"ap"`
	Signed   time.Time `json:"si"`
	ID       string    `json:"id,omitempty"`
	// Judged says that the request was judged, as not signed if Waits.
	Judged bool `json:"j,omitempty"`
	Waits  bool `json:"w,omitempty"`
	// Doubt says that the Node had names of it for a short time only, which may stay.
	Doubt bool `json:"d,omitempty"`
	// Old are the node's credentials of before, as long as it is open whether somebody set up the node again.
	Old  []string `json:"o,omitempty"`
	slot int
}

// issue is a certificate that a request in the log asked for.
type issue struct {
	ID      string `json:"i"`
	Node    string `json:"n"`
	Address string `json:"a,omitempty"`
	Used    bool   `json:"u,omitempty"`
	// At is when it was requested by somebody who is no node, and not trusted; else zero. Given says that somebody who is trusted requested it.
	At    time.Time `json:"t,omitzero"`
	Given bool      `json:"g,omitempty"`
	// Own is when the node requested it itself; else zero.
	Own  time.Time `json:"o,omitzero"`
	slot int
}

// mint is a token of a service account that a node got.
type mint struct {
	node string
	told [2]bool // of any use, and of one that only reviews
}

type firstUse struct {
	node *birthNode
	h    *holder
}

// tokenUse is the first use of a token at a place in the time that is not judged yet.
type tokenUse struct {
	user, audit, product string
	at                   time.Time
}

// tokenPlace is where a token is used, for a review alone or for anything else.
type tokenPlace struct {
	id, address string
	reviews     bool
}

func newBirthDetector(o DetectorOptions) Detector {
	return &birthDetector{
		opt: o.Bootstrap, nodes: map[string]*birthNode{}, open: map[string]*birth{}, owners: newLatest[addressOwner](8 * MaxNodes), gone: newGoneNodes(),
		issued: newLatest[issue](maxIssued), joins: newLatest[issue](MaxNodes), minted: newLatest[mint](8 * MaxNodes), uses: map[tokenPlace]*tokenUse{},
		ownersTold: map[string]struct{}{}, kubeletNames: kubeletNames{o.Kubelets}, birthMemory: newBirthMemory(), objects: newSigningObjects(),
	}
}

func (d *birthDetector) configure(o DetectorOptions) {
	d.opt = o.Bootstrap
	d.kubeletNames.configure(o)
}

// follow implements follower: it learns with which credentials and from which addresses a node comes, and when its Lease is renewed.
func (d *birthDetector) follow(r *Request, f *followed, step int64, _ State) {
	d.latest = max(d.latest, step)
	if r.Event.IsImpersonated || r.Event.Code == 401 {
		return
	}
	n := f.birth
	if n == nil {
		if n = d.nodes[r.Node]; n == nil {
			if len(d.nodes) >= MaxNodes {
				return
			}
			n = &birthNode{name: f.name}
			if x := d.gone.all[n.name]; x != nil {
				n.dwelling = x.dwelling
			}
			d.nodes[n.name] = n
		}
		f.birth = n
	}
	address := lastAddress(r)
	if address != n.address {
		n.address = strings.Clone(address)
		d.own(n, step)
	}
	id := r.Event.User.CredentialID
	h := n.last
	if h == nil || h.ID != id || id == "" && h.Address != address {
		h = d.holder(n, r, id, address)
		n.last = h
	}
	if r.Time.Before(h.First) || r.Time.Equal(h.First) && r.Event.AuditID < h.Audit {
		h.First, h.Audit, h.Address = r.Time, strings.Clone(r.Event.AuditID), n.address
	}
	h.Last = max(h.Last, step)
	a := r.Attrs
	renews := a.Resource == "leases" && a.APIGroup == "coordination.k8s.io" && a.Namespace == "kube-node-lease" && writes(a.Verb) && r.Succeeded()
	d.came(h, r, step, renews)
	switch a.Resource {
	case "leases":
		if renews {
			h.note(step)
			n.renew(h, r.Time)
		}
	case "nodes":
		if a.APIGroup == "" && a.Subresource == "" && r.Event.Code == http.StatusCreated && strings.HasPrefix(id, certCredential) && len(d.made) < maxFirstUses {
			d.made = append(d.made, made{n, h, n.address, r.Time, strings.Clone(r.Event.AuditID)})
		}
	case "serviceaccounts":
		if token := r.Event.IssuedCredential; token != "" && r.Succeeded() && d.minted.get(token) == nil {
			d.minted.add(token, &mint{node: n.name})
		}
	}
}

// holder returns that of a credential, or of an address where the log has no ID, and enters it if it is new.
func (d *birthDetector) holder(n *birthNode, r *Request, id, address string) *holder {
	for _, h := range n.holders {
		if h.ID == id && (id != "" || h.Address == address) {
			return h
		}
	}
	if len(n.holders) >= maxHolders {
		// Whoever has a node's credential gets as many certificates as he wants: those with which a kubelet lived stay.
		step := stepOf(r.Time)
		oldest := slices.MinFunc(n.holders, func(a, b *holder) int {
			return cmp.Or(a.kept(step)-b.kept(step), cmp.Compare(a.Lived/livesFor, b.Lived/livesFor), cmp.Compare(a.Last, b.Last), strings.Compare(a.ID, b.ID))
		})
		n.holders = slices.DeleteFunc(n.holders, func(h *holder) bool { return h == oldest })
	}
	h := &holder{Address: n.address, First: r.Time, Audit: strings.Clone(r.Event.AuditID)}
	if len(id) <= maxRemembered {
		h.ID = strings.Clone(id)
		h.dwelling = d.gone.home(n.name, id)
	}
	n.holders = append(n.holders, h)
	if strings.HasPrefix(id, certCredential) && len(d.first) < maxFirstUses {
		d.first = append(d.first, firstUse{n, h})
	}
	return h
}

// reached says that the log has got to a step.
func (d *birthDetector) reached(step int64) { d.latest = max(d.latest, step) }

// lastAddress is the connection's, "" for one that is too long to be one.
func lastAddress(r *Request) string {
	address, _ := r.Event.Address()
	if len(address) > maxRemembered {
		return ""
	}
	return address
}

// bear implements birthReader.
func (d *birthDetector) bear(r *Request, step int64) {
	d.latest = max(d.latest, step)
	if !audit.Signs(r.Event) {
		d.token(r)
		return
	}
	if !r.Succeeded() || DryRun(r.Event) {
		return
	}
	s, whole := r.Signing()
	if o := d.objects.see(r, s, whole, d.opt.Trusted); o != nil {
		defer d.hiddenSigned(o)
	}
	if !whole || s.Node() == "" || len(s.Node()) > maxRemembered || len(s.User) > maxRemembered {
		return
	}
	b := d.open[s.Key]
	if b == nil {
		if len(d.open) >= maxOpenBirths {
			d.makeRoom()
		}
		b = &birth{Key: s.Key, At: r.Time, Node: s.Node(), Signer: s.Signer, User: s.User, Names: s.Names, slot: d.slots.take()}
		d.open[s.Key] = b
	}
	b.see(r, s)
	d.touch(b)
}

// see takes in one event of the request.
func (b *birth) see(r *Request, s *Signing) {
	if r.Time.Before(b.At) {
		b.At = r.Time
	}
	sub := r.Event.ObjectRef.Subresource
	switch {
	case sub == "" && r.Event.Verb == "create":
		b.Address, b.Product = strings.Clone(lastAddress(r)), strings.Clone(r.Client())
		if name := r.Event.User.Username; r.Event.IsImpersonated && len(name) <= maxRemembered { // who acts as a node is not that node
			b.User = strings.Clone(name)
		}
	case sub == "approval" && s.Approved:
		keepEarlier(&b.Approved, r.Time)
	case sub == "status" && s.Certificate != "":
		keepEarlier(&b.Signed, r.Time)
		b.ID = s.Certificate
	}
	if id := r.Event.AuditID; id != "" && len(b.Audit) < 5 && !slices.Contains(b.Audit, id) {
		b.Audit = append(b.Audit, strings.Clone(id))
		slices.Sort(b.Audit)
	}
}

// token notes where a token is used. That a node got it, and whose the address is, may come later.
func (d *birthDetector) token(r *Request) {
	at := tokenPlace{r.Event.User.CredentialID, lastAddress(r), reviewsToken(r)}
	if at.address == "" || len(at.id) > maxRemembered {
		return
	}
	u := d.uses[at]
	switch {
	case u == nil && len(d.uses) >= maxFirstUses:
		return
	case u == nil:
		u = &tokenUse{}
		d.uses[tokenPlace{strings.Clone(at.id), strings.Clone(at.address), at.reviews}] = u
	case u.at.Before(r.Time) || u.at.Equal(r.Time) && u.audit <= r.Event.AuditID:
		return
	}
	*u = tokenUse{
		user: strings.Clone(r.Event.User.Username), audit: strings.Clone(r.Event.AuditID), product: strings.Clone(r.Client()), at: r.Time,
	}
}

// reviewsToken reports whether the request asks only whose token something is, or for oneself. A service to which a pod logs in may authenticate that with the pod's own token, as Vault
// does without token_reviewer_jwt.
func reviewsToken(r *Request) bool {
	a := r.Attrs
	return ofOneself(a) || a.ResourceRequest && a.Verb == "create" && a.APIGroup == "authentication.k8s.io" && a.Resource == "tokenreviews" && a.Subresource == ""
}

// Advance implements Detector.
func (d *birthDetector) Advance(t time.Time, s State, found func(*Detection)) {
	now := stepOf(t)
	var due []*birth
	for _, b := range d.open {
		if d.due(b, now) {
			due = append(due, b)
		}
	}
	slices.SortFunc(due, func(a, b *birth) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Key, b.Key)) })
	for _, b := range due {
		d.judge(b, now, s, found)
	}
	d.comebacks(now, found)
	d.objects.judge(now, d.opt.Trusted, found)
	d.firstUses(now, found)
	if now/stepsPerMinute != d.done/stepsPerMinute {
		for _, n := range d.nodes {
			n.dwell(now/stepsPerMinute, s)
		}
	}
	d.nodesMade(now, s, found)
	d.tokenUses(now, s, found)
	if now/360 != d.done/360 {
		d.forget(t)
		d.objects.forget(t)
	}
	d.done = now
}

// settled reports whether nothing more is to be found of the request.
func (b *birth) settled() bool { return b.Judged && !b.Waits && !b.Doubt && len(b.Old) == 0 }

// due reports whether a request can be judged: for the first time, or because it was signed since, or its names had their time to stay.
func (d *birthDetector) due(b *birth, now int64) bool {
	if !b.Judged {
		return now >= stepOf(b.At)+settled
	}
	if b.Doubt && (now >= stepOf(b.At)+namesSettle || d.ended(now)) {
		return true
	}
	return b.Waits && !b.Signed.IsZero() && now >= stepOf(b.Signed)+settled
}

// judge judges a request, of which all is known that was logged within a minute.
func (d *birthDetector) judge(b *birth, now int64, s State, found func(*Detection)) {
	at := b.At
	if b.Judged {
		at = b.Signed
	}
	signed, before := !b.Signed.IsZero() && stepOf(b.Signed) < stepOf(at)+settled, d.joins.get(b.Node)
	if signed {
		d.certified(b)
	}
	if b.Signer == signerServing {
		d.serving(b, now, s, found)
	} else if !b.byNode() {
		d.foreign(b, before, at, signed, s, found)
	}
	b.Judged, b.Waits = true, !signed
	d.touch(b)
}

// certified enters the certificate of a request.
func (d *birthDetector) certified(b *birth) {
	if b.Signer != signerServing && b.ID != "" && d.issued.get(b.ID) == nil {
		i := &issue{ID: b.ID, Node: b.Node, Address: b.Address}
		i.Given = slices.Contains(d.opt.Trusted, b.User)
		switch {
		case b.byNode():
			i.Own = b.At
		case !i.Given:
			i.At = b.At
		}
		d.issued.add(b.ID, i)
		d.joined(i)
		d.issues(i)
	}
}

// foreign judges a request for a node's client certificate by somebody who is no node. before is the last certificate of the node that somebody else got.
func (d *birthDetector) foreign(b *birth, before *issue, at time.Time, signed bool, s State, found func(*Detection)) {
	alive, known := d.alive(b, at, s), d.known(b.Node, at, s)
	f, trusted := b.finding(), slices.Contains(d.opt.Trusted, b.User)
	if signed && !alive && !trusted {
		d.claim(b, at)
	}
	old, step := d.back(b, stepOf(at)+aliveAfter)
	switch {
	case old != nil:
		d.comeback(b, &f, old, step)
	case alive && !trusted && signed:
		f.Reason, f.Severity = LiveNodeSigned, Critical
	case alive && !trusted: // the node has lost nothing yet: it is about who asked
		f.Reason, f.Severity, f.Subject, f.Apart = LiveNodeAsked, High, plainNode(b.User), ""
	case (alive || known) && !b.Judged:
		f.Reason, f.Severity = KnownNodeAgain, Low
	case signed && !trusted && d.twice(b, before, at, s):
		f.Reason, f.Severity = IssuedTwice, Medium
		f.Params = append(f.Params, codes.Text(ParamHome, before.Address))
	default:
		return
	}
	found(b.detection(f, at))
}

func (b *birth) detection(f Finding, at time.Time) *Detection {
	return &Detection{
		Finding: f, Time: at, First: b.At, Last: at, Count: 1, AuditIDs: slices.Clone(b.Audit),
		Verb: "create", APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests", Product: b.Product,
	}
}

// known reports whether there was a node of that name.
func (d *birthDetector) known(node string, at time.Time, s State) bool {
	if s != nil {
		if exists, known := s.NodeExists(node, at); known {
			return exists
		}
	}
	n := d.nodes[node]
	return n != nil && slices.ContainsFunc(n.holders, func(h *holder) bool { return h.First.Before(at) })
}

// taken removes those that are due, and returns them.
func taken[E any](all *[]E, due func(E) bool) (out []E) {
	*all = slices.DeleteFunc(*all, func(e E) bool {
		is := due(e)
		if is {
			out = append(out, e)
		}
		return is
	})
	return out
}

// firstUses judges the first uses of certificates that are over.
func (d *birthDetector) firstUses(now int64, found func(*Detection)) {
	due := taken(&d.first, func(u firstUse) bool { return now > stepOf(u.h.First)+settled })
	slices.SortFunc(due, func(a, b firstUse) int { return cmp.Or(a.h.First.Compare(b.h.First), strings.Compare(a.h.ID, b.h.ID)) })
	for _, u := range due {
		i, step := d.issued.get(u.h.ID), stepOf(u.h.First)
		f := Finding{Rule: BootstrapImpersonation, Subject: u.node.name, Allowed: true, Apart: u.h.ID}
		switch {
		case i == nil:
			// A certificate of before the log is no news; one that takes another's place is.
			changed := slices.ContainsFunc(u.node.holders, func(h *holder) bool { return h.ID != "" && h.ID != u.h.ID && h.First.Before(u.h.First) })
			if d.proven == 0 || d.proven > step || !changed {
				continue
			}
			f.Reason, f.Severity = CertificateNoBirth, Low
		case i.Used:
			continue
		default:
			if i.Used = true; d.proven == 0 || step < d.proven {
				d.proven = step
			}
			d.issues(i)
			if !d.apart(i.Address, u.h.Address, step+settled) {
				continue
			}
			f.Reason, f.Severity = CertificateMoved, Medium
			f.Params = codes.Params{codes.Text(ParamAddress, u.h.Address), codes.Text(ParamHome, i.Address)}
		}
		found(&Detection{Finding: f, Time: u.h.First, First: u.h.First, Last: u.h.First, Count: 1, AuditIDs: idsOf(u.h.Audit), Product: "kubelet"})
	}
}

// apart reports whether two addresses are of two machines: they differ, are of one family, and neither is a loopback's or one through which several nodes had come by the end of
// the step.
func (d *birthDetector) apart(a, b string, step int64) bool {
	x, y, apart := twoAddresses(a, b)
	return apart && x.Is4() == y.Is4() && !d.shared(a, step) && !d.shared(b, step)
}

// twoAddresses returns two addresses, and whether both are known, differ, and are no loopback ones.
func twoAddresses(a, b string) (x, y netip.Addr, apart bool) {
	x, err := netip.ParseAddr(a)
	y, wrong := netip.ParseAddr(b)
	x, y = x.Unmap(), y.Unmap()
	return x, y, err == nil && wrong == nil && x != y && !x.IsLoopback() && !y.IsLoopback()
}

// tokenUses judges the uses of tokens that are over. The address of a node that is gone is nobody's: whatever got it since uses its own tokens there.
func (d *birthDetector) tokenUses(now int64, s State, found func(*Detection)) {
	var due []tokenPlace
	for at, u := range d.uses {
		if now > stepOf(u.at) {
			due = append(due, at)
		}
	}
	slices.SortFunc(due, func(a, b tokenPlace) int {
		return cmp.Or(d.uses[a].at.Compare(d.uses[b].at), strings.Compare(a.id, b.id), strings.Compare(a.address, b.address), strings.Compare(strconv.FormatBool(a.reviews), strconv.FormatBool(b.reviews)))
	})
	for _, at := range due {
		u, m := d.uses[at], d.minted.get(at.id)
		owner := d.ownerOf(at.address, stepOf(u.at))
		delete(d.uses, at)
		if m == nil || owner == "" || owner == m.node || d.quiet(owner, stepOf(u.at)) || !d.known(owner, u.at, s) {
			continue
		}
		kind, severity := 0, High
		if at.reviews {
			kind, severity = 1, Low
		}
		if m.told[kind] {
			continue
		}
		m.told[kind] = true
		found(&Detection{
			Finding: Finding{
				Rule: BootstrapImpersonation, Reason: TokenElsewhere, Severity: severity, Subject: m.node, Apart: at.id, Allowed: true,
				Params: codes.Params{codes.Text(ParamUser, u.user), codes.Text(ParamAddress, at.address), codes.Text(ParamNode, owner)},
			},
			Time: u.at, First: u.at, Last: u.at, Count: 1, AuditIDs: idsOf(u.audit), Product: u.product,
		})
	}
}

// forget drops requests that are over, and nodes that have not been there for long.
func (d *birthDetector) forget(t time.Time) {
	for _, b := range d.open {
		if b.settled() || t.Sub(b.At) > openBirthFor {
			d.close(b)
			delete(d.open, b.Key)
		}
	}
	last := stepOf(t.Add(-habitFor))
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[name]
		if !slices.ContainsFunc(n.holders, func(h *holder) bool { return h.Last >= last }) {
			d.gone.leaves(n, stepOf(t))
			delete(d.nodes, name)
			d.dropped = true
		}
	}
}
