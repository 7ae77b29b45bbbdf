package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// raceBook counts the races of a log that the Node authorizer did not allow, by client, object and hour.
type raceBook struct {
	of   map[raceKey]*checks.Races
	full map[evidence.Hour]bool // hours in which something was dropped

	// fresh are those that Remember has not handed out as they are now; leaf tells the entries of one book and of one time apart from all others.
	fresh map[*checks.Races]evidence.Hour
	book  string
	leaf  int
}

type raceKey struct {
	node, client, request, object string
	hour                          evidence.Hour
}

const (
	maxRaces  = 50_000
	maxRaceID = 5
	// rememberedRaces is the kind of memory in which races are stored, rememberedSince that in which it is stored since when something is.
	rememberedRaces = "races"
	rememberedSince = "races-since"
	// sinceRaces and sinceHolders are the keys of what is stored since then.
	sinceRaces, sinceHolders = "", rememberedHolders
)

func newRaceBook(book string) *raceBook {
	return &raceBook{book: book, of: map[raceKey]*checks.Races{}, full: map[evidence.Hour]bool{}, fresh: map[*checks.Races]evidence.Hour{}}
}

// add takes in a judgement.
func (b *raceBook) add(j *pipeline.Judgement, bound *bindingBook) {
	if !j.IsNode || !j.Answer.Race || j.Observed.NodeVerdict == nodeauthz.Allow || !j.Allowed && !j.Open || j.Spare {
		return
	}
	byRBAC := j.Observed.NodeVerdict == nodeauthz.Deny
	if byRBAC && (j.HasGrant && !j.Grant.ForNodes() && !bound.goes[j.Grant.Binding] || !j.HasGrant && j.Observed.Authorizer == rules.ByOther) {
		return // another binding, or another authorizer
	}
	a := j.Attrs
	path := a.Name
	if !a.ResourceRequest {
		path = a.Path
	}
	k := raceKey{
		tally.Bounded(j.Node), rules.Product(j.Event.UserAgent), tally.Bounded(requestKind(a.Verb, a.APIGroup, a.Resource, a.Subresource, path)),
		tally.Bounded(objectOf(a.Namespace, a.Name)), evidence.HourOf(j.Time),
	}
	r := b.of[k]
	if r == nil {
		if len(b.of) >= maxRaces {
			b.full[k.hour] = true
			return
		}
		k.node, k.client, k.request, k.object = strings.Clone(k.node), strings.Clone(k.client), strings.Clone(k.request), strings.Clone(k.object)
		r = &checks.Races{Node: k.node, Client: k.client, Request: k.request, Object: k.object, First: j.Time}
		b.of[k] = r
	}
	b.fresh[r] = k.hour
	if byRBAC {
		r.ByRBAC++
	} else {
		r.Undecided++
	}
	if j.Time.Before(r.First) {
		r.First = j.Time
	}
	if j.Time.After(r.Last) {
		r.Last = j.Time
	}
	if len(r.AuditIDs) < maxRaceID {
		r.AuditIDs = append(r.AuditIDs, strings.Clone(tally.Bounded(j.Event.AuditID)))
	}
}

// storedRaces is the form in which races are stored. Its keys stay as they are.
type storedRaces struct {
	Node      string    `json:"node,omitempty"`
	Client    string    `json:"client,omitempty"`
	Request   string    `json:"request,omitempty"`
	Object    string    `json:"object,omitempty"`
	ByRBAC    int64     `json:"byRBAC,omitempty"`
	Undecided int64     `json:"undecided,omitempty"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	AuditIDs  []string  `json:"auditIDs,omitempty"`
	// Full says that races from First to Last were dropped.
	Full bool `json:"full,omitempty"`
}

// changes are what has changed since it was called last, to be stored with the requests that were judged meanwhile.
func (b *raceBook) changes() (out []tally.Remembered) {
	put := func(name string, s *storedRaces) {
		if v, err := json.Marshal(s); err == nil { // of strings, numbers and times
			out = append(out, tally.Remembered{Kind: rememberedRaces, Key: b.book + "\x00" + strconv.Itoa(b.leaf) + "\x00" + name, Value: v})
		}
	}
	for r, hour := range b.fresh {
		put(fmt.Sprintf("%d\x00%s\x00%s\x00%s\x00%s", hour, r.Node, r.Client, r.Request, r.Object), &storedRaces{
			r.Node, r.Client, r.Request, r.Object, r.ByRBAC, r.Undecided, r.First.UTC(), r.Last.UTC(), r.AuditIDs, false,
		})
	}
	for h := range b.full {
		put(fmt.Sprint("full ", h), &storedRaces{First: h.Start(), Last: h.End(), Full: true})
	}
	clear(b.fresh)
	clear(b.full)
	if len(b.of) > maxRaces/2 { // it is stored; what comes next is counted anew, next to it
		clear(b.of)
		b.leaf++
	}
	return out
}

// racesOf puts together what books have stored, as far as it reaches into the time from begin on. whole is whether nothing was dropped.
func racesOf(stored []tally.Remembered, begin time.Time, kubelets []string) (all []checks.Races, whole bool, err error) {
	whole = true
	for i := range stored {
		var s storedRaces
		if err := json.Unmarshal(stored[i].Value, &s); err != nil {
			return nil, false, fmt.Errorf("reading races that were stored: %w", err)
		}
		switch {
		case s.Last.Before(begin):
		case s.Full:
			whole = false
		default:
			all = append(all, checks.Races{
				Node: s.Node, Client: s.Client, Request: s.Request, Object: s.Object, ByRBAC: s.ByRBAC, Undecided: s.Undecided,
				First: s.First, Last: s.Last, AuditIDs: s.AuditIDs,
			})
		}
	}
	return joinRaces(all, kubelets), whole, nil
}

// list is all of them in a fixed order.
func (b *raceBook) list(kubelets []string) []checks.Races {
	all := make([]checks.Races, 0, len(b.of))
	for _, r := range b.of {
		all = append(all, *r)
	}
	return joinRaces(all, kubelets)
}

// joinRaces adds up those of one client on one object, and says who is a kubelet. They are in a fixed order then.
func joinRaces(all []checks.Races, kubelets []string) []checks.Races {
	slices.SortFunc(all, func(x, y checks.Races) int {
		return cmp.Or(strings.Compare(x.Node, y.Node), strings.Compare(x.Client, y.Client), strings.Compare(x.Request, y.Request),
			strings.Compare(x.Object, y.Object), x.First.Compare(y.First))
	})
	out := all[:0]
	for i := range all {
		r := all[i]
		r.Kubelet = rules.IsKubelet(r.Client, kubelets)
		last := len(out) - 1
		if last < 0 || out[last].Node != r.Node || out[last].Client != r.Client || out[last].Request != r.Request || out[last].Object != r.Object {
			out = append(out, r)
			continue
		}
		o := &out[last]
		o.ByRBAC, o.Undecided = o.ByRBAC+r.ByRBAC, o.Undecided+r.Undecided
		if r.Last.After(o.Last) {
			o.Last = r.Last
		}
		o.AuditIDs = append(slices.Clip(o.AuditIDs), r.AuditIDs[:min(len(r.AuditIDs), maxRaceID-len(o.AuditIDs))]...)
	}
	return out
}
