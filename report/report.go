// Package report turns a stream of judgements into the report: whether the system:node binding can go, what blocks it, and
// every finding, as text, JSON, Markdown or HTML.
//
// What goes in: judgements, one at a time ([Builder.Add]), or a tally of them that was stored ([Make]), and what the run knows besides
// (the state, malformed lines). What comes out: a [Report]. The package may import pipeline itself, tally, rules, nodeauthz and rbac.
package report

import (
	"fmt"
	"iter"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Report is the contract's report. Times are RFC 3339 in UTC; the slices are never nil.
type Report struct {
	Cluster       string        `json:"cluster"`
	Window        Window        `json:"window"`
	Events        Events        `json:"events"`
	State         State         `json:"state"`
	Authorization Authorization `json:"authorization"`
	Verdicts      Verdicts      `json:"verdicts"`
	Agreement     Agreement     `json:"agreement"`
	Nodes         []Node        `json:"nodes"`
	Ambient       []Ambient     `json:"ambient"`
	// NodeRestriction is about the writes of nodes.
	NodeRestriction NodeRestriction `json:"nodeRestriction"`
	// TokenAudiences are the audiences of tokens that nodes may ask for.
	TokenAudiences Audiences `json:"tokenAudiences"`
	// Incidents are findings about one credential that follow each other: the open ones first.
	Incidents []incidents.Incident `json:"incidents"`
	// IncidentsMore counts, by their state, those that are not listed.
	IncidentsMore map[incidents.State]int `json:"incidentsMore,omitempty"`

	Findings []Finding `json:"findings"`
	// FindingsHidden counts the findings that a filter left out; answers, checks and incidents are of all.
	FindingsHidden int `json:"findingsHidden,omitempty"`

	Readiness   Readiness   `json:"readiness"`
	Confinement Confinement `json:"confinement"`
	// Exceptions are those that were given, with what each covers.
	Exceptions []Exception `json:"exceptions"`
	// Baseline compares with a report of before; nil if none was given.
	Baseline *Baseline `json:"baseline,omitempty"`
	// Waivers are those that were given, with what each is worth.
	Waivers []Waiver `json:"waivers"`

	// ApiserverLog is what the API server's own log says of refusals; nil if it was not given.
	ApiserverLog *ApiserverLog `json:"apiserverLog,omitempty"`

	// Paste is a file of waivers that would cover all that can be waived, whose owners and reasons are to be filled in; "" for none.
	Paste string `json:"-"`
}

// Window is the time between the first and the last judged request. Of one that began before the log, such as a watch, the log's beginning counts.
type Window struct {
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
}

// Events counts what the logs held.
type Events struct {
	// Read counts all events; Node those of node identities, of any stage; Judged the requests that were given a verdict.
	Read   int64 `json:"read"`
	Node   int64 `json:"node"`
	Judged int64 `json:"judged"`
	// Duplicates came more than once to one process: what the store recognizes after a restart counts once in all else, and not here. Skipped no rule could need, or lay outside of the window asked for.
	Duplicates int64 `json:"duplicates"`
	Malformed  int64 `json:"malformed"`
	Skipped    int64 `json:"skipped"`
	// MalformedAt says where, as file:line, at most tally.MaxMalformed of them.
	MalformedAt []Place `json:"malformedAt"`
}

// Place is where something was wrong in an input.
type Place = tally.Place

// State says what cluster state the verdicts stand on.
type State struct {
	Objects  map[string]int `json:"objects"`
	From     *time.Time     `json:"from"`
	To       *time.Time     `json:"to"`
	Warnings []string       `json:"warnings"`
}

// Authorization says how the API server decides.
type Authorization struct {
	Mode     string `json:"mode"`
	Inferred bool   `json:"inferred"`
	// Overruled says that the log shows that the Node authorizer is not asked first.
	Overruled         bool            `json:"-"`
	KubernetesVersion string          `json:"kubernetesVersion"`
	FeatureGates      map[string]bool `json:"featureGates"`
	// Versions are those by which requests were judged, in the order of time; empty where nothing was held against any. KubernetesVersion and
	// FeatureGates are of the last.
	Versions []codes.Version `json:"versions,omitempty"`
	// Skew is the skew that was measured in the log, nil where it was given.
	Skew *Skew `json:"skew,omitempty"`
}

// VersionLines say which versions decided the verdicts, and when if there were several.
func (a *Authorization) VersionLines() []string {
	var out []string
	for i := range a.Versions {
		v := &a.Versions[i]
		line := wording.Version(v)
		if len(a.Versions) > 1 {
			line = fmt.Sprintf("%s to %s: %s", stamp(v.From), stamp(v.To), line)
		}
		out = append(out, line)
	}
	return out
}

// Skew is how close to a change a request counts as a race, measured by the API server's own decisions.
type Skew struct {
	Milliseconds int64 `json:"milliseconds"`
	// Objects is on how many distinct objects it rests: those of which a decision still was, or already was, another one than the state tells.
	Objects int `json:"objects"`
}

// Words say it in a sentence without its beginning and its end.
func (s *Skew) Words() string {
	return fmt.Sprintf("%s, measured by the API server's decisions about %s", time.Duration(s.Milliseconds)*time.Millisecond, plural(int64(s.Objects), "object"))
}

// Verdicts counts the re-evaluated verdicts; races are counted in their verdict too.
type Verdicts struct {
	Allow   int64      `json:"allow"`
	Deny    int64      `json:"deny"`
	Unknown int64      `json:"unknown"`
	Races   RaceCounts `json:"races"`
}

// all counts the requests that were judged.
func (v *Verdicts) all() int64 { return v.Allow + v.Deny + v.Unknown }

// RaceCounts counts the verdicts that were races.
type RaceCounts struct {
	Allow int64 `json:"allow"`
	Deny  int64 `json:"deny"`
}

// Agreement compares the re-evaluated verdicts with what the API server's annotations imply, races apart.
type Agreement struct {
	Compared int64          `json:"compared"`
	Agree    int64          `json:"agree"`
	Disagree []Disagreement `json:"disagree"`
	// DisagreeMore counts those beyond tally.MaxDisagree, which are not listed.
	DisagreeMore int64         `json:"disagreeMore"`
	Races        RaceAgreement `json:"races"`
	// Reasons compares the reasons of denials that both sides agree on, byte for byte, races included.
	Reasons ReasonAgreement `json:"reasons"`
}

// RaceAgreement is the agreement among races.
type RaceAgreement struct {
	Compared int64 `json:"compared"`
	Agree    int64 `json:"agree"`
}

// ReasonAgreement compares reasons.
type ReasonAgreement struct {
	Compared int64 `json:"compared"`
	Equal    int64 `json:"equal"`
}

// Disagreement is one request on which nodetrail and the API server differ, outside of races.
type Disagreement = tally.Disagreement

// Node counts one node's requests.
type Node struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	// Deny counts those that the Node authorizer denies, races included; [Node.Excess] those that needed RBAC.
	Deny   int64 `json:"deny"`
	Excess int64 `json:"excess"`
}

