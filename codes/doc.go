// Package codes is the vocabulary for what an answer rests on: codes with parameters for what was found, and for what is missing.
//
// A [Gap] is something that the log, the audit policy, the state or the configuration does not tell; its Kind says whether the rest is still enough.
// [Params] are the names, counts and times of a gap or a finding, bounded one by one. Nothing here is a sentence: package wording makes
// those, for a reader, from code and parameters. Codes and the keys of parameters are stable.
//
// The package imports nothing of ours.
package codes
