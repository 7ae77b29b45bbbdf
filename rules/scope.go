package rules

import (
	"fmt"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func outOfScopeSecretRead() *Rule {
	return &Rule{
		Name:     "out-of-scope-secret-read",
		Severity: Critical,
		Doc: `A node reads a secret that no pod of its own leads to

## What
A node gets, lists or watches a secret or configmap, or makes a token of a service account, and at that instant no pod on the node led
to the object: not by a volume, an environment variable, an image pull secret, a persistent volume or its service account. Reads of
whole collections are among them: no kubelet needs those.

## Why
This is what a stolen kubelet credential is used for. Where it succeeded, the object's content has left its scope. Where it was
refused, somebody tried.

## What to do
"nodetrail explain" shows who does lead to the object and when this node last did. If it succeeded: find out what ran on the node
with the kubelet's credential (user agent, address), treat the object as disclosed, rotate it, and remove the RBAC binding that
allowed it (see rbac-excess-access). If it was refused and repeats from the kubelet itself, look for a static pod that names a
secret: that never works.

## False positives
A pod bound to or deleted from the node within the skew makes the request a race, which is not flagged. A state without persistent
volumes hides the secrets that only they lead to.

## How to silence it
Run with --disable out-of-scope-secret-read.`,
		Check: func(r *Request, _ State, _ *Memory) (Finding, bool) {
			a := r.Attrs
			if a.APIGroup != "" || !a.ResourceRequest || !r.NodeDenies() {
				return Finding{}, false
			}
			read := a.Subresource == "" && (a.Verb == "get" || a.Verb == "list" || a.Verb == "watch")
			passed, refused := Critical, Medium
			switch {
			case a.Resource == "secrets" && read:
			case a.Resource == "configmaps" && read:
				passed, refused = Medium, Low
			case isToken(r) && a.Verb == "create":
			default:
				return Finding{}, false
			}
			f := Finding{Rule: "out-of-scope-secret-read", Severity: refused, Subject: r.Node, Allowed: r.Allowed}
			if r.HasGrant && r.Allowed {
				f.Binding = r.Grant.Binding
			}
			outcome := "was refused"
			switch {
			case r.Succeeded():
				f.Severity, outcome = passed, "succeeded"
			case r.Allowed:
				outcome = fmt.Sprintf("was let through and then failed with code %d", r.Event.Code)
			}
			f.Message = fmt.Sprintf("%s %s by node %s %s, and no pod on the node led to it", a.Verb, object(r), r.Node, outcome)
			return f, true
		},
	}
}

func authorizerLag() *Rule {
	return &Rule{
		Name:     "authorizer-lag",
		Severity: Low,
		Doc: `The apiserver refused what the graph says was long allowed

## What
The apiserver's Node authorizer had no opinion, although the object had led to the node for longer than the skew.

## Why
The apiserver's graph follows its watches. Under load, after a restart, or when a watch cache stalls it lags behind by seconds, in
bad cases by minutes; pods then hang in ContainerCreating.

## What to do
Compare with apiserver_watch_cache and etcd latencies of that time and with restarts of the apiserver. If it lasts, and only one of
several apiservers does it, restart that one.

## False positives
State that is wrong (another cluster's, or one with objects deleted while nobody watched) looks the same: look whether the
disagreements in the report share a node, an apiserver or a time.

## How to silence it
Run with --disable authorizer-lag, or raise --skew.`,
		Check: func(r *Request, _ State, _ *Memory) (Finding, bool) {
			if !r.IsNode || r.Answer.Race || r.Answer.Verdict != nodeauthz.Allow || r.Observed.NodeVerdict != nodeauthz.Deny {
				return Finding{}, false
			}
			return Finding{
				Rule: "authorizer-lag", Severity: Low, Subject: r.Node, Allowed: r.Allowed,
				Message: fmt.Sprintf("the apiserver's Node authorizer denied %s %s to node %s although its pods led to it",
					r.Attrs.Verb, object(r), r.Node),
			}, true
		},
	}
}
