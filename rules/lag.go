package rules

import "github.com/nodetrail/nodetrail/nodeauthz"

// GraphBehind is the reason of the rule authorizer-lag.
const GraphBehind Reason = "graph-behind"

func authorizerLag() *Rule {
	return &Rule{
		Name:     "authorizer-lag",
		Severity: Low,
		Reasons:  []ReasonDoc{{Reason: GraphBehind, Doc: "the API server's Node authorizer denied what the state had long allowed"}},
		Doc: `The API server's Node authorizer denied what the graph had long allowed

## What
The API server's Node authorizer did not allow a request that the graph had allowed for longer than the skew. RBAC may have allowed the
request nevertheless.

## Why
The API server builds its graph from watches. Under load, after a restart, or if a watch cache stalls, the graph lags behind by seconds, and
in bad cases by minutes. Pods then hang in ContainerCreating, unless an RBAC binding for nodes hides the lag.

## What to do
Compare the times with restarts of the API server, with the latency of etcd, and with the metrics 'apiserver_watch_cache_*'. If the lag
lasts, and only one of several API servers has it, restart that one.

## False positives
A wrong state looks the same: the state of another cluster, or a state in which objects were deleted while nobody watched. Check whether the
disagreements in the report have a node, an API server or a time in common.

A state that ends before the log ('state-ends-early') looks the same, too, if the pod has left the node since. The request may then be a
theft. Record the state until the end of the log, and analyze again.

## How to silence it
Run with '--disable authorizer-lag', or raise '--skew'.`,
		Check: func(r *Request, _ State, _ *Memory, f *Finding) bool {
			if !r.IsNode || r.Answer.Race || r.Answer.Verdict != nodeauthz.Allow || r.Observed.NodeVerdict != nodeauthz.Deny {
				return false
			}
			*f = Finding{
				Rule: "authorizer-lag", Reason: GraphBehind, Severity: Low, Subject: r.Node, Allowed: r.Allowed, Params: created(r),
			}
			return true
		},
	}
}
