package sinks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// hostileNames are meant for those who show, parse or forward what is sent.
var hostileNames = []string{
	"worker-1", "", " ", "<!channel>", "<@U012AB3CD>", "<!subteam^S1|x>", "<https://evil.example|click>", "https://evil.example/", "www.evil.example", "@channel", "@here", "#general",
	"a`<!here>`b", "```", "`", "*bold* _i_ ~s~", "&lt;!channel&gt;", "&", "\u202e\u2066evil", "\x1b[2J\u009b31m", "line\nEvent: `x`\r\n", "\u2028<!channel>\u2029", "\x00\xff", "[x](https://evil.example)",
	strings.Repeat("<", 9000), strings.Repeat("`&", 500), strings.Repeat("\u202e", 500), `"}],"text":"x`, "${jndi:ldap://x}", ":skull:", "system:node:ip-10-0-0-1",
}

// hostileIncident is an incident in which every name is the one given.
func hostileIncident(h string, n int) incidents.Incident {
	in := incidents.Incident{
		ID: incidents.ID("c", h, time.Unix(int64(n), 0)), Credential: h, Kind: []incidents.Kind{incidents.OfNode, incidents.OfBootstrap, incidents.OfUser}[n%3],
		State: []incidents.State{incidents.Open, incidents.Quiet, incidents.Closed}[n%3], Severity: []string{"medium", "critical", h}[n%3],
		First: time.Unix(int64(n), 0), Last: []time.Time{time.Unix(int64(n)+60, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}[n%2],
		Requests: int64(n), Succeeded: int64(n / 2), Rules: []string{h},
		Timeline: []incidents.Moment{{At: time.Unix(1, 0), Code: incidents.FirstSuccess, Params: codes.Params{codes.Text(rules.ParamObject, h), codes.Text(rules.ParamAddress, h)}}},
	}
	for range 60 * (n % 2) {
		in.Addresses = append(in.Addresses, incidents.Seen{Value: h})
		in.Bindings = append(in.Bindings, incidents.Binding{Kind: h, Namespace: h, Name: h})
		in.Rotate = append(in.Rotate, incidents.Object{APIGroup: h, Resource: h, Subresource: h, Namespace: h, Name: h})
	}
	return in
}

// eachHostile calls f for an event of each change about each hostile name.
func eachHostile(names []string, f func(e *IncidentEvent)) {
	for i, h := range names {
		for n := range 6 {
			found := hostileIncident(h, n+6*i)
			in := FromIncident(h, &found, nil)
			for _, c := range []IncidentChange{IncidentOpened, IncidentUpdated, IncidentClosed} {
				e := NewIncidentEvent(c, &in, nil)
				f(&e)
			}
		}
	}
}

// Each change of an incident is an event as the schema of CloudEvents asks for, of its own type, bounded, with nothing hidden in it.
func TestIncidentsBySchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("testdata/schemas/cloudevents-1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	types, names := map[string]int{}, hostileNames[:effort.Of(len(hostileNames), 3)]
	eachHostile(names, func(e *IncidentEvent) {
		f := e.Finding()
		b, err := CloudEvents.Encode(&f)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, b)
		}
		if strings.ContainsFunc(string(b), wording.Hidden) {
			t.Errorf("characters that are not shown: %.300q", b)
		}
		var ev IncidentCloudEvent
		if err := json.Unmarshal(b, &ev); err != nil {
			t.Fatal(err)
		}
		types[ev.Type]++
		in := ev.Data
		if ev.ID != e.ID || ev.Source != AsCloudEvent(&Finding{Cluster: e.Incident.Cluster}).Source || in.ID != e.Incident.ID || in.Credential != e.Incident.Credential {
			t.Errorf("%+v", ev)
		}
		if n := e.Incident.reach(); n != [3]int{len(in.Addresses) + in.Omitted.Addresses, len(in.Bindings) + in.Omitted.Bindings, len(in.Rotate) + in.Omitted.Rotate} || n[0] != 0 && n[0] != 60 ||
			len(in.Addresses) > 20 || len(in.Bindings) > 20 || len(in.Rotate) > 50 {
			t.Errorf("lists: %v of %v", in.Omitted, n)
		}
		if in.Timeline[0].Message == "" {
			t.Error("a moment without a sentence")
		}
		for _, format := range []Format{JSON, OCSF} {
			if b, err := format.Encode(&f); err == nil {
				t.Errorf("%s has incidents: %s", format, b)
			}
		}
	})
	for _, c := range []string{"opened", "updated", "closed"} {
		if types["io.github.nodetrail.incident."+c+".v1"] != 6*len(names) {
			t.Errorf("%s: %v", c, types)
		}
	}
}

// unsafe is what Slack, or what is compatible with it, would make something of outside of a code span.
var unsafe = regexp.MustCompile("[<>@#`_~]|://|www|\\[|\\*.*\\*.*\\*|evil|skull|system")