// Ambient is access of nodes that any authenticated user has, by the binding that gives it. No request needs RBAC for it.
type Ambient struct {
	Binding Binding `json:"binding"`
	Verb    string  `json:"verb"`
	// Resource is the resource with its group, or the path of a request for none.
	Resource string `json:"resource"`
	Count    int64  `json:"count"`
}

// Finding is one group of findings of a rule.
type Finding struct {
	Rule string `json:"rule"`
	// Reason is the rule's code of why, and Params are what it is about: of the latest request of the highest severity. Reason is "" for a group that
	// stands for many.
	Reason      rules.Reason `json:"reason"`
	Params      codes.Params `json:"params"`
	Severity    string       `json:"severity"`
	Node        string       `json:"node"`
	Count       int64        `json:"count"`
	First       time.Time    `json:"first"`
	Last        time.Time    `json:"last"`
	Verb        string       `json:"verb"`
	APIGroup    string       `json:"apiGroup"`
	Resource    string       `json:"resource"`
	Subresource string       `json:"subresource"`
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	UserAgent   string       `json:"userAgent"`
	// Users made the requests, from Addresses, and were given Answers; Count says how often.
	tally.Origins
	Binding *Binding `json:"binding"`
	// Allowed says that one of the requests succeeded.
	Allowed bool `json:"allowed"`
	// Authorized says that one of the requests passed authorization.
	Authorized bool     `json:"authorized"`
	Message    string   `json:"message"`
	AuditIDs   []string `json:"auditIDs"`
	Runbook    string   `json:"runbook"`
	// Detail tells groups of one reason apart, such as the second address. It is no text for people.
	Detail string `json:"detail"`
	// Excepted says that an exception covers the finding: it is hidden from alerts and --fail-on.
	Excepted bool `json:"excepted"`
	// New says that the baseline does not have the finding, or with a lower severity; false without a baseline.
	New bool `json:"new,omitempty"`

	key tally.Key
	low int64 // how many of Count are of low severity
	// lagged is how many of the others an API server that had just started refused, and allowed later.
	lagged int64
	// aside says that the checks leave its requests out, or that the binding which let them through is kept, or stays as a provider's.
	aside bool
	wide  bool // stands for many groups
	days  []tally.Day
}

