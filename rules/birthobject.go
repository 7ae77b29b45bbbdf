package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
)

const (
	rememberedObject = "birth-object"
	// maxSigningObjects bounds the objects that are known, maxOfObject what is known of one: requests of its name, and approvals.
	maxSigningObjects, maxOfObject = maxOpenBirths, 4
)

// signingObjects joins the events of each CertificateSigningRequest by the object's name. Each client chooses the form of its own event: the API server cuts off
// a body that is too long, a patch does not have the whole, and what an approval says of the request is not stored
// (k8s.io/kubernetes/pkg/registry/certificates/certificates/strategy.go). What was asked for is in the creation, and in what a known approver or the signer writes.
type signingObjects struct {
	of    map[string]*signingObject
	slots slotSet
	told  map[*signingObject]struct{}
}

// signingObject is what the events of one name show.
type signingObject struct {
	Name string    `json:"n"`
	User string    `json:"u"` // whose event was seen first
	Last time.Time `json:"t"`
	// Contents are what was asked for, the worst first; several if the name was used again.
	Contents []signingContent `json:"c,omitempty"`
	// Cut and Signed are when a body was first cut off for its length, and when a certificate was; Hidden is when an event of the signer's was cut.
	Cut       time.Time         `json:"x,omitzero"`
	Signed    time.Time         `json:"s,omitzero"`
	Hidden    time.Time         `json:"h,omitzero"`
	Approvals []signingApproval `json:"a,omitempty"`
	slot      int
}

// signingContent is a request as the API server has it, cut to what is judged and listed.
type signingContent struct {
	At time.Time `json:"t"`
	Signing
}

// signingApproval is an approval by somebody who may say something else of the request than what it is.
type signingApproval struct {
	By      string    `json:"b"`
	At      time.Time `json:"t"`
	Audit   string    `json:"i"`
	Verb    string    `json:"v"`
	Product string    `json:"p,omitempty"`
	// Sure says that it is no denial. Found is the severity of what was found of it, by its own event first; Done is the step up to which it was judged.
	Sure  bool     `json:"s,omitempty"`
	Found Severity `json:"f,omitempty"`
	Done  int64    `json:"d,omitempty"`
}

func newSigningObjects() signingObjects {
	return signingObjects{of: map[string]*signingObject{}, slots: newSlotSet(), told: map[*signingObject]struct{}{}}
}

// weight is the severity of an approval of the content by somebody unknown; zero for what may be approved by anybody.
func (s *Signing) weight() Severity {
	var f Finding
	if !approved("", s, nil, &f) {
		return 0
	}
	return f.Severity
}

// short is a copy that is bounded, and judged as the whole.
func (s *Signing) short() Signing {
	out := Signing{
		Key: s.Key, Signer: bounded(s.Signer, maxRemembered), User: bounded(s.User, maxRemembered), CommonName: bounded(s.CommonName, maxRemembered),
		Organizations: someOf(s.Organizations), Names: someOf(s.Names),
	}
	if slices.Contains(s.Organizations, user.NodesGroup) && !slices.Contains(out.Organizations, user.NodesGroup) {
		out.Organizations = append(out.Organizations, user.NodesGroup)
	}
	return out
}

