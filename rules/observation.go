package rules

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"
	"unsafe"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// An observation is what detectors look at of one request, as bytes: who made it, what it asked for, and the rest. The first two are the same in many
// requests, and are apart so that they can be kept once. It holds no text of the client's choice that is longer than maxRemembered.
//
// Detectors that are shown what [observed.request] makes of it find what they find in the request itself.

// The flags of an observation.
const (
	obsRace = 1 << iota
	obsAllowed
	obsOpen
	obsGrant
	obsForNodes
	obsDerived
	obsPrompt
	obsBegan
	obsDecided
	obsByOther
	obsDryRun
	obsUUID
	obsName
	obsReason
	obsIssued
	obsObject
	obsSigning
	obsWhole
	obsAhead    = 1 << 22
	obsVerdict  = 18 // where the two verdicts begin, of two bits each
	obsObserved = 20
)

// The flags of who made a request.
const (
	obsNode = 1 << iota
	obsImpersonated
	obsAddress
	obsHash
	obsNamed
)

// Observes reports whether detectors have a use for the request.
func Observes(r *Request) bool {
	return !r.Time.IsZero() && len(r.Node) <= maxRemembered && (r.IsNode && r.Node != "" || ofBirth(r))
}

// clip cuts what is too long, and leaves it too long.
func clip(s string) string { return s[:min(len(s), maxRemembered+1)] }

func appendString(b []byte, s string) []byte {
	if len(s) < 0x80 {
		b = append(b, byte(len(s))) // most are that short
	} else {
		b = binary.AppendUvarint(b, uint64(len(s)))
	}
	return append(b, s...)
}

// appendPart appends what fill appends, after its length.
func appendPart(b []byte, fill func([]byte) []byte) []byte {
	at := len(b)
	b = fill(append(b, 0, 0, 0)) // the length of a part has three bytes at most
	var n [3]byte
	length := len(b) - at - 3
	n[0], n[1], n[2] = byte(length)|0x80, byte(length>>7)|0x80, byte(length>>14)
	copy(b[at:], n[:])
	return b
}

// AppendObservation appends the observation of a request that [Observes] reports. It keeps nothing of the request. came is when the request came in, by the
// clock, zero where that is not known.
func AppendObservation(b []byte, r *Request, came time.Time) []byte {
	signs := audit.Signs(r.Event)
	b = appendPart(b, func(b []byte) []byte { return appendWho(b, r, signs) })
	b = appendPart(b, func(b []byte) []byte { return appendWhat(b, r, signs) })
	return appendRest(b, r, signs, came)
}

func appendWho(b []byte, r *Request, signs bool) []byte {
	ev := r.Event
	at, flags := len(b), byte(0)
	b = append(b, 0)
	if r.IsNode {
		flags |= obsNode
		b = appendString(b, r.Node)
	}
	if ev.IsImpersonated {
		flags |= obsImpersonated
	}
	if !r.IsNode || signs {
		flags |= obsNamed
		b = appendString(b, clip(ev.User.Username))
		if ev.IsImpersonated {
			b = appendString(b, clip(ev.Impersonated.Username))
		}
	}
	b = appendString(b, r.product())
	if address, logged := ev.Address(); logged && len(address) <= maxRemembered {
		flags |= obsAddress
		b = appendString(b, address)
	}
	var sum [32]byte
	if id, is := CertificateHash(ev.User.CredentialID); is && isHex(id) {
		_, _ = hex.Decode(sum[:], []byte(id)) // it is hexadecimal
		flags |= obsHash
		b = append(b, sum[:]...)
	} else {
		b = appendString(b, clip(ev.User.CredentialID))
	}
	b[at] = flags
	return b
}

// isHex reports whether s is what hex.EncodeToString makes of 32 bytes.
func isHex(s string) bool {
	if len(s) != 64 {
		return false
	}
	wrong := byte(0)
	for i := range len(s) {
		wrong |= nibbles[s[i]]
	}
	return wrong <= 15
}

func appendWhat(b []byte, r *Request, signs bool) []byte {
	a, flags := r.Attrs, byte(0)
	if a.ResourceRequest {
		flags = 1
	}
	if signs {
		flags |= 2
	}
	b = append(b, flags)
	for _, s := range [...]string{a.Verb, a.APIGroup, a.Resource, a.Subresource} {
		b = appendString(b, clip(s))
	}
	if signs {
		o := &r.Event.ObjectRef
		for _, s := range [...]string{r.Event.Verb, o.APIGroup, o.Resource, o.Subresource} {
			b = appendString(b, clip(s))
		}
	}
	return b
}