// Groups are the findings with their keys, in the report's order. Who asks changes nothing in them.
func (r *Report) Groups() iter.Seq2[*tally.Key, *Finding] {
	return func(yield func(*tally.Key, *Finding) bool) {
		for i := range r.Findings {
			if f := &r.Findings[i]; !yield(&f.key, f) {
				return
			}
		}
	}
}

// Binding names an RBAC binding.
type Binding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Readiness says whether the binding can go.
type Readiness struct {
	// Ready is whether the verdict is "ready": every check passed, without a waiver.
	Ready bool `json:"ready"`
	// NoBindings is whether the state has no binding any more that the migration deletes, or that lets one of Clients through.
	NoBindings bool `json:"noBindings,omitempty"`
	// Verdict is a checks.Answer: VerdictReady, VerdictWaived, VerdictNotReady or VerdictUnknown. The checks alone decide it.
	Verdict string `json:"verdict"`
	// Waivers is how many waivers the verdict rests on.
	Waivers int `json:"waivers"`
	// OnlyNodes are the nodes that the verdict is about; none stands for all.
	OnlyNodes []string `json:"onlyNodes,omitempty"`
	// Outdated is whether the verdict and the checks are of a state before that of the counts: they are made anew within seconds.
	Outdated bool `json:"outdated,omitempty"`
	// Evidence is "insufficient" if a check is unproven, else "sufficient".
	Evidence string `json:"evidence"`
	// Blockers are what would break or has a wrong user or group, because of each of which some check failed or is unproven; Warnings what the log or the state cannot tell: the sentences of Blocking and Doubts.
	Blockers []string `json:"blockers"`
	Warnings []string `json:"warnings"`
	// Blocking are the blockers with their codes, whose kind is always empty.
	Blocking []Hole `json:"blocking"`
	// Doubts are all warnings with their codes. Holes are those with a kind: what the evidence lacks. Some check is not passed because of each.
	Doubts     []Hole     `json:"doubts"`
	Holes      []Hole     `json:"holes"`
	Clients    []Client   `json:"clients"`
	Identities []Identity `json:"identities"`
	Denials    []Denial   `json:"denials"`
	// Unseen are the nodes that the cluster has and the log does not.
	Unseen []string `json:"unseenNodes"`
	// Checks are those of the question whether the bindings can be deleted.
	Checks []Check `json:"checks"`
	// Plan are the steps to the bindings' deletion, in order.
	Plan []Step `json:"plan"`
}
