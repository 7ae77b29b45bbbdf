package floor

import (
	"math"
	"testing"
)

func TestDiv(t *testing.T) {
	f := func(a, b, want int64) {
		t.Helper()
		if got := Div(a, b); got != want {
			t.Errorf("Div(%d, %d) = %d, want %d", a, b, got, want)
		}
	}
	f(0, 60, 0)
	f(59, 60, 0)
	f(60, 60, 1)
	f(-1, 60, -1)
	f(-60, 60, -1)
	f(-61, 60, -2)
	f(math.MaxInt64, 1, math.MaxInt64)
	f(math.MinInt64, 1, math.MinInt64)
	f(math.MinInt64, math.MaxInt64, -2)
}
