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

// What is searched for. Of pods, volumes and claims only what surely nobody may have counts: refused to a kubelet, by its name, and by the state, too.
func TestWhatIsSearchedFor(t *testing.T) {
	const none = -1
	object := func(verb, group, resource, subresource, name string) func(*denial) {
		return func(d *denial) {
			d.Object = &deniedObject{Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Namespace: "shop", Name: name}
		}
	}
	for name, c := range map[string]struct {
		change func(*denial)
		kind   int
	}{
		"a pod":                          {func(*denial) {}, ofObjects},
		"a volume":                       {object("get", "", "persistentvolumes", "", "x"), ofObjects},
		"a claim":                        {object("get", "", "persistentvolumeclaims", "", "x"), ofObjects},
		"a volume attachment":            {object("get", "storage.k8s.io", "volumeattachments", "", "x"), ofObjects},
		"one of another group":           {object("get", "", "volumeattachments", "", "x"), none},
		"a pod of another group":         {object("get", "example.com", "pods", "", "x"), none},
		"a part of a pod":                {object("get", "", "pods", "log", "x"), none},
		"a watch of a pod":               {object("watch", "", "pods", "", "x"), none},
		"no name":                        {object("get", "", "pods", "", ""), none},
		"a Node":                         {object("get", "", "nodes", "", "x"), none},
		"let through":                    {func(d *denial) { d.Allowed = true }, none},
		"not known by the state":         {func(d *denial) { d.Known = false }, none},
		"allowed by the state":           {func(d *denial) { d.Lagged = 1 }, none},
		"many objects":                   {func(d *denial) { d.Wide = true }, none},
		"another client":                 {func(d *denial) { d.Product = "curl" }, none},
		"a secret":                       {object("get", "", "secrets", "", "x"), ofSecrets},
		"a secret, by another client":    {func(d *denial) { object("get", "", "secrets", "", "x")(d); d.Product, d.Known = "curl", false }, ofSecrets},
		"a secret, allowed by the state": {func(d *denial) { object("get", "", "secrets", "", "x")(d); d.Lagged = 1 }, none},
	} {
		d := denial{Known: true, Product: "kubelet", Count: 1}
		object("get", "", "pods", "", "x")(&d)
		c.change(&d)
		kind, weight := d.search(nil)
		if weight == 0 {
			kind = none
		}
		if kind != c.kind {
			t.Errorf("%s: is part of search %d, want %d", name, kind, c.kind)
		}
	}
	// Where the state does not show the pods of the ten minutes before, the node may have had the pod.
	for _, resource := range []string{"pods", "persistentvolumeclaims"} {
		d := denial{Node: "worker-1", First: at(hour)}
		object("get", "", resource, "", "x")(&d)
		for name, c := range map[string]struct {
			s   State
			had bool
		}{
			"no state":                         {nil, true},
			"pods since afterwards":            {since{cluster(1), at(hour + 1)}, true},
			"pods since nine minutes before":   {since{cluster(1), at(hour - 9*minute)}, true},
			"pods since a long time before":    {since{cluster(1), at(0)}, false},
			"pods since ten minutes before it": {since{cluster(1), at(hour - 10*minute)}, false},
		} {
			if got := d.had(c.s); got != c.had {
				t.Errorf("%s, %s: %t, want %t", resource, name, got, c.had)
			}
		}
	}
}

// However much is refused, what was let through stays, as an object and as an example.
func TestPassedIsKept(t *testing.T) {
	n := &enumerationNode{}
	for i := range 3 * enumerationObjects {
		when := at(i)
		n.reach(&denial{
			ID: uint64(i + 1), First: when, Last: when, Allowed: i < 3, AuditID: fmt.Sprint(i), Object: &deniedObject{Verb: "get", Resource: "secrets", Name: fmt.Sprint(i)},
		}, 1)
	}
	for i := range 3 {
		if !n.knows(uint64(i+1)) || n.Examples[i].AuditID != fmt.Sprint(i) {
			t.Errorf("object %d was let through, and is forgotten: %+v", i, n.Examples)
		}
	}
	if last := 3 * enumerationObjects; !n.knows(uint64(last)) || n.Examples[maxReachedExamples-1].AuditID != fmt.Sprint(last-1) {
		t.Errorf("the last one is forgotten: %+v", n.Examples)
	}
}
