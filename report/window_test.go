package report

import (
	"fmt"
	"testing"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/tally"
)

// Requests whose node names are not distinguished are a gap, wherever the counts come from.
func TestTogether(t *testing.T) {
	for _, n := range []int{3, 4, 9} {
		all := tally.New()
		all.Bound(3)
		for i := range n {
			all.Add(&tally.Entry{IsNode: true, Node: fmt.Sprint("made-", i)})
		}
		got := Together(all)
		if n == 3 && got != nil || n > 3 && (len(got) != 1 || !got[0].Decides() || got[0].Params.Int(codes.ParamTotal) != int64(n-3)) {
			t.Errorf("%d names: %+v", n, got)
		}
	}
}