func appendRest(b []byte, r *Request, signs bool, came time.Time) []byte {
	ev, a := r.Event, r.Attrs
	denies := r.NodeDenies()
	issued := ""
	if a.Resource == "serviceaccounts" {
		issued = ev.IssuedCredential
	}
	reason := ""
	if denies {
		reason = reasonOf(r)
	}
	named := denies || byGraph(r)
	cut := named && max(len(a.Verb), len(a.APIGroup), len(a.Resource), len(a.Subresource), len(a.Namespace), len(a.Name), len(a.Path)) > maxRemembered
	id, short := shortUUID(ev.AuditID)
	var signing *Signing
	whole := false
	if signs {
		signing, whole = r.Signing()
	}
	flags := uint64(r.Answer.Verdict)<<obsVerdict | uint64(r.Observed.NodeVerdict)<<obsObserved
	for i, is := range [...]bool{
		r.Answer.Race, r.Allowed, r.Open, r.HasGrant, r.HasGrant && r.Grant.ForNodes(), ev.Derived, ev.StageTime.Sub(r.Time) < time.Minute,
		ev.Stage == audit.StageRequestReceived, r.Observed.Decision != "", r.Observed.Authorizer == ByOther, signs && DryRun(ev), short, named,
		reason != "", issued != "", cut, signing != nil, whole,
	} {
		if is {
			flags |= 1 << i
		}
	}
	ahead := !came.IsZero() && r.Time.After(came)
	if ahead {
		flags |= obsAhead
	}
	b = binary.AppendVarint(b, r.Time.UnixNano())
	b = binary.AppendUvarint(b, flags)
	if ahead {
		b = binary.AppendVarint(b, came.UnixNano())
	}
	b = binary.AppendVarint(b, int64(ev.Code))
	if short {
		b = append(b, id[:]...)
	} else {
		b = appendString(b, bounded(ev.AuditID, maxRemembered))
	}
	b = appendString(b, clip(a.Namespace))
	if named {
		b = appendString(b, clip(a.Name))
		b = appendString(b, clip(a.Path))
	}
	if reason != "" {
		b = appendString(b, reason)
	}
	if issued != "" {
		b = appendString(b, clip(issued))
	}
	if cut {
		b = binary.LittleEndian.AppendUint64(b, idOf(r, hash(hashSeed, r.Node)))
	}
	if signing != nil {
		text, err := json.Marshal(signing)
		if err != nil { // it has only texts
			text = nil
		}
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// shortUUID is an audit ID as the API server makes it, in 16 bytes.
func shortUUID(s string) (id [16]byte, is bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	wrong := byte(0)
	for i, at := range uuidAt {
		hi, lo := nibbles[s[at]], nibbles[s[at+1]]
		wrong |= hi | lo
		id[i] = hi<<4 | lo
	}
	return id, wrong <= 15
}

// uuidAt is where each byte of a UUID is in its long form.
var uuidAt = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// nibbles are the values of the digits of a hexadecimal number in lower case; 255 for what is none.
var nibbles = func() (out [256]byte) {
	for i := range out {
		out[i] = 255
	}
	for i, c := range []byte("0123456789abcdef") {
		out[c] = byte(i)
	}
	return out
}()

// longUUID writes the ID in its long form into out, and returns out.
func longUUID(out *[36]byte, id []byte) string {
	hex.Encode(out[0:8], id[0:4])
	hex.Encode(out[9:13], id[4:6])
	hex.Encode(out[14:18], id[6:8])
	hex.Encode(out[19:23], id[8:10])
	hex.Encode(out[24:36], id[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return unsafe.String(&out[0], len(out))
}

// observation is one that was read, of which the parts that many have in common are shared.
type observation struct {
	at   int64 // nanoseconds since 1970
	came int64 // when it came in, likewise, if that was before
	who  *observedWho
	what *observedWhat
	rest []byte
}

type observedWho struct {
	node, username, impersonated, product, address, credential string
	isNode, isImpersonated, hasAddress                         bool
	ips                                                        [1]string
	held                                                       numbered
}

type observedWhat struct {
	verb, group, resource, subresource             string
	isResource, signs                              bool
	objVerb, objGroup, objResource, objSubresource string
	held                                           numbered
}

// observed is a request as an observation has it, with the memory that it needs. It is overwritten by the next one. What request does not set is never set: to
// clear an event as a whole takes longer than to read one.
type observed struct {
	r     Request
	ev    audit.Event
	attrs authorizer.AttributesRecord
	sign  signingRead
	id    [36]byte
}

// cursor reads an observation. What is broken reads as nothing, and is broken from there on.
type cursor struct {
	b      []byte
	broken bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.b, c.broken = nil, true
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.b, c.broken = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.b, c.broken = nil, true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) bytes() []byte { return c.take(c.uvarint()) }
func (c *cursor) text() string  { return string(c.bytes()) }

// view is text without a copy.
func (c *cursor) view() string {
	b := c.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (c *cursor) flags() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func readWho(b []byte) (*observedWho, bool) {
	c, w := cursor{b: b}, &observedWho{}
	flags := c.flags()
	w.isNode, w.isImpersonated, w.hasAddress = flags&obsNode != 0, flags&obsImpersonated != 0, flags&obsAddress != 0
	if w.isNode {
		w.node = c.text()
	}
	if flags&obsNamed != 0 {
		if w.username = c.text(); w.isImpersonated {
			w.impersonated = c.text()
		}
	}
	w.product = c.text()
	if w.hasAddress {
		w.address = c.text()
	}
	if flags&obsHash != 0 {
		w.credential = certCredential + hex.EncodeToString(c.take(32))
	} else {
		w.credential = c.text()
	}
	w.ips[0] = w.address
	return w, !c.broken && len(c.b) == 0 && len(w.node) <= maxRemembered
}

func readWhat(b []byte) (*observedWhat, bool) {
	c, w := cursor{b: b}, &observedWhat{}
	flags := c.flags()
	w.isResource, w.signs = flags&1 != 0, flags&2 != 0
	for _, s := range [...]*string{&w.verb, &w.group, &w.resource, &w.subresource} {
		*s = c.text()
	}
	if w.signs {
		for _, s := range [...]*string{&w.objVerb, &w.objGroup, &w.objResource, &w.objSubresource} {
			*s = c.text()
		}
	}
	return w, !c.broken && len(c.b) == 0
}

func (o *observation) time() time.Time { return time.Unix(0, o.at).UTC() }

// moves is up to when the request moves time on: a clock that is ahead of ours makes nothing late that others write.
func (o *observation) moves() time.Time {
	if o.came != 0 && o.came < o.at {
		return time.Unix(0, o.came).UTC()
	}
	return o.time()
}

// readCame reads when it came in, if that is there.
func (o *observation) readCame() {
	c := cursor{b: o.rest}
	if o.came = 0; c.uvarint()&obsAhead != 0 {
		o.came = c.varint()
	}
}

// request makes the request that was observed, which lives until it is called again, with strings that are in of. It is false for bytes that are broken.
func (o *observed) request(of *observation) (*Request, bool) {
	who, what := of.who, of.what
	r, ev, a := &o.r, &o.ev, &o.attrs
	*r, ev.AuditID, ev.RequestURI, ev.SourceIPs, ev.IssuedCredential, ev.ObjectRef = Request{}, "", "", nil, "", audit.ObjectRef{}
	a.Name, a.Path = "", ""
	r.Event, r.Attrs, r.Time, r.Node, r.IsNode = ev, a, of.time(), who.node, who.isNode
	ev.UserAgent, ev.User.CredentialID, ev.User.Username, ev.Impersonated.Username = who.product, who.credential, who.username, who.impersonated
	if ev.IsImpersonated = who.isImpersonated; who.hasAddress {
		ev.SourceIPs = who.ips[:]
	}
	a.Verb, a.APIGroup, a.Resource, a.Subresource, a.ResourceRequest = what.verb, what.group, what.resource, what.subresource, what.isResource
	if ev.Verb = what.verb; what.signs {
		ev.Verb, ev.ObjectRef.APIGroup, ev.ObjectRef.Resource, ev.ObjectRef.Subresource = what.objVerb, what.objGroup, what.objResource, what.objSubresource
	}
	c := cursor{b: of.rest}
	flags := c.uvarint()
	if flags&obsAhead != 0 {
		c.varint()
	}
	ev.Code = int32(c.varint())
	if flags&obsUUID != 0 {
		if id := c.take(16); id != nil {
			ev.AuditID = longUUID(&o.id, id)
		}
	} else {
		ev.AuditID = c.view()
	}
	if a.Namespace = c.view(); flags&obsName != 0 {
		a.Name, a.Path = c.view(), c.view()
	}
	if flags&obsReason != 0 {
		r.Answer.Reason = c.view()
	}
	if flags&obsIssued != 0 {
		ev.IssuedCredential = c.view()
	}
	if flags&obsObject != 0 {
		if id := c.take(8); id != nil {
			r.object = binary.LittleEndian.Uint64(id)
		}
	}
	if flags&obsSigning != 0 {
		o.sign = signingRead{}
		if text := c.bytes(); json.Unmarshal(text, &o.sign.Signing) != nil {
			return nil, false
		}
		o.sign.whole = flags&obsWhole != 0
		r.signing = &o.sign
	}
	o.flags(flags)
	return r, !c.broken && len(c.b) == 0
}

func (o *observed) flags(flags uint64) {
	r, ev := &o.r, &o.ev
	r.Answer.Verdict, r.Observed.NodeVerdict = nodeauthz.Verdict(flags>>obsVerdict&3), nodeauthz.Verdict(flags>>obsObserved&3)
	r.Answer.Race, r.Allowed, r.Open, r.HasGrant = flags&obsRace != 0, flags&obsAllowed != 0, flags&obsOpen != 0, flags&obsGrant != 0
	r.Observed.Reason = r.Answer.Reason
	if flags&obsForNodes != 0 {
		r.Grant.Subject = rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}
	}
	ev.Derived, ev.Stage, ev.StageTime = flags&obsDerived != 0, audit.StageResponseComplete, r.Time
	if flags&obsPrompt == 0 {
		ev.StageTime = r.Time.Add(time.Minute)
	}
	if flags&obsBegan != 0 {
		ev.Stage = audit.StageRequestReceived
	}
	if flags&obsDecided != 0 {
		r.Observed.Decision = "decided"
	}
	if flags&obsByOther != 0 {
		r.Observed.Authorizer = ByOther
	}
	if flags&obsDryRun != 0 {
		ev.RequestURI = "?dryRun=All"
	}
}
