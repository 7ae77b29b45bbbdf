package tally

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

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

// TestAddKeepsNothing adds findings whose strings are overwritten afterwards, as memory of a log is.
func TestAddKeepsNothing(t *testing.T) {
	var names Names
	for _, sum := range []*Tally{New(), New(), New()} {
		sum.Share(&names)
		addKeepsNothing(t, sum)
	}
	addKeepsNothing(t, New())
}

func addKeepsNothing(t *testing.T, sum *Tally) {
	t.Helper()
	var lent [][]byte
	lend := func(s string) string {
		b := []byte(s)
		lent = append(lent, b)
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	for _, name := range []string{"a", strings.Repeat("b", 2*MaxText)} {
		e := Entry{
			Time: time.Unix(1, 0), IsNode: true, Node: lend(name), Origin: Origin{
				User: lend("user " + name), Groups: []string{lend("group " + name)}, Impersonated: lend("as " + name), Address: Address{lend("at " + name), lend("on " + name)},
			},
			Findings: []Finding{
				{Key: Key{Rule: rules.ExcessAccess, Node: lend(name), Verb: lend("get"), Name: lend("one " + name)}, AuditID: lend("id " + name)},
				{Key: Key{Rule: rules.ExcessAccess, Node: lend(name), Verb: lend("list"), Name: lend("two " + name)}, AuditID: lend("id " + name)},
			},
		}
		sum.Add(&e)
	}
	tell := func() string {
		var b strings.Builder
		for _, k := range slices.SortedFunc(maps.Keys(sum.Groups), func(a, b Key) int { return strings.Compare(a.Verb+a.Name, b.Verb+b.Name) }) {
			fmt.Fprintf(&b, "%+v %+v %+v\n", k, sum.Groups[k].Origins, sum.Groups[k].AuditIDs)
		}
		return b.String() + fmt.Sprint(slices.Sorted(maps.Keys(sum.Nodes)))
	}
	before := tell()
	for _, b := range lent {
		for i := range b {
			b[i] = '!'
		}
	}
	if len(sum.Groups) != 4 {
		t.Errorf("there are %d groups, want 4", len(sum.Groups))
	}
	if diff := cmp.Diff(before, tell()); diff != "" {
		t.Errorf("what was added is kept (-before +after it was overwritten):\n%.2000s", diff)
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
