// Package effort sizes what tests generate: all of it in make test, less with -short in make quick.
//
// What goes in: two sizes. What comes out: the one for this run. It imports none of ours.
package effort

import "testing"

// Of is whole, or with -short less. A test makes the same claim at both sizes, about more or fewer cases.
func Of[T any](whole, less T) T {
	if testing.Short() {
		return less
	}
	return whole
}
