// Package floor divides and rounds down, for times in whole steps since 1970. It imports none of ours.
package floor

// Div is a divided by b and rounded down, so that times before 1970 are in the step in which they are. b is positive.
func Div(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
