package wording

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/rules"
)

// The questions that a report answers.
const (
	AskReady    = "Can the bindings be deleted?"
	AskConfined = "Is each credential confined?"
)

// identityTitles say in a few words what is wrong with an identity.
var identityTitles = map[rules.Reason]string{
	rules.GroupMissing: "identity %s is not in the group system:nodes", rules.NoNodeIdentity: "a kubelet uses the identity %s, which is not a node",
	rules.NameForm: "identity %s is not named system:node:<nodeName>", rules.NameEmpty: "identity %s is not named system:node:<nodeName>",
	rules.NameLetterCase: "%s differs from its Node's name in letter case", rules.NameDomain: "%s differs from its Node's name in its domain",
	rules.NodeMissing: "%s has no Node object", rules.NodeGone: "%s has no Node object any more",
	rules.NodeGoneRenewed: "%s has no Node object any more and got a new certificate", rules.SharedCertificate: "%s uses the certificate of another node",
}

// WrongIdentity says in a few words what is wrong with an identity.
func WrongIdentity(identity string, r rules.Reason) string {
	if s := identityTitles[r]; s != "" {
		return fmt.Sprintf(s, identity)
	}
	return fmt.Sprintf("%s: %s", identity, r)
}

// Blocked says of a client that it needs a binding. node is the name of the node where it ran on one alone.
func Blocked(client string, nodes int64, node, binding string) string {
	on := Plural(nodes, "node")
	if nodes == 1 && node != "" {
		on = node
	}
	return fmt.Sprintf("client %s on %s needs %s", client, on, binding)
}

// CheckSays is what came of a check with its name and its claim. The state is one of the report's.
func CheckSays(name, title, state string) string {
	switch {
	case state == checks.Unproven.String():
		return "Not proven: " + title
	case state == checks.Failed.String() && failedChecks[name] != "":
		return failedChecks[name]
	}
	return title + ": " + state
}

// failedChecks say what is the case where a check fails.
var failedChecks = map[string]string{
	"node-authorizer-on":     "The Node authorizer is not asked before RBAC",
	"version-known":          "The log contradicts the Kubernetes version",
	checks.NothingDepends:    "Requests need a binding that will be deleted",
	checks.IdentitiesConform: "A kubelet has a wrong user or group",
	"races-decided":          "A request in a race may need RBAC",
	"agreement":              "nodetrail and the API servers disagree",
	"rules-on":               "A rule that decides is off",
	"node-restriction-on":    "NodeRestriction is not in force",
	"no-excess-rights":       "Nodes have rights beyond their own",
	"tokens-on-node":         "Service accounts of pods on a node can do more than a node may",
	"no-excess-use":          "A node used rights beyond its own",
	"one-holder":             "A program other than the kubelet uses a kubelet's credential",
	"birth-guarded":          "A credential of a node was issued to somebody else",
}

// ConfinementOnly says of what a check says that the answer about the bindings does not depend on it.
func ConfinementOnly(s string) string { return s + " (CONFINED only)" }

// Listed says after a title how many of all points are listed, and how many of all affect the second answer alone.
func Listed(listed, all, confined int) string {
	var out []string
	if listed < all {
		out = append(out, fmt.Sprintf("%d of %d (--all lists all)", listed, all))
	}
	if confined > 0 && confined < all {
		out = append(out, fmt.Sprintf("%d of the %d affect only CONFINED", confined, all))
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, "; ")
}

// MoreOf says how many more there are than were listed.
func MoreOf(n int64, what string) string { return Plurals(n, "more "+what) + ": use --all" }

// WorstOf names the worst of all findings.
func WorstOf(all int64, severity, finding string) string {
	if all == 1 {
		return fmt.Sprintf("The finding (%s): %s", severity, finding)
	}
	return fmt.Sprintf("The worst of %s (%s): %s", Plurals(all, "finding"), severity, finding)
}

// CountOf says how many findings there are, of which the worst has this severity.
func CountOf(all int64, severity string) string {
	if all == 1 {
		return fmt.Sprintf("There is one finding (%s).", severity)
	}
	return fmt.Sprintf("There are %s. The severity of the worst is %s.", Plurals(all, "finding"), severity)
}

// Named adds names to what counts them.
func Named(count string, names []string) string {
	if len(names) == 0 {
		return count
	}
	return count + " (" + strings.Join(names, ", ") + ")"
}

