package web

import (
	"time"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
)

// Overview is the first page: both answers, and is what says so in order.
type Overview struct {
	Cluster string    `json:"cluster"`
	Now     time.Time `json:"now"`
	// Window is that of the requests that are summed up; Asked the length that was asked for, such as "7d", "" for all that is stored.
	Window        report.Window        `json:"window"`
	Asked         string               `json:"asked"`
	Readiness     report.Readiness     `json:"readiness"`
	Confinement   report.Confinement   `json:"confinement"`
	Authorization report.Authorization `json:"authorization"`
	Events        report.Events        `json:"events"`
	State         report.State         `json:"state"`
	Verdicts      report.Verdicts      `json:"verdicts"`
	Agreement     report.Agreement     `json:"agreement"`
	Trend         Trend                `json:"trend"`
	// Incidents are the open ones, at most 100.
	Incidents []incidents.Incident `json:"incidents"`
	// Severities and Rules count the groups of findings, the most severe first.
	Severities []Count `json:"severities"`
	Rules      []Count `json:"rules"`
	// Nodes are those with most access that needs RBAC and denials, at most 20; NodeCount is how many made requests.
	Nodes     []report.Node `json:"nodes"`
	NodeCount int           `json:"nodeCount"`
	// More counts, by the name of a list of readiness, what is not listed beyond the first 100: /checks, /findings, /nodes and /report have all.
	More map[string]int `json:"more,omitempty"`
	// Sources are those of this process; none where the store alone is read.
	Sources []Source `json:"sources"`
}

// Trend counts requests over time, in steps of equal length without gaps, the earliest first.
type Trend struct {
	// Step is "hour" or "day" (UTC).
	Step   string  `json:"step"`
	Points []Point `json:"points"`
}

// Point is one step of a Trend.
type Point struct {
	At      time.Time `json:"at"`
	Allow   int64     `json:"allow"`
	Deny    int64     `json:"deny"`
	Unknown int64     `json:"unknown"`
	// Excess are the requests that need RBAC: they would break without its bindings.
	Excess int64 `json:"excess"`
}

// Count is how many there are of something that has a name.
type Count struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// Source is where events or the state come from, and how that goes.
type Source struct {
	Name string `json:"name"`
	// Kind is file, webhook, kafka or state.
	Kind string `json:"kind"`
	// Healthy is false while something is wrong; Message says what, or how it goes.
	Healthy bool   `json:"healthy"`
	Message string `json:"message"`
	Events  int64  `json:"events"`
	// Last is the time of the latest event, nil before the first.
	Last *time.Time `json:"last"`
}

// Finding is a group of findings under the ID that sinks and alerts give it.
type Finding struct {
	ID string `json:"id"`
	report.Finding
}

// FindingsQuery chooses findings. Empty fields do not choose.
type FindingsQuery struct {
	// Window is a length such as "24h" or "7d" that ends with the last request.
	Window   string `json:"window"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"` // at least this one
	Node     string `json:"node"`
	// Resource is resource[.group][/subresource]; Object is [namespace/]name.
	Resource  string `json:"resource"`
	Object    string `json:"object"`
	Namespace string `json:"namespace"`
	UserAgent string `json:"userAgent"`
	Binding   string `json:"binding"` // [namespace/]name
	// Allowed is "true", "false" or "".
	Allowed string `json:"allowed"`
	// Text must be somewhere in the finding, in any letter case.
	Text string `json:"q"`
	// Sort is severity (the default), last, first, count, rule or node; with a - before it, the other way round.
	Sort string `json:"sort"`
	// Group is "", rule, node, binding, userAgent, resource or object.
	Group string `json:"group"`
	// Limit is how many on a page, 1 to 1000, by default 50; Cursor is Next of the page before, "" for the first.
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"`
}

// FindingsPage is a page of findings.
type FindingsPage struct {
	Query    FindingsQuery `json:"query"`
	Window   report.Window `json:"window"`
	Findings []Finding     `json:"findings"`
	// Groups are there when the query groups, the most requests first; at most 1000.
	Groups []Group `json:"groups"`
	// Total is how many findings the query chooses; Requests how many requests they stand for.
	Total    int   `json:"total"`
	Requests int64 `json:"requests"`
	// Next and Previous are cursors, "" at the ends.
	Next     string `json:"next"`
	Previous string `json:"previous"`
	// Facets are what there is to choose from, over the whole window.
	Facets Facets `json:"facets"`
}

// Group is findings that have in common what was grouped by.
type Group struct {
	Name     string    `json:"name"`
	Severity string    `json:"severity"` // the highest
	Findings int       `json:"findings"`
	Requests int64     `json:"requests"`
	Last     time.Time `json:"last"`
}

// Facets are the most frequent values, at most 100 each, with the number of findings.
type Facets struct {
	Rules      []Count `json:"rules"`
	Severities []Count `json:"severities"`
	Nodes      []Count `json:"nodes"`
	UserAgents []Count `json:"userAgents"`
	Bindings   []Count `json:"bindings"`
	Namespaces []Count `json:"namespaces"`
}

