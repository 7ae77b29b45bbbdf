// Package effort sizes what tests generate: all of it in make test, less with -short in make quick and under the race detector.
//
// What goes in: two sizes. What comes out: the one for this run. It imports none of ours.
package effort

import "testing"

// Of is whole, or less with -short and under the race detector, which takes some ten times as long for a case and looks for
// something else than more cases find. A test makes the same claim at both sizes, about more or fewer cases.
func Of[T any](whole, less T) T {
	if testing.Short() || race {
		return less
	}
	return whole
}
