// Package coverage tells what an audit log cannot contain, from what is known in addition to the log: the API server's audit policy, and the counters of
// its own metrics.
//
// In: an audit.k8s.io/v1 Policy ([ParsePolicy]), and the addresses of API servers' metrics ([NewScraper]). Out: a [codes.Gap] for each thing that keeps requests of
// nodes out of the log, or out of it in part. What the log itself shows (silences, missing annotations) is found by the detectors of
// package rules.
//
// Of ours it imports codes and internal/credfile; of Kubernetes, k8s.io/apiserver's own audit policy, so that a policy means here what it means there.
package coverage
