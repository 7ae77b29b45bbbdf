package incidents

import (
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Pause is how long nothing must be found about a credential for its incident to be over, by the log's time.
const Pause = time.Hour

// State is what has become of an incident.
type State string

// The states.
const (
	// Open incidents have a finding in the last Pause.
	Open State = "open"
	// Quiet incidents have none.
	Quiet State = "quiet"
	// Closed incidents are covered by exceptions, every finding of them.
	Closed State = "closed"
)

// Kind is what sort of credential an incident is about.
type Kind string

// The kinds of credentials.
const (
	OfNode      Kind = "node"
	OfBootstrap Kind = "bootstrap-token"
	OfUser      Kind = "user"
)

// Bounds of the lists of an incident. What is beyond is counted.
const (
	MaxReached   = 500
	MaxAddresses = 50
	MaxAgents    = 50
)

// Incident is what somebody did with one credential, without a pause of an hour. Times are UTC; the lists are never nil.
type Incident struct {
	// ID is the same for the same cluster, credential and beginning.
	ID string `json:"id"`
	// Credential is the node's name, or the user name of who is none.
	Credential string `json:"credential"`
	Kind       Kind   `json:"kind"`
	State      State  `json:"state"`
	// Severity is that of the worst that succeeded; where nothing did it is medium.
	Severity string    `json:"severity"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	// Requests, Refused and Succeeded count the requests that were flagged; each once, however many rules flagged it. Refused has those that failed, too.
	Requests  int64 `json:"requests"`
	Refused   int64 `json:"refused"`
	Succeeded int64 `json:"succeeded"`
	// Excepted is how many of the incident's groups of findings an exception covers, of Findings. Unless these are all, they are listed, and count in nothing else.
	Findings int `json:"findings"`
	Excepted int `json:"excepted"`
	// Addresses are where the requests came from, as far as findings tell: those that were seen first come first.
	Addresses []Seen `json:"addresses"`
	// UserAgents are what the client called itself.
	UserAgents []Seen   `json:"userAgents"`
	Rules      []string `json:"rules"`
	Timeline   []Moment `json:"timeline"`
	// Reached are the objects that were asked for: those that were reached first, then the refused ones, then the accompanying ones. More counts the rows that
	// are left out.
	Reached []Row `json:"reached"`
	More    int   `json:"more"`
	// Bindings allowed what succeeded.
	Bindings []Binding `json:"bindings"`
	// Rotate are the objects whose content was disclosed.
	Rotate []Object `json:"rotate"`
	// Contain are the steps that end the access, in order.
	Contain []Step `json:"contain"`
}

// Seen is a value with when it was seen.
type Seen struct {
	Value string    `json:"value"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Moment is an entry of a timeline.
type Moment struct {
	At     time.Time    `json:"at"`
	Code   codes.Code   `json:"code"`
	Params codes.Params `json:"params"`
	// Message is the sentence; who shows the incident fills it in.
	Message string `json:"message"`
}

// Object names an object, or all objects of a kind in a namespace or the cluster where Name is "".
type Object struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// Row is what became of the requests for one object by one verb, whatever rules flagged them.
type Row struct {
	Verb string `json:"verb"`
	Object
	// Wide says that the row stands for further requests, which are too many to be listed one by one.
	Wide      bool   `json:"wide"`
	Severity  string `json:"severity"`
	Succeeded bool   `json:"succeeded"`
	// Beside says that nothing shows who made the requests: they are the node's usual ones, perhaps, such as those of a program that uses its
	// credential; or that an exception covers them. They are not counted in the incident.
	Beside   bool      `json:"beside"`
	Requests int64     `json:"requests"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Rules    []string  `json:"rules"`
	// Findings are the keys of the groups of findings.
	Findings []tally.Key `json:"-"`
}

// Binding names an RBAC binding.
type Binding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Step is something to do.
type Step struct {
	Code   codes.Code   `json:"code"`
	Params codes.Params `json:"params"`
	// Commands are for a shell.
	Commands []string `json:"commands"`
	// Message is the sentence; who shows the incident fills it in.
	Message string `json:"message"`
}

// The codes of a timeline.
const (
	FirstOddUse  codes.Code = "incident-odd-use"
	FirstRefusal codes.Code = "incident-first-refusal"
	FirstSuccess codes.Code = "incident-first-success"
	Peak         codes.Code = "incident-peak"
	Latest       codes.Code = "incident-latest"
)

// The codes of what contains an incident.
const (
	Drain        codes.Code = "contain-drain"
	Isolate      codes.Code = "contain-isolate"
	RemovePods   codes.Code = "contain-remove-pods"
	RemoveRights codes.Code = "contain-remove-rights"
	Expiry       codes.Code = "contain-expiry"
	Rotate       codes.Code = "contain-rotate"
	DeleteToken  codes.Code = "contain-delete-token"
	RevokeUser   codes.Code = "contain-revoke-user"
	LookFurther  codes.Code = "contain-look-further"
)

// SeverityOf is how severe an incident is by a finding: never above medium where the request did not succeed.
func SeverityOf(act rules.Act, s rules.Severity) rules.Severity {
	if act == rules.Refused || act == rules.Failed {
		return min(s, rules.Medium)
	}
	return s
}
