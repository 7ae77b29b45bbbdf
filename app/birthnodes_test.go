package app

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// The birth of a Node is explained by the certificate that made it, not by any request that names the node.
func TestBirthOfNode(t *testing.T) {
	to := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	const window = 3 * time.Hour
	at := func(minute int) time.Time { return to.Add(-window + time.Duration(minute)*time.Minute) }
	const node, begin = "a", -300
	var b *birthBook
	hour := func(minute int) *birthHour { return b.hour(at(minute)) }
	issued := func(minute int, id string, own bool, approved bool) {
		x := hour(minute)
		x.Nodes = append(x.Nodes, node)
		x.Issued = append(x.Issued, birthIssue{Key: "key-" + id, Request: "csr-" + id, Node: node, ID: id, At: at(minute), Own: own})
		if approved {
			x.Approved = append(x.Approved, "csr-"+id)
		}
	}
	asked := func(minute int, id, with string) {
		hour(minute).Asked = append(hour(minute).Asked, birthAsk{Key: "key-" + id, With: with})
	}
	renewed := func(minute int, id, with string) {
		asked(minute, id, with)
		issued(minute, id, true, true)
	}
	made := func(minute int, name, id string, served bool) {
		hour(minute).Made = append(hour(minute).Made, birthMade{Node: name, ID: id, At: at(minute), Served: served})
	}
	for _, c := range []struct {
		name string
		born int // when the Node came that there is
		want bool
		play func()
	}{
		{"requested by somebody else", 30, true, func() { issued(29, "1", false, true); made(30, node, "1", false) }},
		{"requested in the hour before", 30, true, func() { issued(-50, "1", false, true); made(30, node, "1", false) }},
		{"not approved", 30, false, func() { issued(29, "1", false, false); made(30, node, "1", false) }},
		{"requested by somebody else, made with another", 30, false, func() { issued(29, "1", false, true); made(30, node, "2", false) }},
		{"requested by itself", 30, false, func() { renewed(29, "1", "0"); made(30, node, "1", false) }},
		{"requested by itself, with that one", 30, false, func() { renewed(29, "1", "1"); made(30, node, "1", false) }},
		{"requested by itself, nobody knows with what", 30, false, func() { issued(29, "1", true, true); made(30, node, "1", false) }},
		{"requested by itself, as a bootstrap token", 30, false, func() { asked(29, "1", ""); issued(29, "1", false, true); made(30, node, "1", false) }},
		{"requested by itself, made with the old one", 30, false, func() { renewed(29, "1", "0"); made(30, node, "0", false) }},
		{"renewed long after somebody else requested it", 30, true, func() { issued(-290, "0", false, true); renewed(20, "1", "0"); made(30, node, "1", false) }},
		{"renewed from one that was not approved", 30, false, func() { issued(-290, "0", false, false); renewed(20, "1", "0"); made(30, node, "1", false) }},
		{"renewed by two, one is not explained", 30, false, func() {
			issued(-290, "0", false, true)
			asked(20, "1", "9")
			renewed(20, "1", "0")
			made(30, node, "1", false)
		}},
		{"of another node", 30, false, func() { issued(29, "1", false, true); b.hour(at(29)).Issued[0].Node = "b"; made(30, node, "1", false) }},
		{"renewed from one of another node", 30, false, func() {
			issued(-290, "0", false, true)
			b.hour(at(-290)).Issued[0].Node = "b"
			renewed(20, "1", "0")
			made(30, node, "1", false)
		}},
		{"an old one", 30, false, func() { issued(-290, "1", false, true); made(30, node, "1", true) }},
		{"made twice, once with another", 30, false, func() { issued(29, "1", false, true); made(30, node, "1", false); made(30, node, "2", false) }},
		{"made twice, first with another", 30, false, func() { issued(29, "1", false, true); made(30, node, "2", false); made(30, node, "1", false) }},
		{"made with another long before", 30, true, func() { made(-100, node, "2", false); issued(29, "1", false, true); made(30, node, "1", false) }},
		{"no certificate is known", 30, true, func() { issued(29, "1", false, true) }},
		{"no certificate is known, requested by itself", 30, false, func() { renewed(29, "1", "0") }},
		{"no certificate is known, requested after", 30, false, func() { issued(50, "1", false, true) }},
		{"no certificate is known, requested long before", 30, false, func() { issued(-290, "1", false, true) }},
		{"of a program that did not keep this", 30, true, func() { hour(20).before = []string{node} }},
		{"of a program that did not keep this, after", 30, false, func() { hour(100).before = []string{node} }},

		{"before the window", -60, true, func() { issued(-61, "1", false, true); made(-60, node, "1", false) }},
		{"before the window, an old one", -60, true, func() { issued(-290, "1", false, true); made(-60, node, "1", false) }},
		{"before the window, with what nobody requested", -60, false, func() { made(-60, node, "1", false) }},
		{"before the window, requested by itself", -60, false, func() { renewed(-61, "1", "0"); made(-60, node, "1", false) }},
		{"before the window, by a node that was there", -60, true, func() { made(-60, node, "1", true) }},
		{"before the window, by a node that was there in vain", -60, false, func() { made(-200, node, "1", false); made(-60, node, "1", true) }},
		{"before the window, by two programs of which one begins", -60, true, func() { made(-60, node, "1", true); made(-60, node, "1", false) }},
		{"before the window, no certificate is known", -60, true, func() {}},
		{"before what findings are of", begin - 10, true, func() { made(begin-10, node, "1", false) }},
	} {
		b = newBirthBook()
		hour(10).Nodes = []string{"other"}
		c.play()
		p, out := proof{births: b, tally: &tally.Tally{From: at(begin)}, to: to}, checks.Findings{}
		b.hours[evidence.HourOf(at(10))].Read++
		p.birthsByHour(&checks.Input{Options: checks.Options{MinWindow: window}, Nodes: []checks.Node{{Name: node, Lives: []checks.Span{{From: at(c.born)}}}}}, &out)
		outside := 0
		for i := range out.NotKnown {
			if out.NotKnown[i].Code == checks.CodeBirthOutside && out.NotKnown[i].Node == node {
				outside++
			}
		}
		if outside > 1 || (outside == 0) != c.want {
			t.Errorf("%s: %d times outside", c.name, outside)
		}
	}
}