// see takes in an event that succeeded, and returns its object; nil if it has no name.
func (m *signingObjects) see(r *Request, s *Signing, whole bool, trusted []string) *signingObject {
	sub, by := r.Event.ObjectRef.Subresource, r.Event.User.Username
	creates := sub == "" && r.Event.Verb == "create"
	if s.Name == "" || len(s.Name) > maxRemembered || len(by) > maxRemembered || !creates && sub != "approval" && sub != "status" {
		return nil
	}
	o := m.of[s.Name]
	if o == nil {
		if len(m.of) >= maxSigningObjects {
			m.makeRoom()
		}
		o = &signingObject{Name: strings.Clone(s.Name), User: strings.Clone(by), slot: m.slots.take()}
		m.of[o.Name] = o
	}
	m.told[o] = struct{}{}
	if o.Last.Before(r.Time) {
		o.Last = r.Time
	}
	known := approvesNodes(by) || sub == "approval" && slices.Contains(trusted, by)
	if s.Cut {
		keepEarlier(&o.Cut, r.Time)
	}
	if sub == "status" && approvesNodes(by) && (s.Cut || s.Certificate != "") {
		if keepEarlier(&o.Signed, r.Time); s.Cut {
			keepEarlier(&o.Hidden, r.Time)
		}
	}
	if whole && (creates || known) {
		o.content(r.Time, s)
	}
	if sub == "approval" && !byNode(r) && !(whole && known) && (s.Approved || s.Absent) {
		a := signingApproval{
			By: strings.Clone(by), At: r.Time, Audit: bounded(r.Event.AuditID, maxRemembered), Verb: strings.Clone(r.Event.Verb), Product: strings.Clone(r.Client()), Sure: !s.Absent || s.Cut,
		}
		var f Finding
		if whole && approved(by, s, trusted, &f) {
			a.Found = f.Severity
		}
		o.approval(&a)
	}
	return o
}

// keepEarlier has t the earlier of two times, of which zero is none.
func keepEarlier(t *time.Time, other time.Time) {
	if t.IsZero() || other.Before(*t) {
		*t = other
	}
}

// content enters what was asked for.
func (o *signingObject) content(at time.Time, s *Signing) {
	i := slices.IndexFunc(o.Contents, func(c signingContent) bool { return c.Key == s.Key })
	switch {
	case i < 0:
		o.Contents = append(o.Contents, signingContent{at, s.short()})
	case at.Before(o.Contents[i].At):
		o.Contents[i].At = at
	default:
		return
	}
	slices.SortFunc(o.Contents, func(a, b signingContent) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), a.At.Compare(b.At), strings.Compare(a.Key, b.Key))
	})
	o.Contents = o.Contents[:min(len(o.Contents), maxOfObject)]
}

// approval enters one.
func (o *signingObject) approval(a *signingApproval) {
	if slices.ContainsFunc(o.Approvals, func(b signingApproval) bool { return a.At.Equal(b.At) && a.Audit == b.Audit }) {
		return
	}
	o.Approvals = append(o.Approvals, *a)
	slices.SortFunc(o.Approvals, func(a, b signingApproval) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Audit, b.Audit)) })
	o.Approvals = o.Approvals[:min(len(o.Approvals), maxOfObject)]
}

// hiddenSigned has the requests of an object signed whose signer's event was cut.
func (d *birthDetector) hiddenSigned(o *signingObject) {
	if o.Hidden.IsZero() {
		return
	}
	for i := range o.Contents {
		if b := d.open[o.Contents[i].Key]; b != nil && b.ID == "" && (b.Signed.IsZero() || o.Hidden.Before(b.Signed)) {
			b.Signed = o.Hidden
			d.touch(b)
		}
	}
}

