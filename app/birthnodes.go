package app

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// birthAsk is a request for a client certificate of a node that somebody who authenticated as a node made, or who acted as one.
type birthAsk struct {
	Key  string `json:"k"`
	With string `json:"w,omitempty"` // the certificate by which the node itself asked; empty if it was somebody else, or is not known
}

// birthIssue is a client certificate of a node that was issued.
type birthIssue struct {
	Key     string    `json:"k"`
	Request string    `json:"r"`
	Node    string    `json:"n"`
	ID      string    `json:"i"`
	At      time.Time `json:"t"`
	Own     bool      `json:"o,omitempty"` // a node asked for it
}

// birthMade is a Node that was made with a certificate of a node. Served says that the node had read or written its Node with it before: then it is the
// certificate of a Node that was there.
type birthMade struct {
	Node   string    `json:"n"`
	ID     string    `json:"i"`
	At     time.Time `json:"t"`
	Served bool      `json:"s,omitempty"`
}

const (
	// maxServing bounds the certificates of a node that are known to have read or written its Node.
	maxServing = 6
	// birthSkew is by how much the times of one event may differ, by the clocks of API servers and since a Node has the second in which it was made.
	birthSkew = time.Minute
)

// certificateOf is the ID of the certificate by which the user authenticated as a node, shortened; empty for none. It shares the event's memory.
func certificateOf(j *pipeline.Judgement) string {
	if u := &j.Event.User; strings.HasPrefix(u.Username, nodeid.UserPrefix) && !j.Event.IsImpersonated {
		return shortened(u.CredentialID)
	}
	return ""
}

// shortened is enough of a certificate's ID to tell it from others, and empty for other credentials. It shares the memory of the ID.
func shortened(id string) string {
	hash, is := rules.CertificateHash(id)
	if !is {
		return ""
	}
	return hash[:min(len(hash), 32)]
}

// node takes in a successful request for a Node. Kubelets make many of them, and most say nothing new.
func (b *birthBook) node(j *pipeline.Judgement) {
	ev := j.Event
	name, sub, id := ev.ObjectRef.Name, ev.ObjectRef.Subresource, certificateOf(j)
	if id == "" || name == "" || len(name) > nodeid.MaxName {
		return
	}
	served := b.serving[name]
	if ev.Code == http.StatusCreated && sub == "" {
		if rules.DryRun(ev) {
			return
		}
		x := b.hour(j.Time)
		switch {
		case x == nil:
		case len(x.Made) >= maxBirthNodes:
			x.Unread++
		default:
			x.Made = append(x.Made, birthMade{Node: strings.Clone(name), ID: strings.Clone(id), At: j.Time.UTC(), Served: slices.Contains(served, id)})
		}
		return
	}
	is := ev.Verb == "get" || ev.Verb == "patch" || ev.Verb == "update"
	if !is || sub != "" && sub != "status" || ev.User.Username != nodeid.UserPrefix+name || slices.Contains(served, id) || served == nil && len(b.serving) >= evidence.MaxNodes {
		return
	}
	b.serving[strings.Clone(name)] = append(served[max(0, len(served)-maxServing+1):], strings.Clone(id))
}

// issues takes in what an event tells of a request for a client certificate of a node. What is more than the bound explains no Node.
func (x *birthHour) issues(j *pipeline.Judgement, s *rules.Signing) {
	u := &j.Event.User
	own := strings.HasPrefix(s.User, nodeid.UserPrefix)
	if sub := j.Event.ObjectRef.Subresource; sub == "" && j.Event.Verb == "create" && (own || strings.HasPrefix(u.Username, nodeid.UserPrefix)) {
		ask := birthAsk{Key: s.Key}
		if u.Username == nodeid.UserPrefix+s.Node() {
			ask.With = strings.Clone(certificateOf(j))
		}
		if len(x.Asked) < 2*maxBirthNodes && !slices.Contains(x.Asked, ask) {
			x.Asked = append(x.Asked, ask)
		}
	} else if id := shortened(s.Certificate); sub == "status" && id != "" && len(x.Issued) < 2*maxBirthNodes {
		if !slices.ContainsFunc(x.Issued, func(i birthIssue) bool { return i.ID == id }) {
			name := strings.Clone(tally.Bounded(j.Event.ObjectRef.Name))
			x.Issued = append(x.Issued, birthIssue{Key: s.Key, Request: name, Node: s.Node(), ID: strings.Clone(id), At: j.Time.UTC(), Own: own})
		}
	}
}

