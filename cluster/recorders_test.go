package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// podEvent is a change of a pod in the world.
type podEvent struct {
	at   time.Time
	key  string
	json string // "" for the deletion
}

// podEvents are all changes of pods that the world has seen.
func (w *etcdWorld) podEvents() (all []podEvent) {
	for _, r := range w.revs {
		if !strings.HasPrefix(r.key, "/registry/pods/") {
			continue
		}
		e := podEvent{at: r.at, key: r.key}
		if !r.deleted {
			var u runtime.Unknown
			var p corev1.Pod
			if err := u.Unmarshal(r.value[4:]); err != nil {
				w.t.Fatal(err)
			}
			if err := p.Unmarshal(u.Raw); err != nil {
				w.t.Fatal(err)
			}
			p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			b, err := json.Marshal(&p)
			if err != nil {
				w.t.Fatal(err)
			}
			e.json = string(b)
		}
		all = append(all, e)
	}
	return all
}

// podsAt are the pods that there are.
func podsAt(all []podEvent, at time.Time) map[string]string {
	there := map[string]string{}
	for _, e := range all {
		if e.at.After(at) {
			break
		}
		if there[e.key] = e.json; e.json == "" {
			delete(there, e.key)
		}
	}
	return there
}

// recorder is what records from one instant to another. Its clock is ahead by so much, and its list comes so late.
type recorder struct {
	from, to    time.Time
	marked      bool // it says where its list begins
	killed      bool // it says nothing at its end
	ahead, late time.Duration
}

// recorded is what a recorder writes, as [Record] does: a list with its end, changes, and signs of life.
func (r *recorder) recorded(all []podEvent) string {
	from, to := r.from, r.to
	var b strings.Builder
	write := func(at time.Time, verb, object string) {
		at = at.Add(r.ahead)
		fmt.Fprintf(&b, `{"observedAt":%q,"type":%q,"object":%s}`+"\n", at.Format(time.RFC3339Nano), verb, object)
	}
	mark := func(more string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"` + more + `}}`
	}
	there := podsAt(all, from)
	at := from.Add(r.late)
	if r.marked {
		write(at, "BOOKMARK", strings.Replace(mark(""), `"7"`, `""`, 1))
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		at = at.Add(time.Millisecond)
		write(at, "ADDED", there[key])
	}
	write(at.Add(time.Millisecond), "BOOKMARK", mark(`,"annotations":{"k8s.io/initial-events-end":"true"}`))
	next := at.Add(20 * time.Second)
	for _, e := range all {
		if !e.at.After(from) || e.at.After(to) {
			continue
		}
		for ; next.Before(e.at); next = next.Add(20 * time.Second) {
			write(next, "BOOKMARK", mark(""))
		}
		seen := later(e.at, at.Add(2*time.Millisecond)) // the list comes first
		was, known := there[e.key]
		switch {
		case e.json == "":
			write(seen, "DELETED", was)
			delete(there, e.key)
			continue
		case known:
			write(seen, "MODIFIED", e.json)
		default:
			write(seen, "ADDED", e.json)
		}
		there[e.key] = e.json
	}
	if !r.killed {
		write(later(to, at.Add(2*time.Millisecond)), "BOOKMARK", mark(""))
	}
	return b.String()
}