// slackTrouble says what is wrong with a message, "" if nothing is.
func slackTrouble(text string) string {
	if n := utf8.RuneCountInString(text); n > 4000 {
		return fmt.Sprintf("%d characters", n)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && wording.Hidden(r) }) {
		return "a character that is not shown"
	}
	if strings.ContainsAny(text, "<>") || regexp.MustCompile(`&(?:[^algt]|$)`).MatchString(regexp.MustCompile(`&(amp|lt|gt);`).ReplaceAllString(text, "")) {
		return "a character that is to be escaped"
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 8 {
		return "lines"
	}
	for _, l := range lines {
		parts := strings.Split(l, "`")
		if len(parts)%2 == 0 {
			return "a code span that does not end: " + l
		}
		for i, p := range parts {
			if i%2 == 0 && unsafe.MatchString(p) {
				return "outside of code: " + p
			}
			if i%2 == 1 && strings.TrimSpace(p) == "" {
				return "a code span of nothing: " + l
			}
		}
	}
	return ""
}

// Whatever the names are, a message has no mention and no link, is bounded, and names its event.
func TestSlackIsHarmless(t *testing.T) {
	for _, bad := range []string{"<!channel>", "a <https://x|y>", "`a", "@here", "`a`\n`b", "see https://x", "`a` `` b", "\u202e", strings.Repeat("a", 4001), "a & b", "[a](b)", "`\u200b`"} {
		if slackTrouble(bad) == "" {
			t.Errorf("the test would let pass %q", bad)
		}
	}
	link := regexp.MustCompile(`^<https://nodetrail\.example/incidents(\?credential=[A-Za-z0-9%+._~-]*)?\|Timeline and steps>$`)
	eachHostile(hostileNames, func(e *IncidentEvent) {
		f := e.Finding()
		b, err := Slack.Encode(&f)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]string
		if err := json.Unmarshal(b, &m); err != nil || len(m) != 1 {
			t.Fatalf("%v: %s", err, b)
		}
		if is := slackTrouble(m["text"]); is != "" {
			t.Errorf("%s in %q", is, m["text"])
		}
		linked := AsSlack(e, "https://nodetrail.example/").Text
		lines := strings.Split(linked, "\n")
		i := len(lines) - 2
		if !link.MatchString(lines[i]) || utf8.RuneCountInString(linked) > 4000 || strings.Join(slices.Delete(lines, i, i+1), "\n") != m["text"] {
			t.Errorf("with a link %q", linked)
		}
		if !strings.HasSuffix(m["text"], "\nEvent: `"+e.ID+"`") || !strings.HasPrefix(m["text"], "*Incident "+string(e.Change)) {
			t.Errorf("%q", m["text"])
		}
	})
	if b, err := Slack.Encode(&Finding{}); err == nil {
		t.Errorf("a finding as a message: %s", b)
	}
}

