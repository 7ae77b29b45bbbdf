package sinks

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/wording"
)

// SlackMessage is what an incoming webhook of Slack takes, and what others that are compatible with it do.
type SlackMessage struct {
	Text string `json:"text"`
}

// Bounds of a message. Slack asks for no more than 4,000 characters.
const (
	maxSlackName = 60 // characters, each of which may become five
	maxSlackList = 3
	maxSlackURL  = 1000 // bytes
)

// AsSlack is the event as a message: what happened, by which credential, from where, and what to do. Whatever comes from a log is in code spans,
// in which nothing is a link, a mention or a mark of a format. The message has a link to nodetrail's pages at the address given, unless it is empty.
func AsSlack(e *IncidentEvent, pages string) SlackMessage {
	in := &e.Incident
	lines := []string{
		fmt.Sprintf("*%s*", slackHeadline(e)),
		"Credential: " + slackCode(in.Credential) + " (" + slackKind(in.Kind) + ")",
	}
	if in.Cluster != "" {
		lines = append(lines, "Cluster: "+slackCode(in.Cluster))
	}
	lines = append(lines,
		fmt.Sprintf("From %s to %s: %s, of which %d succeeded", wording.Stamp(in.First), wording.Stamp(in.Last), wording.Plural(in.Requests, "request"), in.Succeeded))
	bindings := make([]string, len(in.Bindings))
	for i, b := range in.Bindings {
		bindings[i] = b.Kind + " " + wording.Qualified(b.Namespace, b.Name)
	}
	rotate := make([]string, len(in.Rotate))
	for i, o := range in.Rotate {
		rotate[i] = o.Text()
	}
	for _, l := range []struct {
		what  string
		names []string
		more  int
	}{{"Addresses", in.Addresses, in.Omitted.Addresses}, {"Allowed by", bindings, in.Omitted.Bindings}, {"To rotate", rotate, in.Omitted.Rotate}} {
		if len(l.names) > 0 {
			lines = append(lines, l.what+": "+slackList(l.names, l.more))
		}
	}
	if pages != "" {
		lines = append(lines, slackLink(pages, in.Credential))
	}
	return SlackMessage{Text: strings.Join(append(lines, "Event: "+slackCode(e.ID)), "\n")}
}

// slackLink leads to the incidents of a credential, or to all where its name makes the address too long.
func slackLink(pages, credential string) string {
	to := IncidentsURL(pages, credential)
	if len(to) > maxSlackURL {
		to, _, _ = strings.Cut(to, "?")
	}
	return "<" + slackEscaper.Replace(strings.ReplaceAll(to, "|", "%7C")) + "|Timeline and steps>"
}

// slackHeadline says what happened. The severity is a word of ours.
func slackHeadline(e *IncidentEvent) string {
	severity := severityOf(e.Incident.Severity).String()
	switch {
	case e.Change == IncidentOpened:
		return "Incident opened, severity " + severity
	case e.Change == IncidentClosed && e.Incident.State == incidents.Closed:
		return "Incident closed: exceptions cover all findings"
	case e.Change == IncidentClosed:
		return "Incident closed, severity " + severity
	case e.Incident.Succeeded > 0:
		return "Incident updated, severity " + severity + ": requests succeeded"
	}
	return "Incident updated, severity " + severity
}

func slackKind(k incidents.Kind) string {
	switch k {
	case incidents.OfNode:
		return "node"
	case incidents.OfBootstrap:
		return "bootstrap token"
	}
	return "user"
}

func slackList(names []string, more int) string {
	n := min(len(names), maxSlackList)
	out := make([]string, n)
	for i := range out {
		out[i] = slackCode(names[i])
	}
	s := strings.Join(out, " ")
	if more += len(names) - n; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// slackEscaper writes the three characters as Slack's documentation asks for. A code span ends with a backtick, and in no other way.
var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "'")

// slackCode is a name from a log in a code span of one line.
func slackCode(s string) string {
	if s = strings.TrimSpace(wording.Bounded(s, maxSlackName)); s == "" {
		s = "-"
	}
	return "`" + slackEscaper.Replace(s) + "`"
}
