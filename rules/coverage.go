package rules

import "github.com/nodetrail/nodetrail/codes"

// CoverageGap is the name of the rule whose findings come from sources and detectors, not from single requests.
const CoverageGap = "audit-coverage-gap"

// The reasons of the rule audit-coverage-gap.
const (
	LogSilent          Reason = "log-silent"
	NodeSilent         Reason = "node-silent"
	NodesSilent        Reason = "nodes-silent"
	SecretReadsMissing Reason = "secret-reads-missing"
	AnswersMissing     Reason = "answers-missing"
	VerdictsMissing    Reason = "verdicts-missing"
	DecisionsMissing   Reason = "decisions-missing"
	// What sources find.
	LogLost      Reason = "log-lost"
	MessagesLost Reason = "messages-lost"
	Delayed      Reason = "delayed"
	// StoreFull is what the store tells.
	StoreFull Reason = "store-full"
	// StateFull is what the state tells.
	StateFull Reason = "state-full"
	// What package coverage finds, whose codes these are.
	PolicyHidden       = Reason(codes.PolicyHidden)
	PolicyNoDecision   = Reason(codes.PolicyNoDecision)
	PolicyLateDecision = Reason(codes.PolicyLateDecision)
	PolicyNoBodies     = Reason(codes.PolicyNoBodies)
	PolicyNoWrites     = Reason(codes.PolicyNoWrites)
	ApiserverDropped   = Reason(codes.ApiserverDropped)
	ApiserverRejected  = Reason(codes.ApiserverRejected)
	ApiserverUnaudited = Reason(codes.ApiserverUnaudited)
)

// Minor is what tells findings on what no binding is needed for apart from others of the same rule of an audit policy.
const Minor = "minor"

func coverageReasons() []ReasonDoc {
	return []ReasonDoc{
		{LogSilent, "no request of any node was logged for improbably long", codes.Log},
		{NodeSilent, "no request of one node was logged for improbably long, while others continued (low)", codes.Node},
		{NodesSilent, "several nodes fell silent in the same minute", codes.Node},
		{SecretReadsMissing, "reads of secrets that a kubelet must have made are not in the log", codes.Policy},
		{AnswersMissing, "the log does not hold how requests ended that the Node authorizer denies", codes.Log},
		{VerdictsMissing, "programs with nodes' credentials were let through, and nothing tells what the Node authorizer says", codes.State},
		{DecisionsMissing, "no request of a day has the API server's decision (low)", codes.Log},
		{LogLost, "a log file was gone before it was read to its end", codes.Log},
		{MessagesLost, "messages of a Kafka partition were deleted before they were read", codes.Log},
		{StoreFull, "the store reached store.maxBytes, and the least important findings are counted together", codes.Doubt},
		{StateFull, "more objects ended than state.maxEnded, and those that ended first are forgotten before state.horizon", codes.Doubt},
		{Delayed, "a source is more than five minutes behind", codes.Log},
		{PolicyHidden, "a rule of the audit policy keeps requests of nodes out of the log", codes.Policy},
		{PolicyNoDecision, "a rule of the audit policy leaves out the stage with the decision", codes.Policy},
		{PolicyLateDecision, "a rule of the audit policy logs watches, or the decision on them, only when they end", codes.Policy},
		{PolicyNoBodies, "a rule of the audit policy logs no bodies, and state is learned from them alone", codes.Policy},
		{PolicyNoWrites, "a rule of the audit policy logs no bodies of writes that NodeRestriction decides by the body (low)", codes.Doubt},
		{ApiserverDropped, "an API server could not write audit events", codes.Log},
		{ApiserverRejected, "an API server refused requests because it could not audit them (low)", codes.Log},
		{ApiserverUnaudited, "an API server serves requests and writes no audit events", codes.Log},
	}
}