// Whoever recorded a cluster, one after the other or at once, into one journal or several, with breaks and with lists of kubectl in them: a verdict is the true one, or
// a race, or unknown. Nothing is unknown that a recorder saw.
//
// Seen to fail where the time between two of them counts as watched, and where a further list in a journal only adds.
func TestRecordersNeverWrong(t *testing.T) {
	const skew = time.Second
	asked, races, far, unknown := 0, 0, 0, 0
	for seed := range effort.Of(uint64(300), 20) {
		w := newEtcdWorld(t, seed)
		start := w.now
		w.run(time.Duration(60+w.r.IntN(600))*time.Second, false)
		all := w.podEvents()
		length := w.now.Sub(start)
		type watch struct{ from, to time.Time }
		var seen []watch
		var files []string
		said := true // each list in a journal says where it begins
		at := start
		for at.Before(w.now) {
			from, to := at, at.Add(time.Duration(1+w.r.Int64N(int64(length)/2)))
			if to.After(w.now) {
				to = w.now
			}
			rec := recorder{from: from, to: to, killed: w.r.IntN(2) == 0, marked: w.r.IntN(4) > 0}
			if w.r.IntN(2) == 0 {
				rec.ahead, rec.late = time.Duration(w.r.IntN(300)-150)*time.Millisecond, time.Duration(w.r.IntN(400))*time.Millisecond
			}
			text, marked := rec.recorded(all), rec.marked
			until := to
			if rec.killed {
				last := text[strings.LastIndex(text[:len(text)-1], "\n")+1:]
				until, _ = time.Parse(time.RFC3339Nano, last[len(`{"observedAt":"`):strings.Index(last, `","type"`)])
			}
			seen = append(seen, watch{from, until})
			overlaps := at.After(to)
			switch n := len(files); {
			case n > 0 && !overlaps && seen[len(seen)-2].to.Before(from) && w.r.IntN(2) == 0:
				files[n-1] += text
				said = said && marked
			default:
				files = append(files, text)
			}
			switch w.r.IntN(3) {
			case 0: // a break
				at = to.Add(time.Duration(w.r.ExpFloat64() * float64(30*time.Second)))
			case 1: // at once
				at = to.Add(time.Millisecond)
			case 2: // the next has begun before
				at = from.Add(time.Duration(w.r.Int64N(int64(to.Sub(from)) + 1))).Add(time.Second)
			}
		}
		first, last := seen[0].from, seen[0].to
		for _, x := range seen {
			last = later(last, x.to)
		}
		s := load(t, files...)
		a := nodeauthz.NewAuthorizer(s.Graph, features(t), skew)
		known := s.PodsSeen(first, last)
		for range 600 {
			at := first.Add(time.Duration(w.r.Int64N(int64(last.Sub(first)) + 1)))
			node, secret := fmt.Sprint("w", w.r.IntN(worldNodes)), fmt.Sprint("s", w.r.IntN(worldSecrets))
			got := a.Decide(getSecret(node, secret), at)
			allowed, near := w.may(node, secret, at)
			watched := slices.ContainsFunc(seen, func(x watch) bool {
				return at.Sub(x.from) > skew+time.Second && x.to.Sub(at) > skew+time.Second
			})
			asked++
			is := slices.ContainsFunc(known, func(x Interval) bool { return !at.Before(x.From) && !at.After(x.To) })
			if said && (watched && !is || is && !slices.ContainsFunc(seen, func(x watch) bool { return !at.Before(x.from.Add(-skew)) && !at.After(x.to.Add(skew)) })) {
				t.Errorf("seed %d: that pods are known at %s is %t", seed, at.Sub(start), is)
			}
			switch {
			case got.Verdict == nodeauthz.Unknown:
				if unknown++; watched && said {
					t.Errorf("seed %d: %s of %s at %s is unknown, and a recorder saw it", seed, secret, node, at.Sub(start))
				}
			case got.Race:
				if races++; watched && said && near > 2*skew+time.Second {
					far++
				}
			case (got.Verdict == nodeauthz.Allow) != allowed:
				t.Errorf("seed %d: %s of %s at %s: %s, but allowed is %t, with the next change %s away", seed, secret, node, at.Sub(start), got.Verdict, allowed, near)
			}
		}
	}
	if unknown+races > asked/2 {
		t.Errorf("of %d verdicts %d are races and %d unknown: the test sees too little", asked, races, unknown)
	}
	if far > asked/1000 { // an object that was made last before a recorder was killed may have been of its list
		t.Errorf("of %d verdicts %d are races far from any change", asked, far)
	}
	t.Logf("%d asked, %d races, %d of them far from a change, %d unknown", asked, races, far, unknown)
}
