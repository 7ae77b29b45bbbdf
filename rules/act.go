package rules

// Act is what a finding says of the holder of a credential. The zero value says nothing of anybody.
type Act uint8

// The acts.
const (
	// Circumstance is how the cluster is set up, or what the log does not show. It lasts, whatever anybody does.
	Circumstance Act = iota
	// OddUse shows that somebody else may hold the credential.
	OddUse
	// Refused and Failed are requests that failed: refused by authorization, or allowed and then failed.
	Refused
	Failed
	// Succeeded is a request that reached what it should not.
	Succeeded
)

// ActOf says what a finding of the rule, with this reason and severity, shows. allowed says that the request passed authorization, succeeded
// that it was carried out.
func ActOf(rule string, r Reason, s Severity, allowed, succeeded bool) Act {
	if s <= Low || !OfHolder(rule) {
		return Circumstance
	}
	switch rule {
	case NodeIdentity, OversizedRequest, DenySpike, PersistentDeny:
		return Circumstance
	case ExcessAccess:
		if s < Critical { // a program that the kubelet's credential is lent to, most of all
			return Circumstance
		}
	}
	switch r {
	case ForeignClient, KnownNodeAgain, ApproverUnclear:
		return Circumstance
	case SecondAddress, MovedAddress, UsedInSilence, Forwarded, TwoCertificates, SharedCertificate, CertificateMoved, NodeMadeElsewhere, CertificateNoBirth, TokenElsewhere, IssuedTwice:
		return OddUse
	}
	if !allowed {
		return Refused
	}
	if Fruitless(r) || !succeeded {
		return Failed
	}
	return Succeeded
}

// OfHolder reports whether findings of the rule say what the holder of a credential does. Gaps are about no credential, and of a rule that the user wrote
// nobody knows.
func OfHolder(rule string) bool { return rule != CoverageGap && BuiltIn(rule) }

// Fruitless reports whether requests of a reason were allowed and then failed, as far as the log shows.
func Fruitless(r Reason) bool {
	switch r {
	case ReadFailed, ReadUnanswered, WriteRefusedByAdmission, WriteFailed, BypassFailed, ObjectMissing, AdmissionRefused, RequestOdd, LiveNodeAsked, BeyondRefused:
		return true
	}
	return false
}
