package rules

import (
	"fmt"
	"testing"
	"time"
)

// Five objects within ten minutes are a search, and so are ten within a day; fewer are none. What was let through once was let through, whatever is refused
// later, and what is older than a day does not count.
func TestEnumerationBounds(t *testing.T) {
	const day = 24 * hour
	type ask struct {
		at, object int
		allowed    bool
	}
	each := func(n, every int) (out []ask) {
		for i := range n {
			out = append(out, ask{i * every, i, false})
		}
		return out
	}
	for name, c := range map[string]struct {
		asks    []ask
		reason  Reason // of the last one
		objects int64
		allowed bool
	}{
		"four within ten minutes":       {asks: each(4, 150)},
		"five within ten minutes":       {each(5, 150), ManyWithinMinutes, 5, false},
		"five in more":                  {asks: each(5, 151)},
		"nine within a day":             {asks: each(9, 2*hour)},
		"ten within a day":              {each(10, 2*hour), ManyWithinDay, 10, false},
		"ten in exactly a day":          {append(each(9, 2*hour), ask{day, 9, false}), ManyWithinDay, 10, false},
		"ten in more":                   {asks: append(each(9, 2*hour), ask{day + 1, 9, false})},
		"the same again":                {asks: append(each(4, 10), ask{50, 3, false})},
		"one was let through":           {append(each(4, 10), ask{50, 4, true}), ManyWithinMinutes, 5, true},
		"let through, and refused":      {append([]ask{{0, 0, true}, {1, 0, false}}, each(5, 10)...), ManyWithinMinutes, 5, true},
		"refused, and then let through": {append(each(5, 10), ask{50, 0, true}), ManyWithinMinutes, 5, true},
	} {
		e := &enumeration{rule: &Rule{Name: "secret-enumeration", Severity: Critical}}
		n := &enumerationNode{}
		last := time.Time{}
		for i, a := range c.asks {
			last = at(a.at)
			n.reach(&denial{
				ID: uint64(a.object + 1), First: last, Last: last, Allowed: a.allowed, AuditID: fmt.Sprint(i),
				Object: &deniedObject{Verb: "get", Resource: "secrets", Namespace: "shop", Name: fmt.Sprint(a.object)},
			}, 1)
		}
		f := e.detect("worker-1", n, last)
		if (f != nil) != (c.reason != "") || f != nil && (f.Reason != c.reason || f.Count != c.objects || f.Allowed != c.allowed) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
