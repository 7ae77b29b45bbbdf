package wording

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

// The questions that a report answers.
const (
	AskReady    = "Can the bindings be deleted?"
	AskConfined = "Is each credential confined?"
)

// identityTitles say in a few words what is wrong with an identity.
var identityTitles = map[rules.Reason]string{
	rules.GroupMissing: "%s is not in the group system:nodes", rules.NoNodeIdentity: "a kubelet comes as %s, which is no node",
	rules.NameForm: "%s is not named system:node:<nodeName>", rules.NameEmpty: "%s is not named system:node:<nodeName>",
	rules.NameLetterCase: "%s differs from its Node's name in letter case", rules.NameDomain: "%s differs from its Node's name in its domain",
	rules.NodeMissing: "%s has no Node object", rules.SharedCertificate: "%s uses the certificate of another node",
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
	return fmt.Sprintf("%s on %s needs %s", client, on, binding)
}

// CheckSays is the claim of a check, with what came of it. The state is one of the report's.
func CheckSays(title, state string) string {
	switch state {
	case "unproven":
		state = "not proven"
	case "failed":
		state = "not true"
	}
	return title + ": " + state
}

// ConfinementOnly says of what a check says that the answer about the bindings does not depend on it.
func ConfinementOnly(s string) string { return s + " (confinement only)" }

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

// DeniedByNode says what the Node authorizer denies and how much of it RBAC allowed.
func DeniedByNode(denied, allowed int64) string {
	return fmt.Sprintf("the Node authorizer alone denies %s, of which RBAC allowed %s", Plurals(denied, "request"), Thousands(allowed))
}

// See points to a page of the documentation.
func See(page string) string { return "see " + page }

// Sentences of the summary that have no parameters.
const (
	UnknownClient = "If a client is unknown to you, treat the credentials of its nodes as stolen."
	NoBindingLeft = "When the log ended, no binding gave nodes the role system:node."
	LongCommand   = "nodetrail analyze --all (the command is too long for this screen)"
)
