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
One of these. The message names the source, the node or the rule of the audit policy, and what is known of the loss.

Of a source of 'nodetrail run':

- a log file was gone before it was read to its end;
- messages of a Kafka partition were deleted before they were read;
- a source has been more than five minutes behind;
- the store reached 'store.maxBytes', and the least important findings lost their names and are counted together: those of refused
  requests before those of allowed ones, low severities before high ones, old ones before new ones. Somebody may flood it.

Of the log itself, by the requests' own times:

- a silence of the whole log, of three minutes or more, that cannot be chance. Of the intervals of ten seconds in the hour
  before, a part p had requests of nodes; a silence of k intervals is reported if (1-p)^k is less than one in a billion, if it is
  more than three times as long as the longest one of that hour, and if at least two nodes spoke in that hour. The log must have
  been seen for five minutes before, unless the silence lasts for six hours. It is reported when requests come again, not while it lasts;
- a silence of one node, of ten minutes or more, by the same test with minutes in place of intervals, while other nodes continue
  and its Node object exists. Five or more that fall silent in the same minute are reported together, with severity medium; one
  alone has severity low. Of a node that was seen for less than ten minutes an hour of silence is reported. And when a node speaks
  for the first time, it is reported if its Node object had been there for ten minutes or more of the log;
- a pod came to a node with a secret that the node did not need before, and in the hour before and ten minutes after no read of
  any secret by the node is in the log, though other requests of it are. It is reported once a day for a node, and once for all if
  most nodes show it, and not where the log has watches only when they end, without the stage 'ResponseStarted': a kubelet may read a
  secret by a watch that lasts for an hour;
- the Node authorizer denies a request, and the log does not hold its answer, nor does the state tell whether RBAC lets it
  through. It is reported once a day;
- a program other than a kubelet was let through with a node's credential, and neither the state nor the API server's word tells
  what the Node authorizer says of the request. It is reported once a day;
- of at least 500 requests of a day none has the API server's decision (low).

Of the audit policy, if it is given ('coverage.policyFile', '--audit-policy'): rules that keep requests of nodes out of the log, leave out
the stage with the decision or the one with which watches begin, or log no bodies where state is learned from them alone. Each kind of
request that nodes make is put to the API server's own evaluation of policies. Kinds that need no binding anyway have severity low. So do
rules that log no bodies of writes that NodeRestriction decides by the body: what the plugin says of those writes is unknown.

Of an API server's metrics, if they are read ('coverage.apiserverMetrics'): audit events that it could not write, and requests that it
refused for that reason; an API server that serves requests and writes no audit events at all.

## Why
What is not in the log was not judged. A report from such a time cannot say that a binding is no longer needed: readiness is then "not
enough evidence".

## What to do
Keep rotated logs, or messages, for longer than nodetrail is ever stopped. If it cannot keep up, look at the metrics
'nodetrail_source_lag_seconds' and 'nodetrail_commit_seconds', and see docs/scale-out.md for when one process is not enough.

After a silence, see whether the API servers ran at that time and whether the log of each is read. Log the requests of the group
'system:nodes' at level 'Metadata', those of secrets and 'get nodes' included; a rule for them before all rules of level 'None' does it.
Give the API server's webhook larger buffers ('--audit-webhook-batch-buffer-size') if it drops events.

## False positives
A log file that had been read to its end and was deleted while nodetrail was stopped cannot be distinguished
from one that was not. A time in which no API server ran looks like a part of the log that is missing, and a node that is down like
one whose requests are hidden: the message says both. A pod that the kubelet refused at once reads no secret.

## How to silence it
Run with '--disable audit-coverage-gap', or put it under 'rules.disable' in the configuration. The metric 'nodetrail_coverage_gaps_total'
still counts gaps of sources.`,
		NewDetector: newCoverageDetector,
	}
}
