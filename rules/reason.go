package rules

import "github.com/nodetrail/nodetrail/codes"

// Reason is the stable code of why a rule flags something, such as "name-letter-case". No two rules share one.
type Reason string

// ReasonDoc is a reason with what it means.
type ReasonDoc struct {
	Reason Reason
	// Doc is one line, without a full stop.
	Doc string
	// Gap is what a finding of this reason is a gap in, for the rules about gaps.
	Gap codes.Kind
}

// ByReason reports whether findings of the rule with different reasons are different groups. What the reason of the other rules says of one
// request, such as that it failed, may be otherwise at the next.
func ByReason(rule string) bool {
	switch rule {
	case NodeIdentity, CredentialMisuse, CoverageGap, OversizedRequest, BootstrapImpersonation, BootstrapTokenMisuse:
		return true
	}
	return false
}

// ByObject reports whether groups of a reason that [ByReason] tells apart are those of objects, too: each of them was taken, and is to be rotated.
func ByObject(r Reason) bool { return r == SecretTaken || r == TakenWithoutGroup }

// GapOf is the kind of gap that a reason of the rule CoverageGap stands for. One that is not known, or none, is a gap in the log.
func GapOf(r Reason) codes.Kind {
	for _, d := range coverageReasons() {
		if d.Reason == r {
			return d.Gap
		}
	}
	return codes.Log
}

// The keys of parameters, for all rules. ParamName is in rules.go.
const (
	ParamUser     = "user"    // a user name
	ParamBy       = "by"      // who impersonates
	ParamSimilar  = "similar" // the Node that a name was probably meant to be
	ParamCode     = "code"    // of HTTP
	ParamState    = "state"   // the verdict of the state where the API server's differs, or StateUntold
	ParamFirst    = "first"   // the node that used it first
	ParamAddress  = "address"
	ParamHome     = "home" // the address used before
	ParamTurns    = "turns"
	ParamSince    = "since"
	ParamUntil    = "until"
	ParamFor      = "for"
	ParamCount    = "count"
	ParamBytes    = "bytes"
	ParamPeak     = "peak"
	ParamPeakAt   = "peak-at"
	ParamUsual    = "usual"
	ParamNodes    = "nodes" // how many
	ParamNode     = "node"  // names; of spikes after a count and a space, as are denied and client
	ParamDenied   = "denied"
	ParamClient   = "client"
	ParamObjects  = "objects"  // how many
	ParamObject   = "object"   // examples
	ParamAllowed  = "allowed"  // how many
	ParamAtLeast  = "at-least" // a count is this, or more
	ParamPercent  = "percent"
	ParamTested   = "tested" // of how many nodes it is known
	ParamSecret   = "secret"
	ParamGroup    = "group" // an organization of a certificate
	ParamPod      = "pod"
	ParamProvider = "provider" // of the cluster, whose agent it is
	ParamLane     = "lane"     // the part of a source
	ParamOld      = "old"      // the ID of the credential of before
	ParamTrouble  = "trouble"  // an error in a program's own words
)