// What makes a Node, and what shows that a certificate was that of a Node before, is taken from the requests of that node alone.
func TestBirthBookMade(t *testing.T) {
	b := newBirthBook()
	id := "X509SHA256=" + fmt.Sprintf("%064d", 7)
	add := func(user, verb, sub string, code int32, change func(*audit.Event)) {
		ev := &audit.Event{Verb: verb, Code: code, User: audit.User{Username: user, CredentialID: id}, ObjectRef: audit.ObjectRef{Resource: "nodes", Name: "a", Subresource: sub}, Stage: audit.StageResponseComplete}
		if change != nil {
			change(ev)
		}
		b.add(&pipeline.Judgement{Request: rules.Request{Event: ev, Time: time.Unix(1, 0), Allowed: true}})
	}
	made := func() (out []birthMade) {
		for _, x := range b.hours {
			out = append(out, x.Made...)
			x.Made = nil
		}
		return out
	}
	const own = "system:node:a"
	for _, c := range []struct {
		name   string
		n      int
		served bool
		play   func()
	}{
		{"made", 1, false, func() { add(own, "create", "", http.StatusCreated, nil) }},
		{"made by a patch", 1, false, func() { add(own, "patch", "", http.StatusCreated, nil) }},
		{"made by another node", 1, false, func() { add("system:node:b", "create", "", http.StatusCreated, nil) }},
		{"there already", 0, false, func() { add(own, "create", "", http.StatusConflict, nil) }},
		{"by somebody else", 0, false, func() { add("jane", "create", "", http.StatusCreated, nil) }},
		{"as the node", 0, false, func() { add(own, "create", "", http.StatusCreated, func(e *audit.Event) { e.IsImpersonated = true }) }},
		{"a dry run", 0, false, func() {
			add(own, "create", "", http.StatusCreated, func(e *audit.Event) { e.RequestURI = "/api/v1/nodes?dryRun=All" })
		}},
		{"of another group", 0, false, func() {
			add(own, "create", "", http.StatusCreated, func(e *audit.Event) { e.ObjectRef.APIGroup = "metrics.k8s.io" })
		}},
		{"without a certificate", 0, false, func() {
			add(own, "create", "", http.StatusCreated, func(e *audit.Event) { e.User.CredentialID = "JTI=x" })
		}},
		{"after another node wrote it", 1, false, func() {
			add("system:node:b", "patch", "status", 200, nil)
			add(own, "create", "", http.StatusCreated, nil)
		}},
		{"after it was not found", 1, false, func() { add(own, "get", "", 404, nil); add(own, "create", "", http.StatusCreated, nil) }},
		{"after it was watched", 1, false, func() { add(own, "watch", "", 200, nil); add(own, "create", "", http.StatusCreated, nil) }},
		{"after the node wrote its status", 1, true, func() { add(own, "patch", "status", 200, nil); add(own, "create", "", http.StatusCreated, nil) }},
		{"after a dry run, which says as much as a read", 1, true, func() {
			add(own, "patch", "status", 200, func(e *audit.Event) { e.RequestURI = "/api/v1/nodes/a/status?dryRun=All" })
			add(own, "create", "", http.StatusCreated, nil)
		}},
	} {
		b = newBirthBook()
		c.play()
		got := made()
		if len(got) != c.n || c.n > 0 && (got[0].Served != c.served || got[0].Node != "a" || got[0].ID != fmt.Sprintf("%032d", 0)) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	b = newBirthBook()
	for n := range maxBirthNodes + 5 {
		add(own, "create", "", http.StatusCreated, func(e *audit.Event) { e.ObjectRef.Name = fmt.Sprint("n", n) })
	}
	for _, x := range b.hours {
		if len(x.Made) != maxBirthNodes || x.Unread != 5 {
			t.Errorf("%d are kept, %d are too many", len(x.Made), x.Unread)
		}
	}
}
