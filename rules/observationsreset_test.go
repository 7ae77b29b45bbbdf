package rules

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Observations that are used again are those that are made anew, byte by byte.
func TestObservationsReset(t *testing.T) {
	rnd := rand.New(rand.NewPCG(27, 11))
	var again Observations
	for range 200 {
		again.Reset()
		var fresh Observations
		for lane := range rnd.IntN(3) {
			for _, o := range []*Observations{&again, &fresh} {
				o.Lane(fmt.Sprint("lane-", lane), time.Time{})
			}
			for range rnd.IntN(40) {
				r := request(does(fmt.Sprintf("get secrets shop/s%d", rnd.IntN(5))), agent(fmt.Sprint("agent-", rnd.IntN(4))))
				one := AppendObservation(nil, r, time.Time{})
				again.Add(one)
				fresh.Add(one)
			}
		}
		if !bytes.Equal(again.Bytes(), fresh.Bytes()) || (again.Bytes() == nil) != (fresh.Bytes() == nil) {
			t.Fatalf("%x\n%x", again.Bytes(), fresh.Bytes())
		}
	}
}