// explained are the certificates of nodes that the log shows to have been approved and issued for a request by somebody who is no node, and those that
// the node asked for with one of these. approved are the names of the requests that were approved.
func (b *birthBook) explained(approved map[string]bool) map[string]birthIssue {
	asked, out := map[string][]string{}, map[string]birthIssue{}
	var all []birthIssue
	for _, x := range b.hours {
		for _, a := range x.Asked {
			asked[a.Key] = append(asked[a.Key], a.With)
		}
		all = append(all, x.Issued...)
	}
	slices.SortFunc(all, func(a, b birthIssue) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	for _, i := range all {
		with := asked[i.Key]
		unexplained := func(id string) bool { return out[id].Node != i.Node }
		if _, is := out[i.ID]; !is && approved[i.Request] && (!i.Own || len(with) > 0) && !slices.ContainsFunc(with, unexplained) {
			out[i.ID] = i
		}
	}
	return out
}

// birthsOutside adds the Nodes that came to be without a certificate that the log explains. Of those of the window it must be one that was requested in the
// window or in the hour before; where the log does not name the certificate that made the Node, it must have been issued before the Node was made. A Node of before the window counts as
// long as findings do, where the log has the certificate that made it, and neither its request nor an earlier Node whose certificate it was.
func (p *proof) birthsOutside(in *checks.Input, from time.Time, approved map[string]bool, out *checks.Findings) {
	since, soon := from, evidence.HourOf(from)-1
	if first := p.tally.From; !first.IsZero() && first.Before(since) {
		since = first
	}
	explained := p.births.explained(approved)
	made := map[string][]birthMade{}
	for _, x := range p.births.hours {
		for _, m := range x.Made {
			made[m.Node] = append(made[m.Node], m)
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		for _, life := range n.Lives {
			if n.Virtual || life.From.Before(since) || !life.From.Before(p.to) {
				continue
			}
			inWindow := !life.From.Before(from)
			known, outside := false, false
			for _, m := range made[n.Name] {
				if d := m.At.Sub(life.From); d < -birthSkew || d > birthSkew {
					continue
				}
				issue := explained[m.ID]
				is := issue.Node == n.Name && (!inWindow || evidence.HourOf(issue.At) >= soon) || !inWindow && served(made[n.Name], m.ID)
				known, outside = true, outside || !is
			}
			if !known && inWindow {
				outside = !p.births.issuedFor(n.Name, soon, life.From, explained)
			}
			if outside {
				out.Doubt(checks.Item{Code: checks.CodeBirthOutside, Node: n.Name, From: life.From, To: life.From})
			}
		}
	}
}

// served reports whether a certificate was that of an earlier Node each time when it made one. Books of several analyzers have the same Nodes.
func served(made []birthMade, id string) bool {
	return !slices.ContainsFunc(made, func(m birthMade) bool {
		return m.ID == id && !slices.ContainsFunc(made, func(o birthMade) bool { return o.Served && o.ID == id && o.At.Equal(m.At) })
	})
}

// issuedFor reports whether a certificate of the node was issued from an hour on, before its Node was made.
func (b *birthBook) issuedFor(node string, soon evidence.Hour, made time.Time, explained map[string]birthIssue) bool {
	for _, i := range explained {
		if i.Node == node && evidence.HourOf(i.At) >= soon && !i.At.After(made.Add(birthSkew)) {
			return true
		}
	}
	for h, x := range b.hours {
		if h >= soon && h <= evidence.HourOf(made) && slices.Contains(x.before, node) {
			return true
		}
	}
	return false
}