// judge judges the approvals of a minute ago, and those of which something new was logged since.
func (m *signingObjects) judge(now int64, trusted []string, found func(*Detection)) {
	var due []*signingObject
	for _, o := range m.of {
		if len(o.Approvals) > 0 {
			due = append(due, o)
		}
	}
	slices.SortFunc(due, func(a, b *signingObject) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range due {
		for i := range o.Approvals {
			if a := &o.Approvals[i]; o.judge(a, now, trusted, found) {
				m.told[o] = struct{}{}
			}
		}
	}
}

// judge judges an approval by what was logged within a minute, and again by what came after. It reports whether it did.
func (o *signingObject) judge(a *signingApproval, now int64, trusted []string, found func(*Detection)) (did bool) {
	first := stepOf(a.At) + settled
	times := []time.Time{o.Cut, o.Signed}
	for i := range o.Contents {
		times = append(times, o.Contents[i].At)
	}
	times = slices.DeleteFunc(times, func(t time.Time) bool { return stepOf(t) < first })
	slices.SortFunc(times, time.Time.Compare)
	at := func(step int64, t time.Time) {
		if step > now || step <= a.Done {
			return
		}
		did, a.Done = true, step
		f := Finding{Rule: BootstrapImpersonation, Subject: plainNode(a.By), Allowed: true, Params: codes.Params{codes.Text(ParamUser, a.By)}}
		if !o.approved(a, step, trusted, &f) || f.Severity <= a.Found {
			return
		}
		a.Found = f.Severity
		found(&Detection{
			Finding: f, Time: t, Phase: a.Audit, First: a.At, Last: t, Count: 1, AuditIDs: idsOf(a.Audit),
			Verb: a.Verb, APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval", Product: a.Product,
		})
	}
	at(first, a.At)
	for _, t := range times {
		at(stepOf(t)+1, t)
	}
	return did
}

// approved judges an approval by what was logged before a step. A body that somebody made too long may be any request's.
func (o *signingObject) approved(a *signingApproval, before int64, trusted []string, f *Finding) bool {
	by := func(t time.Time) bool { return !t.IsZero() && stepOf(t) < before }
	if !a.Sure && !by(o.Signed) { // it may be a denial
		return false
	}
	known := false
	for i := range o.Contents { // the worst is first
		c := &o.Contents[i]
		if !by(c.At) {
			continue
		}
		if known = true; approved(a.By, &c.Signing, trusted, f) {
			return true
		}
	}
	if known || !by(o.Cut) || approvesNodes(a.By) || slices.Contains(trusted, a.By) {
		return false
	}
	f.Reason, f.Severity = ApproverUnclear, High
	f.Params = append(f.Params, codes.Text(ParamObject, codes.Bound(o.Name, maxAsked)))
	return true
}

// makeRoom forgets some objects of whoever has most, those first of which nothing is to be found.
func (m *signingObjects) makeRoom() {
	by := map[string]int{}
	for _, o := range m.of {
		by[o.User]++
	}
	weight := func(o *signingObject) int {
		switch {
		case len(o.Approvals) > 0:
			return 2
		case !o.Cut.IsZero(), len(o.Contents) > 0 && o.Contents[0].weight() > 0:
			return 1
		}
		return 0
	}
	all := slices.SortedFunc(maps.Values(m.of), func(a, b *signingObject) int {
		return cmp.Or(by[b.User]-by[a.User], weight(a)-weight(b), a.Last.Compare(b.Last), strings.Compare(a.Name, b.Name))
	})
	for _, o := range all[:maxSigningObjects/16] {
		m.drop(o)
	}
}

// forget drops those of which there was no event for long.
func (m *signingObjects) forget(t time.Time) {
	for _, o := range m.of {
		if t.Sub(o.Last) > openBirthFor {
			m.drop(o)
		}
	}
}

func (m *signingObjects) drop(o *signingObject) {
	delete(m.told, o)
	delete(m.of, o.Name)
	m.slots.empty(o.slot)
}

// changes appends what is to be stored.
func (m *signingObjects) changes(out []Remembered) []Remembered {
	out = m.slots.changes(out, rememberedObject, &signingObject{})
	for _, o := range slices.SortedFunc(maps.Keys(m.told), func(a, b *signingObject) int { return a.slot - b.slot }) {
		out = remember(out, rememberedObject, strconv.Itoa(o.slot), o)
	}
	clear(m.told)
	return out
}

// restore puts back one that was stored.
func (m *signingObjects) restore(r *Remembered) error {
	o := &signingObject{}
	if err := json.Unmarshal(r.Value, o); err != nil {
		return err
	}
	slot, err := strconv.Atoi(r.Key)
	if err != nil || slot < 0 || slot >= maxSigningObjects || len(o.Name) > maxRemembered || max(len(o.Contents), len(o.Approvals)) > maxOfObject {
		return fmt.Errorf("the object of a certificate request that is none")
	}
	if o.Name == "" || m.of[o.Name] != nil || m.slots.used[slot] {
		return nil
	}
	o.slot = slot
	m.slots.used[slot], m.of[o.Name] = true, o
	return nil
}
