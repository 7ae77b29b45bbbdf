package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A journal that has bookmarks of a kind, and then for long neither one nor a change, does not say what happened meanwhile.
func TestSilenceIsAHole(t *testing.T) {
	const marks = `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`
	node := func(when string) string {
		return event(t, when, "ADDED", fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","creationTimestamp":%q}}`, at(t, "0s").Format(time.RFC3339)))
	}
	mark := func(when string) string { return event(t, when, "BOOKMARK", marks) }
	since := func(when, last string) string {
		return strings.Replace(mark(when), `"type"`, fmt.Sprintf(`"notBefore":%q,"type"`, at(t, last).Format(time.RFC3339Nano)), 1)
	}
	listed := event(t, "1s", "BOOKMARK", strings.Replace(marks, `{"resource`, `{"annotations":{"k8s.io/initial-events-end":"true"},"resource`, 1))
	pods := func(when string) string { return strings.Replace(mark(when), `"Node"`, `"Pod"`, 1) }
	lease := event(t, "60m", "ADDED", lease(t, "apiserver-a", "a", "a_1", "2s"))
	for name, c := range map[string]struct {
		journal string
		want    time.Duration
	}{
		"bookmarks all the time":       {node("0s") + mark("9m") + mark("18m") + mark("27m"), 0},
		"a silence":                    {node("0s") + mark("5m") + mark("25m") + mark("30m"), 20 * time.Minute},
		"a silence before bookmarks":   {node("0s") + mark("25m") + mark("30m"), 25 * time.Minute},
		"a silence to the end":         {node("0s") + mark("5m") + lease, 55 * time.Minute},
		"what was missed came later":   {node("0s") + mark("5m") + since("25m", "5m") + mark("30m"), 0},
		"some of what was missed came": {node("0s") + mark("5m") + since("25m", "20m") + mark("30m"), 15 * time.Minute},
		"no bookmarks":                 {node("0s") + lease, 0},
		"a list and no bookmarks":      {node("0s") + listed + lease, 0},
		"listed and not watched":       {node("0s") + listed + pods("30m") + pods("60m"), 60*time.Minute - time.Second},
	} {
		if got := load(t, c.journal).Nodes.Unseen(at(t, "0s"), at(t, "60m")); got != c.want {
			t.Errorf("%s: unseen for %s, want %s", name, got, c.want)
		}
	}
}

// What one recorder lists and does not watch another one may watch.
func TestSilenceOfOneOfTwo(t *testing.T) {
	node := func(when, verb string) string {
		return event(t, when, verb, fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","resourceVersion":"7","creationTimestamp":%q}}`, at(t, "0s").Format(time.RFC3339)))
	}
	mark := func(when, kind string) string {
		return event(t, when, "BOOKMARK", fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"7"}}`, kind))
	}
	var pods, nodes strings.Builder
	for i := range 12 {
		when := fmt.Sprintf("%dm", 5*i)
		pods.WriteString(mark(when, "Pod"))
		nodes.WriteString(mark(when, "Node"))
	}
	listed := node("0s", "ADDED") + pods.String()
	if got := load(t, listed).Nodes.Unseen(at(t, "0s"), at(t, "55m")); got != 55*time.Minute {
		t.Errorf("one recorder: unseen for %s", got)
	}
	if got := load(t, listed, node("0s", "ADDED")+nodes.String()).Nodes.Unseen(at(t, "0s"), at(t, "55m")); got != 0 {
		t.Errorf("with another one: unseen for %s", got)
	}
}