// OnlyOf says that both answers are about some nodes.
func OnlyOf(nodes string) string {
	return "Both answers are only about the kubelets of " + nodes + "."
}

// Counts joins the counts of things that there are: "2 blockers, 1 gap".
func Counts(of ...string) string {
	var out []string
	for _, s := range of {
		if s != "" && !strings.HasPrefix(s, "0 ") {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// Agreement says how many decisions of the API servers nodetrail agrees with.
func Agreement(agree, compared, racesAgree, races int64) string {
	if compared+races == 0 {
		return "the log has no decision of the Node authorizer to compare with"
	}
	s := fmt.Sprintf("nodetrail and the API server agree on %s of %s", share(agree, compared), Plurals(compared, "decision"))
	if races > 0 {
		s += fmt.Sprintf(", and on %s of %s, where both answers are possible", share(racesAgree, races), Plurals(races, "race"))
	}
	return s
}

func share(n, of int64) string {
	if n == of {
		return "100 %"
	}
	return Percent(n, of)
}

// Plurals is Plural with the digits of the number grouped.
func Plurals(n int64, what string) string { return PluralOf(Thousands(n), n, what) }

// FindingsHidden adds to the findings that are listed how many filters left out.
func FindingsHidden(listed string, hidden int64) string {
	return fmt.Sprintf("%s; the filters leave out %s", listed, Thousands(hidden))
}

// UnreadableAt adds one of the places to a sentence about lines that could not be read.
func UnreadableAt(sentence, file string, line int, cause string) string {
	return fmt.Sprintf("%s, such as %s:%d: %s.", strings.TrimSuffix(sentence, "."), file, line, cause)
}

// DeniedByNode says what the Node authorizer denies, races included, and how much of it needed a binding. Races and what any authenticated user may do are
// not among the latter.
func DeniedByNode(denied, needed int64) string {
	return fmt.Sprintf("the Node authorizer denies %s; outside of races, %s of them needed an RBAC binding", Plurals(denied, "request"), Thousands(needed))
}

// WaiversExpired says that waivers that were given hold no longer.
func WaiversExpired(n int64) string {
	if n == 1 {
		return "One waiver that was given has expired, and covers nothing."
	}
	return fmt.Sprintf("%s that were given have expired, and cover nothing.", Plurals(n, "waiver"))
}

// UnknownVerdicts says how many of the verdicts are unknown.
func UnknownVerdicts(unknown, all int64) string {
	return fmt.Sprintf("%s of %s have no verdict: the state does not show what they asked for", Thousands(unknown), Plurals(all, "request"))
}

// ManyUnknown is UnknownVerdicts with what to do.
func ManyUnknown(unknown, all int64) string {
	return UnknownVerdicts(unknown, all) + ". " + StateToCover
}

// CheckCounted is what a check counts: the figures are followed by it.
func CheckCounted(name string) string {
	switch name {
	case "window-covered", "servers-seen":
		return "renewals of Leases seen"
	case "nothing-depends", checks.IdentitiesConform, "races-decided", "no-excess-use":
		return "requests looked at"
	case "state-complete":
		return "objects in the state"
	case "bindings-inventoried", "no-excess-rights":
		return "bindings looked at"
	case "agreement":
		return "decisions that nodetrail does not contradict"
	case "rules-on":
		return "rules on"
	}
	return "seen"
}

// WouldBreak counts requests that would break; unknown is whether those of which nothing is known are counted, too.
func WouldBreak(n int64, unknown bool) string {
	s := Plural(n, "request") + " would break"
	if unknown {
		s += ", or it is not known"
	}
	return s
}

// See points to a page of the documentation.
func See(page string) string { return "see " + page }

// Sentences of the summary that have no parameters.
const (
	UnknownClient = "If you do not recognize a client, assume its nodes' credentials are stolen."
	LogNodesFirst = "Analyze a log that has the requests of nodes: the audit policy and filters must keep them"
	WindowFirst   = "Choose a window in which the log has requests of nodes (--since, --until)"
	StateToCover  = "Give a state that covers the log (--state)."
	StateTooOld   = "Verdicts after that can be wrong. " + StateToCover
	NoBindingLeft = "When the log ended, no binding gave nodes the role system:node: it was deleted, or never existed."
	Pages         = "docs/ and deploy/ are in the repository github.com/nodetrail/nodetrail."
	LongCommand   = "nodetrail analyze --all (the command is too long for this screen)"
)
