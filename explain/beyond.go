package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/tally"
)

// The bounds of Beyond.
const (
	// MaxUses bounds Beyond.Uses.
	MaxUses = 10_000
	// MaxExamples bounds each list of a Use.
	MaxExamples = 5
)

// Beyond is what the credential of one node did although nothing on the node led to what it asked for: requests that were carried out and that the
// Node authorizer does not allow, and those as another user. Not safe for concurrent use.
type Beyond struct {
	// Uses are by what was done: secrets first, then by resource, namespace and name.
	Uses []Use `json:"uses"`
	// More counts the requests that are in no Use, because there are too many kinds of them.
	More int64 `json:"more"`
	// Requests counts the credential's requests in the log, From and To bound them; nil where there are none.
	Requests int64      `json:"requests"`
	From     *time.Time `json:"from"`
	To       *time.Time `json:"to"`
	// Races counts requests that the Node authorizer refused or may have refused, although something on the node led to what they asked for at that time
	// or within the skew: its graph was behind.
	Races int64 `json:"races"`

	node   string
	places map[useKey]int
	taken  takings
}

// The verdicts of a Use, as package nodeauthz names them.
const (
	UseDenied    = "deny"
	UseUndecided = "unknown"
)

// Use is the same thing done again and again.
type Use struct {
	// As is whom the node impersonated, empty for itself.
	As          string `json:"as"`
	Verb        string `json:"verb"`
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	// Namespace and Name are empty for all; Path is that of a request for no resource.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	// Verdict is the Node authorizer's: deny, or unknown where the state does not tell whether something on the node led to the object.
	Verdict string `json:"verdict"`
	// Grant is what let it through, nil where it is not known; of an impersonation what let the node impersonate.
	Grant *UseGrant `json:"grant"`
	Count int64     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// At most [MaxExamples] each.
	UserAgents []string `json:"userAgents"`
	SourceIPs  []string `json:"sourceIPs"`
	AuditIDs   []string `json:"auditIDs"`
}

// UseGrant names a grant.
type UseGrant struct {
	Binding Binding `json:"binding"`
	Role    Role    `json:"role"`
	Subject Subject `json:"subject"`
}

type useKey struct {
	as, verb, group, resource, sub, namespace, name, path, verdict string
	grant                                                          UseGrant
}

// NewBeyond returns one of the node without any request.
func NewBeyond(node string) *Beyond {
	return &Beyond{Uses: []Use{}, node: node, places: map[useKey]int{}}
}

// BeyondOf returns one of uses that are known already, such as a store keeps; they are cut to [MaxExamples].
func BeyondOf(node string, uses []Use) *Beyond {
	b := NewBeyond(node)
	for _, u := range uses {
		for _, list := range []*[]string{&u.UserAgents, &u.SourceIPs, &u.AuditIDs} {
			*list = append([]string{}, (*list)[:min(len(*list), MaxExamples)]...)
		}
		b.Requests += u.Count
		if b.From == nil || u.First.Before(*b.From) {
			b.From = optional(u.First)
		}
		if b.To == nil || u.Last.After(*b.To) {
			b.To = optional(u.Last)
		}
		if len(b.Uses) < MaxUses {
			b.Uses = append(b.Uses, u)
		} else {
			b.More += u.Count
		}
	}
	b.sort()
	return b
}

// Add takes a judged request in, of which it keeps nothing. Requests by other credentials are passed over, those of users who impersonate the node too.
func (b *Beyond) Add(j *pipeline.Judgement) {
	ev := j.Event
	if node, is := nodeid.Of(ev.User.Username, ev.User.Groups); !is || node != b.node {
		return
	}
	b.Requests++
	if at := optional(j.Time); at != nil {
		if b.From == nil || at.Before(*b.From) {
			b.From = at
		}
		if b.To == nil || at.After(*b.To) {
			b.To = at
		}
	}
	if j.Succeeded() {
		b.taken.add(j)
	}
	verdict, beyond := b.verdict(j)
	if !beyond || !j.Succeeded() {
		return
	}
	b.use(j, verdict)
}

// verdict is the Node authorizer's, and whether the request is one that nothing on the node explains.
func (b *Beyond) verdict(j *pipeline.Judgement) (verdict string, beyond bool) {
	if !j.IsNode || j.Node != b.node { // as somebody else, which the Node authorizer allows no node
		return nodeauthz.Deny.String(), true
	}
	v := j.Observed.NodeVerdict
	if v == nodeauthz.NotNode {
		v = j.Answer.Verdict
	}
	switch {
	case v == nodeauthz.Allow:
		return "", false
	case j.Answer.Race, j.Answer.Verdict == nodeauthz.Allow && !j.Answer.Static:
		if j.Succeeded() {
			b.Races++
		}
		return "", false
	}
	return v.String(), true
}