func TestSlackMessage(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	in := Incident{
		ID: "1f", Cluster: "prod", Credential: "worker-3", Kind: incidents.OfNode, State: incidents.Open, Severity: "critical", First: at, Last: at.Add(20 * time.Minute), Requests: 540, Succeeded: 40, Refused: 500,
		Addresses: []string{"198.51.100.9"}, Bindings: []incidents.Binding{{Kind: "ClusterRoleBinding", Name: "legacy"}, {Kind: "RoleBinding", Namespace: "shop", Name: "a&b"}},
		Rotate: []incidents.Object{{Resource: "secrets", Namespace: "shop", Name: "1"}, {Resource: "secrets", Namespace: "shop", Name: "2"}, {Resource: "secrets", Namespace: "shop", Name: "3"}, {Resource: "secrets", Namespace: "shop", Name: "4"}}, Omitted: Omitted{Rotate: 36},
	}
	e := NewIncidentEvent(IncidentOpened, &in, nil)
	want := "*Incident opened, severity critical*\n" +
		"Credential: `worker-3` (node)\n" +
		"Cluster: `prod`\n" +
		"From 2026-11-21T06:00:00.000Z to 2026-11-21T06:20:00.000Z: 540 requests, of which 40 succeeded\n" +
		"Addresses: `198.51.100.9`\n" +
		"Allowed by: `ClusterRoleBinding legacy` `RoleBinding shop/a&amp;b`\n" +
		"To rotate: `secrets shop/1` `secrets shop/2` `secrets shop/3` and 37 more\n" +
		"Event: `1f-opened`"
	if got := AsSlack(&e, "").Text; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for pages, link := range map[string]string{
		"https://nodetrail.example": "https://nodetrail.example/incidents?credential=worker-3", "https://a/b&c|d/": "https://a/b&amp;c%7Cd/incidents?credential=worker-3",
	} {
		want := strings.Replace(want, "Event:", "<"+link+"|Timeline and steps>\nEvent:", 1)
		if got := AsSlack(&e, pages).Text; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// The ID of an event is that of what has changed, whoever looks and when.
func TestIncidentEventIDs(t *testing.T) {
	in := Incident{ID: "1", State: incidents.Open, Severity: "medium", Last: time.Unix(1, 0)}
	opened := NewIncidentEvent(IncidentOpened, &in, nil)
	later := in
	later.Last, later.Requests, later.Severity = time.Unix(9, 0), 9, "high"
	if e := NewIncidentEvent(IncidentOpened, &later, nil); e.ID != opened.ID || e.ID != "1-opened" {
		t.Errorf("opened: %s", e.ID)
	}
	seen := map[string]string{}
	add := func(what string, e IncidentEvent) IncidentEvent {
		if other := seen[e.ID]; other != "" {
			t.Errorf("%s and %s are both %s", what, other, e.ID)
		}
		seen[e.ID] = what
		return e
	}
	update := add("severity", NewIncidentEvent(IncidentUpdated, &later, &opened))
	more := later
	more.Requests, more.Last = 10, time.Unix(10, 0)
	if e := NewIncidentEvent(IncidentUpdated, &more, &opened); e.ID != update.ID {
		t.Error("an update that says the same of more requests has another ID")
	}
	more.Succeeded = 1
	add("success", NewIncidentEvent(IncidentUpdated, &more, &update))
	more.Rotate = []incidents.Object{{}}
	add("to rotate", NewIncidentEvent(IncidentUpdated, &more, &update))
	less := in
	less.Excepted = 1
	fell := add("an exception", NewIncidentEvent(IncidentUpdated, &less, &update))
	less.Severity, less.Succeeded, less.Rotate = more.Severity, 1, more.Rotate
	add("the same again, of what no exception covers", NewIncidentEvent(IncidentUpdated, &less, &fell))
	quiet := more
	quiet.State = incidents.Quiet
	closed := add("closed", NewIncidentEvent(IncidentClosed, &quiet, &update))
	again := more
	again.Last = time.Unix(20, 0)
	reopened := add("opened again", NewIncidentEvent(IncidentUpdated, &again, &closed))
	again.State = incidents.Quiet
	add("closed again", NewIncidentEvent(IncidentClosed, &again, &reopened))
}

// An update says what is more, and what is less once an exception covers it: the next event is measured by that one.
func TestIncidentsTurn(t *testing.T) {
	was := Incident{Severity: "high", Succeeded: 1, Addresses: []string{"a"}, Rotate: []incidents.Object{{}}}
	for _, c := range []struct {
		name          string
		change        func(*Incident)
		turned, grown bool
	}{
		{"more requests", func(in *Incident) { in.Requests, in.Succeeded = 9, 9 }, false, false},
		{"severity", func(in *Incident) { in.Severity = "critical" }, true, false},
		{"nothing succeeded", func(in *Incident) { in.Succeeded = 0 }, true, false},
		{"nothing to rotate", func(in *Incident) { in.Rotate = nil }, true, true},
		{"more to rotate", func(in *Incident) { in.Omitted.Rotate = 3 }, false, true},
		{"an address", func(in *Incident) { in.Addresses = []string{"a", "b"} }, false, true},
	} {
		in := was
		c.change(&in)
		for i, pair := range [][2]*Incident{{&in, &was}, {&was, &in}} {
			if turned, grown := pair[0].Turned(pair[1]), pair[0].Grown(pair[1]); turned != c.turned || grown != c.grown {
				t.Errorf("%s, %d: turned %t, grown %t", c.name, i, turned, grown)
			}
		}
	}
}

// Changes of incidents leave the queue in their order before findings, and the same one waits once.
func TestQueueOfIncidents(t *testing.T) {
	in := Incident{ID: "1", Severity: "low"}
	opened := NewIncidentEvent(IncidentOpened, &in, nil)
	closed := NewIncidentEvent(IncidentClosed, &in, &opened)
	q := &Queue{o: QueueOptions{}.withDefaults(), byID: map[string]*queued{}, wake: make(chan struct{}, 1)}
	worst := finding("worst", 1)
	worst.Severity, worst.Authorized = "high", true
	q.Add([]Finding{worst, opened.Finding(), closed.Finding(), opened.Finding()})
	batch, _ := q.take()
	var got []string
	for i := range batch {
		got = append(got, batch[i].ID)
	}
	if fmt.Sprint(got) != fmt.Sprint([]string{opened.ID, closed.ID, "worst"}) {
		t.Errorf("%v", got)
	}
	if !q.Holds(opened.ID) || q.Holds("other") {
		t.Error("what is being sent is held")
	}
	q.done(len(batch), nil)
	if q.Holds(opened.ID) || q.Stats().Bytes != 0 {
		t.Errorf("%+v", q.Stats())
	}
}