func auditCoverageGap() *Rule {
	return &Rule{
		Name:     CoverageGap,
		Severity: Medium,
		Reasons:  coverageReasons(),
		Doc: `Part of the audit log may be missing

## What
The rule flags the cases below. The message names the source, the node or the rule of the audit policy, and what is known of the loss.

A source of 'nodetrail run' lost events or is late:

- A log file was gone before it was read to its end.
- Messages of a Kafka partition were deleted before they were read.
- A source was more than five minutes behind.
- The store reached 'store.maxBytes'. The least important findings lost their names, and are counted together: those of refused requests
  before those of allowed ones, low severities before high ones, old ones before new ones. Somebody may be flooding the store.

The log itself has a gap, by the times of the requests:

- The whole log was silent for three minutes or more, and this cannot be chance. If a part p of the intervals of ten seconds in the hour
  before had requests of nodes, a silence of k intervals is reported if (1-p)^k is less than one in a billion. The silence must also be more
  than three times as long as the longest one of that hour, at least two nodes must have made requests in that hour, and the log must have
  been seen for five minutes before, unless the silence lasts for six hours. It is reported when requests come again, not while it lasts.
- One node was silent for ten minutes or more, by the same test with minutes instead of intervals, while other nodes continued and its Node
  object exists. If five or more nodes fall silent in the same minute, they are reported together, with severity medium, unless the
  condition Ready of all but four is Unknown. A single node has severity low, and so have these. If the node was seen for less than ten
  minutes before, a silence of one hour is reported.
- A node made its first request, and its Node object had existed for ten minutes or more of the log.
- A pod came to a node with a secret that the node did not need before, and the log has no read of any secret by the node from an hour
  before to ten minutes after, though it has other requests of the node. This is reported once a day for a node, and once for all nodes if
  most of them show it. It is not reported if the log has watches only when they end, without the stage 'ResponseStarted': a kubelet can
  read a secret by a watch that lasts for an hour.
- The Node authorizer denies a request, the log does not hold the answer, and the state does not show whether RBAC lets the request through.
  This is reported once a day.
- A program other than a kubelet was let through with a node's credential, and neither the state nor the API server's own decision shows
  what the Node authorizer decides. This is reported once a day.
- None of at least 500 requests of a day has the API server's decision (low).

The audit policy hides something, if you give it ('coverage.policyFile', '--audit-policy'): its rules keep requests of nodes out of the log,
leave out the stage with the decision or the stage with which watches begin, or log no bodies although state is learned from bodies alone.
nodetrail evaluates the policy for each kind of request that nodes make, with the API server's own evaluation. Kinds that need no binding
have severity low. So do rules that log no bodies of writes that NodeRestriction decides by the body: it is then unknown what the plugin
decides about these writes.

An API server's metrics show a loss, if nodetrail reads them ('coverage.apiserverMetrics'):

- The API server could not write audit events.
- It refused requests because it could not write their audit events.
- It serves requests and writes no audit events at all.

## Why
Requests that are not in the log were not judged. A report of such a time cannot say that a binding is no longer needed: the answer is then
NOT ENOUGH EVIDENCE.

## What to do
Keep rotated logs, or messages, for longer than nodetrail is ever stopped. If nodetrail cannot keep up, look at the metrics
'nodetrail_source_lag_seconds' and 'nodetrail_commit_seconds'. docs/scale-out.md says when one process is not enough.

After a silence, check whether the API servers ran at that time, and whether nodetrail reads the log of each. Log the requests of the group
'system:nodes' at level 'Metadata', including those for secrets and 'get nodes': put a rule for them before all rules of level 'None'. If
the API server's webhook drops events, give it larger buffers ('--audit-webhook-batch-buffer-size').

## False positives
If a log file was deleted while nodetrail was stopped, nodetrail cannot know whether it had read the file to its end. A time in which no API
server ran looks like a part of the log that is missing, and a node that is down looks like a node whose requests are hidden: the message
says both. A pod that the kubelet refused at once reads no secret.

## How to silence it
Run with '--disable audit-coverage-gap', or add the rule to 'rules.disable' in the configuration. The metric 'nodetrail_coverage_gaps_total'
still counts gaps of sources.`,
		NewDetector: newCoverageDetector,
	}
}
