// Package coverage tells what an audit log cannot contain, from what is known in addition to the log: the apiserver's audit policy, and the counters of
// its own metrics.
//
// In: an audit.k8s.io/v1 Policy ([ParsePolicy]), and the addresses of apiservers' metrics ([NewScraper]). Out: an [codes.Gap] for each thing that keeps requests of
// nodes out of the log, or out of it in part. What the log itself shows (silences, missing annotations) is found by the detectors of
// package rules.
//
// Of ours it imports codes and internal/credfile; of Kubernetes, apiserver's own audit policy, so that a policy means here what it means there.
package coverage