// FindingPage is one finding, its evidence, and what to do.
type FindingPage struct {
	// Paste is an exception for the finding, as YAML whose owner and reason are to be filled in.
	Paste   string  `json:"paste"`
	Finding Finding `json:"finding"`
	Rule    Rule    `json:"rule"`
	// Explanation is of the finding's latest request, nil where it is of none or the state of then is not at hand; Unexplained says why.
	Explanation *explain.Explanation `json:"explanation"`
	Unexplained string               `json:"unexplained"`
	// Trend counts the finding's requests, all of them as [Excess] or, where they were refused, as Deny.
	Trend Trend `json:"trend"`
	// Related are findings of the same node or object or binding, the latest first, at most 10.
	Related []Finding `json:"related"`
}

// NodesPage lists nodes: those with most access that needs RBAC first, then denials, then requests.
type NodesPage struct {
	Window   report.Window `json:"window"`
	Nodes    []NodeRow     `json:"nodes"`
	Total    int           `json:"total"`
	Next     string        `json:"next"`
	Previous string        `json:"previous"`
	// Unseen are the nodes of the cluster that made no request.
	Unseen []string `json:"unseen"`
}

// NodeRow is a node in a list.
type NodeRow struct {
	report.Node
	Findings int    `json:"findings"`
	Severity string `json:"severity"` // of its worst finding, "" for none
}

// NodePage is one node.
type NodePage struct {
	Node report.Node `json:"node"`
	// Known says whether the state has a Node object of that name: "yes", "no" or "unknown".
	Known  string        `json:"known"`
	Trend  Trend         `json:"trend"`
	Window report.Window `json:"window"`
	// Uses are the addresses, certificates and user agents that used the node's identity.
	Uses []Use `json:"uses"`
	// Reach is what the credential could reach and what to rotate; what it did beyond that is from the findings of rbac-excess-access. It is nil where no
	// state is at hand; Unreached says why.
	Reach     *explain.NodeReach `json:"reach"`
	Unreached string             `json:"unreached"`
	Findings  []Finding          `json:"findings"` // the most severe first, at most 100
	Total     int                `json:"total"`
}

// Use is how a node's identity was used.
type Use struct {
	// Kind is address, certificate or userAgent.
	Kind  string    `json:"kind"`
	Value string    `json:"value"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Count int64     `json:"count"` // 0 where it is not counted
}

// BindingsPage lists the bindings that let nodes do what the Node authorizer does not, and those that could.
type BindingsPage struct {
	Window   report.Window `json:"window"`
	Bindings []BindingRow  `json:"bindings"`
}

// BindingRow is a binding in a list.
type BindingRow struct {
	Binding  report.Binding `json:"binding"`
	Role     string         `json:"role"` // "" where it is not known
	Requests int64          `json:"requests"`
	Clients  int            `json:"clients"`
	Nodes    int            `json:"nodes"`
	Last     *time.Time     `json:"last"`
	// Exists is "yes", "no" or "unknown", by the state.
	Exists string `json:"exists"`
}

// BindingPage is one binding: who uses it, for what, and what its deletion would break.
type BindingPage struct {
	BindingRow
	Window report.Window `json:"window"`
	// Subjects are the binding's, as Kind name; empty where it is not known.
	Subjects []string `json:"subjects"`
	// Breaks are the clients whose requests would break, most requests first.
	Breaks   []report.Client `json:"breaks"`
	Trend    Trend           `json:"trend"`
	Findings []Finding       `json:"findings"`
	Total    int             `json:"total"`
	// Commands show, keep and delete it.
	Commands []string `json:"commands"`
}

// ObjectPage is one object: who can reach it, when, and by which path.
type ObjectPage struct {
	Object Object        `json:"object"`
	Window report.Window `json:"window"`
	// Reach is nil where no state is at hand; Unreached says why.
	Reach     *explain.Reach `json:"reach"`
	Unreached string         `json:"unreached"`
	Findings  []Finding      `json:"findings"`
	Total     int            `json:"total"`
}

// Object names an object of the cluster.
type Object struct {
	APIGroup  string `json:"apiGroup"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ChecksPage has the checks of both questions, and the waivers.
type ChecksPage struct {
	Window    report.Window     `json:"window"`
	Questions []report.Question `json:"questions"`
	Waivers   []report.Waiver   `json:"waivers"`
	// Exceptions are those that were given, with what each covers.
	Exceptions []report.Exception `json:"exceptions"`
	// Paste is a file of waivers, as YAML, that would cover what can be waived; "" for none.
	Paste string `json:"paste"`
}

// CheckPage is one check: what it claims, and what came of it.
type CheckPage struct {
	Check  report.Check  `json:"check"`
	Title  string        `json:"title"`
	Doc    string        `json:"doc"`
	Window report.Window `json:"window"`
}

// Rule is a rule, what it flags, and what it found.
type Rule struct {
	Name     string `json:"name"`
	Severity string `json:"severity"` // the highest that it gives
	Doc      string `json:"doc"`
	// Todo says what to do about a finding.
	Todo     string `json:"todo"`
	Runbook  string `json:"runbook"`
	Enabled  bool   `json:"enabled"`
	Findings int    `json:"findings"`
	Requests int64  `json:"requests"`
	title    string
}
