package codes

// Codes of gaps and doubts. Those that the rule audit-coverage-gap finds in the log are the rule's reasons.
const (
	// Of the audit policy.
	PolicyHidden       Code = "policy-hidden"
	PolicyNoDecision   Code = "policy-no-decision"
	PolicyLateDecision Code = "policy-late-decision"
	PolicyNoBodies     Code = "policy-no-bodies"
	PolicyNoWrites     Code = "policy-no-write-bodies"
	// Of what an audit policy keeps from a check.
	PolicyLacks         Code = "policy-lacks"
	PolicyLacksDecision Code = "policy-lacks-decision"
	PolicyLacksStart    Code = "policy-lacks-start"
	PolicyLacksPanic    Code = "policy-lacks-panic"
	PolicyLacksBody     Code = "policy-lacks-body"
	PolicyUnclear       Code = "policy-unclear"
	// Of an API server's metrics.
	ApiserverDropped   Code = "apiserver-dropped"
	ApiserverRejected  Code = "apiserver-rejected"
	ApiserverUnaudited Code = "apiserver-unaudited"

	// Of the state.
	KindMissing      Code = "kind-missing"
	KindPartial      Code = "kind-partial"
	VolumesMissing   Code = "volumes-missing"
	StateBeginsLate  Code = "state-begins-late"
	StateEndsEarly   Code = "state-ends-early"
	RecorderBehind   Code = "recorder-behind"
	KubeletAhead     Code = "kubelet-ahead"
	KubeletsAhead    Code = "kubelets-ahead"
	NotWatched       Code = "not-watched"
	NotWatchedMore   Code = "not-watched-more"
	StateForgotten   Code = "state-forgotten"
	WatchErrors      Code = "watch-errors"
	StateUnreadable  Code = "state-unreadable"
	EntryUnreadable  Code = "state-entry-unreadable"
	FileUseless      Code = "state-file-useless"
	KindRefused      Code = "kind-refused"
	KindUnlisted     Code = "kind-unlisted"
	WatchInterrupted Code = "watch-interrupted"
	StateNotGiven    Code = "state-not-given"

	// Of the log.
	LogEmpty        Code = "log-empty"
	LogWithoutNodes Code = "log-without-nodes"
	WindowEmpty     Code = "window-empty"
	NamesTogether   Code = "names-together"
	LogUnread       Code = "log-unread"
	DenialsUnlogged Code = "denials-unlogged"
	LinesUnreadable Code = "lines-unreadable"
	WindowShort     Code = "window-short"
	WindowUncovered Code = "window-uncovered"
	ManyGaps        Code = "many-gaps"
	PartMissing     Code = "part-missing" // before what is missing
	NodesUnseen     Code = "nodes-unseen"

	// Of how the API server decides, and of how its word compares.
	ModeAmbiguous     Code = "mode-ambiguous"
	ModeUnknown       Code = "mode-unknown"
	RequestsUndecided Code = "requests-undecided"
	Disagreements     Code = "disagreements"
	RuleDisabled      Code = "rule-disabled"

	// Doubts that decide nothing.
	NodeRestrictionOff  Code = "node-restriction-off"
	AllowedInVain       Code = "allowed-in-vain"
	AllowedByKubeadm    Code = "allowed-by-kubeadm"
	AllowedByProfiles   Code = "allowed-by-worker-profiles"
	OutcomeUnknown      Code = "outcome-unknown"
	BindingsUnknown     Code = "bindings-unknown"
	BindsOthers         Code = "binds-others"
	ApprovesCertificate Code = "approves-certificates"
	RightUnseen         Code = "right-unseen"
	NothingRemoved      Code = "nothing-removed"
)

// Codes of what blocks.
const (
	NodeAuthorizerOff Code = "node-authorizer-off"
	ClientBreaks      Code = "client-breaks"
	IdentityUnserved  Code = "identity-unserved"
)

// Codes of the steps of a plan.
const (
	EnableNodeAuthorizer  Code = "enable-node-authorizer"
	EnableNodeRestriction Code = "enable-node-restriction"
	CheckAllRules         Code = "check-all-rules"
	GiveMode              Code = "give-mode"
	FixPolicy             Code = "fix-policy"
	CompleteLog           Code = "complete-log"
	LookAtNodes           Code = "look-at-nodes"
	RecordState           Code = "record-state"
	IssueCertificates     Code = "issue-certificates"
	FindKubelets          Code = "find-kubelets"
	MoveClients           Code = "move-clients"
	AskAgain              Code = "ask-again"
	FindBindings          Code = "find-bindings"
	PreviewDeletion       Code = "preview-deletion"
	DeleteBindings        Code = "delete-bindings"
	WatchDenials          Code = "watch-denials"
	// Of a canary.
	NodesJoin  Code = "nodes-join"
	UsersGain  Code = "users-gain"
	BindByName Code = "bind-by-name"
	EndCanary  Code = "end-canary"
)

// Keys of parameters of gaps, blockers and steps.
const (
	ParamWhere    = "where" // the rule of a policy, NoRule, or an API server
	ParamMetric   = "metric"
	ParamPlugin   = "plugin"  // after a count and a space
	ParamRequest  = "request" // kinds of requests
	ParamMore     = "more"    // how many further ones
	ParamMinor    = "minor"   // no binding is needed for them
	ParamKind     = "kind"    // of objects
	ParamCount    = "count"
	ParamTotal    = "total"
	ParamBy       = "by" // how long
	ParamAt       = "at"
	ParamFirst    = "first" // event of the log
	ParamLast     = "last"
	ParamHave     = "have"
	ParamWant     = "want"
	ParamMessage  = "message" // the sentence that a store of before had in place of parameters, or the message of a user's rule
	ParamTrouble  = "trouble" // an error in a program's own words
	ParamName     = "name"
	ParamRule     = "rule"
	ParamMode     = "mode"
	ParamDecided  = "decided" // the log has the API server's decisions
	ParamNode     = "node"
	ParamNodes    = "nodes" // how many
	ParamClient   = "client"
	ParamReason   = "reason"
	ParamIdentity = "identity"
	ParamRole     = "role"
	ParamNone     = "none"    // the state holds none
	ParamChecked  = "checked" // only the version that was looked at is deleted
	// A binding; without a name it is not known, with ParamWide any.
	ParamBindingKind      = "binding-kind"
	ParamBindingNamespace = "binding-namespace"
	ParamBinding          = "binding"
	ParamWide             = "wide"
)

// NoRule stands in ParamWhere for what no rule of a policy matches.
const NoRule = "no rule"