func (b *Beyond) use(j *pipeline.Judgement, verdict string) {
	a := j.Attrs
	k := useKey{
		verb: tally.Bounded(a.Verb), group: tally.Bounded(a.APIGroup), resource: tally.Bounded(a.Resource), sub: tally.Bounded(a.Subresource),
		namespace: tally.Bounded(a.Namespace), name: tally.Bounded(a.Name), verdict: verdict,
	}
	if !a.ResourceRequest {
		k = useKey{verb: k.verb, path: tally.Bounded(a.Path), verdict: verdict}
	}
	if !j.IsNode || j.Node != b.node {
		k.as = tally.Bounded(j.Event.Effective().Username)
	}
	if j.HasGrant {
		g := &j.Grant
		k.grant = UseGrant{
			Binding: Binding{tally.Bounded(g.Binding.Kind), tally.Bounded(g.Binding.Namespace), tally.Bounded(g.Binding.Name)},
			Role:    Role{tally.Bounded(g.Role.Kind), tally.Bounded(g.Role.Name)},
			Subject: Subject{tally.Bounded(g.Subject.Kind), tally.Bounded(g.Subject.Namespace), tally.Bounded(g.Subject.Name)},
		}
	}
	i, known := b.places[k]
	if !known {
		if len(b.Uses) == MaxUses {
			b.More++
			return
		}
		i = len(b.Uses)
		k = k.own()
		b.places[k] = i
		u := Use{
			As: k.as, Verb: k.verb, APIGroup: k.group, Resource: k.resource, Subresource: k.sub, Namespace: k.namespace, Name: k.name, Path: k.path,
			Verdict: verdict, First: wireTime(j.Time), Last: wireTime(j.Time), UserAgents: []string{}, SourceIPs: []string{}, AuditIDs: []string{},
		}
		if j.HasGrant {
			u.Grant = &k.grant
		}
		b.Uses = append(b.Uses, u)
	}
	u := &b.Uses[i]
	u.Count++
	if at := wireTime(j.Time); at.Before(u.First) {
		u.First = at
	} else if at.After(u.Last) {
		u.Last = at
	}
	sample(&u.UserAgents, j.Event.UserAgent)
	for _, ip := range j.Event.SourceIPs {
		sample(&u.SourceIPs, ip)
	}
	sample(&u.AuditIDs, j.Event.AuditID)
}

// own is the key with memory of its own.
func (k useKey) own() useKey {
	g := &k.grant
	for _, s := range []*string{
		&k.as, &k.verb, &k.group, &k.resource, &k.sub, &k.namespace, &k.name, &k.path, &g.Binding.Kind, &g.Binding.Namespace, &g.Binding.Name,
		&g.Role.Kind, &g.Role.Name, &g.Subject.Kind, &g.Subject.Namespace, &g.Subject.Name,
	} {
		*s = strings.Clone(*s)
	}
	return k
}

func sample(list *[]string, s string) {
	if s = tally.Bounded(s); s != "" && len(*list) < MaxExamples && !slices.Contains(*list, s) {
		*list = append(*list, strings.Clone(s))
	}
}

// sort puts what matters most first. Nothing can be added afterwards.
func (b *Beyond) sort() {
	rank := func(u *Use) int {
		switch {
		case u.Resource == "secrets" && u.APIGroup == "":
			return 0
		case u.Resource == "":
			return 2
		}
		return 1
	}
	slices.SortFunc(b.Uses, func(x, y Use) int {
		return cmp.Or(
			cmp.Compare(rank(&x), rank(&y)), cmp.Compare(x.APIGroup, y.APIGroup), cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Subresource, y.Subresource),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Verb, y.Verb),
			cmp.Compare(x.As, y.As), cmp.Compare(x.Verdict, y.Verdict), x.First.Compare(y.First), cmp.Compare(x.grant(), y.grant()),
		)
	})
	b.places = nil
}

func (u *Use) grant() string {
	if u.Grant == nil {
		return ""
	}
	return u.Grant.String()
}

// String returns the grant as [Grant.String] does.
func (g *UseGrant) String() string {
	return g.Binding.String() + " of " + g.Role.String() + " to " + g.Subject.String()
}

// What returns what was done as "get secrets shop/db", or "list secrets of namespace shop".
func (u *Use) What() string {
	r := Request{Verb: u.Verb, APIGroup: u.APIGroup, Resource: u.Resource, Subresource: u.Subresource, Namespace: u.Namespace, Name: u.Name, Path: u.Path}
	if u.Resource != "" && u.Name == "" {
		r.Namespace = ""
		if u.Namespace != "" {
			return r.What() + " in namespace " + u.Namespace
		}
		if collective(u.Verb) {
			return r.What() + " in all namespaces"
		}
	}
	return r.What()
}

func collective(verb string) bool {
	return verb == "list" || verb == "watch" || verb == "deletecollection"
}

// words are the use in one line.
func (u *Use) words() string {
	by := "what let it through is not known"
	if u.Grant != nil {
		by = "by " + u.Grant.String()
	}
	as := ""
	if u.As != "" {
		as = " as " + u.As
	}
	unknown := ""
	if u.Verdict == nodeauthz.Unknown.String() {
		unknown = ", although a pod on the node may have used it: the state does not tell"
	}
	parts := []string{fmt.Sprintf("%s%s x%d, %s%s", u.What(), as, u.Count, by, unknown)}
	if u.First.Equal(u.Last) {
		parts = append(parts, "at "+clock(u.First))
	} else {
		parts = append(parts, "from "+clock(u.First)+" to "+clock(u.Last))
	}
	for _, l := range []struct {
		what string
		list []string
	}{{"user agent", u.UserAgents}, {"from address", u.SourceIPs}, {"audit ID", u.AuditIDs}} {
		if len(l.list) > 0 {
			parts = append(parts, l.what+" "+strings.Join(l.list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
