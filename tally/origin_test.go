package tally

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rules"
)

func someOrigins(r *rand.Rand) []Origin {
	out := make([]Origin, r.IntN(40))
	for i := range out {
		n := r.IntN(30)
		out[i] = Origin{User: fmt.Sprint("user-", n%7), Groups: []string{"system:nodes", fmt.Sprint("group-", r.IntN(40))}, Address: Address{fmt.Sprint("10.0.0.", r.IntN(40)), fmt.Sprint("worker-", n%3)}, Code: int32(200 + n)}
		if n%5 == 0 {
			out[i].Impersonated = fmt.Sprint("system:node:", n)
		}
		if n%11 == 0 {
			out[i].Address.Address = strings.Repeat("x", n*20) + fmt.Sprint(n)
		}
	}
	return out
}

// Origins are the same whatever the order in which they come, and however they were put together before.
func TestOriginsInAnyOrder(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 17))
		all := someOrigins(r)
		var want Origins
		for i := range all {
			want.Add(&all[i])
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		parts := make([]Origins, 3)
		for i := range all {
			parts[r.IntN(3)].Add(&all[i])
		}
		var got Origins
		for i := range parts {
			before := parts[i].Filled()
			got.Merge(&parts[i])
			if diff := cmp.Diff(before, parts[i].Filled()); diff != "" {
				t.Fatalf("merging changed what was merged:\n%s", diff)
			}
		}
		if diff := cmp.Diff(want.Filled(), got.Filled()); diff != "" {
			t.Fatalf("seed %d (-in order +otherwise):\n%s", seed, diff)
		}
		if len(got.Users) > MaxOrigins || len(got.Groups) > MaxOrigins || len(got.Addresses) > MaxOrigins || len(got.Answers) > MaxOrigins {
			t.Fatalf("more than %d: %+v", MaxOrigins, got)
		}
		for _, a := range got.Addresses {
			if len(a.Address) > MaxText {
				t.Fatalf("an address of %d bytes", len(a.Address))
			}
		}
	}
}

// The log's memory is used again: nothing of it is kept.
func TestOriginsAreTheirOwn(t *testing.T) {
	user, group := []byte("user"), []byte("group")
	e := Entry{Origin: Origin{User: string(user), Groups: []string{string(group)}, Address: Address{"10.0.0.1", "a"}}, Findings: []Finding{{Key: Key{Rule: "r"}}}}
	o := e.Own()
	e.Origin.Groups[0] = "overwritten"
	if o.Origin.Groups[0] != "group" {
		t.Errorf("the copy shares its groups")
	}
	none := Entry{Origin: e.Origin}
	if got := none.Own(); got.Origin.User != "" {
		t.Errorf("an entry without findings keeps %+v", got.Origin)
	}
}

func TestSucceeded(t *testing.T) {
	for _, x := range []struct {
		allowed bool
		code    int32
		reason  rules.Reason
		want    bool
	}{
		{true, 200, rules.BindingNeeded, true}, {true, 201, rules.LiveNodeAsked, true}, {true, 101, rules.BindingNeeded, true}, {true, 0, rules.BindingNeeded, true},
		{true, 0, rules.ReadUnanswered, false}, {true, 404, rules.ObjectMissing, false}, {true, 409, rules.BindingNeeded, false}, {true, 500, rules.BindingNeeded, false},
		{false, 403, rules.ReadRefused, false}, {false, 0, rules.ReadRefused, false}, {false, 200, rules.ReadRefused, false},
	} {
		e := Entry{Time: time.Unix(1, 0), Origin: Origin{User: "u", Code: x.code}, Findings: []Finding{{Key: Key{Rule: "r"}, Allowed: x.allowed, Reason: x.reason}}}
		sum := New()
		sum.Add(&e)
		if g := sum.Groups[Key{Rule: "r"}]; g.Succeeded != x.want || g.Allowed != x.allowed {
			t.Errorf("%+v: succeeded %t", x, g.Succeeded)
		}
	}
}
