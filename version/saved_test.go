package version_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/version"
)

// observation is something that is done to an accumulator, and what it returns.
type observation func(a *version.Accumulator) any

// observations are random ones of some hours. The answers of a request do not depend on the accumulator.
func observations(r *rand.Rand, list []nodeauthz.Features, n int) (out []observation) {
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	resources := []string{"pods", "nodes", "secrets", "leases", strings.Repeat("x", 600)}
	releases := []string{"1.33.3", "1.33.4", "1.34.0", "1.99.1"}[r.IntN(3):]
	users := map[string]string{"kube-apiserver": "system:apiserver", "kube-scheduler": "system:kube-scheduler", "kube-controller-manager": "system:kube-controller-manager"}
	odd := 1 + r.IntN(40)
	for i := range n {
		at := start.Add(time.Duration(r.Int64N(int64(5 * time.Hour))))
		if r.IntN(4) > 0 { // most come in about their order
			at = start.Add(time.Duration(i) * 5 * time.Hour / time.Duration(n))
		}
		switch r.IntN(24) {
		case 0:
			program := []string{"kube-apiserver", "kube-apiserver", "kube-scheduler", "kube-controller-manager"}[r.IntN(4)]
			agent := program + "/v" + releases[r.IntN(len(releases))] + " (linux/amd64) kubernetes/1"
			out = append(out, func(a *version.Accumulator) any { a.Agent(at, agent, users[program]); return nil })
			continue
		case 1:
			if r.IntN(4) == 0 {
				out = append(out, func(a *version.Accumulator) any { a.Started(at); return nil })
			}
			continue
		case 3:
			if i < n/4 && r.IntN(8) == 0 { // a first look at the requests
				out = append(out, func(a *version.Accumulator) any { a.Again(); return nil })
			}
			continue
		case 2:
			out = append(out, func(a *version.Accumulator) any { return a.InForce(at) })
			continue
		}
		q := version.Request{
			AuditID: fmt.Sprint(strings.Repeat("long", r.IntN(2)*40), i), Time: at, Shape: version.Shape{Verb: "get", Resource: resources[r.IntN(len(resources))]}, Implied: nodeauthz.Allow,
		}
		switch r.IntN(8) {
		case 0:
			q.Implied = nodeauthz.NotNode
		case 1, 2:
			q.Implied = nodeauthz.Deny
			if r.IntN(2) == 0 {
				q.Forbidden, q.Reason = true, "no relationship found between node 'a' and this object"
			}
		}
		answers, static, of := make([]nodeauthz.Answer, len(list)), r.IntN(2) == 0, r.IntN(3)
		for h := range list {
			answers[h] = nodeauthz.Answer{Verdict: q.Implied, Static: static, Reason: q.Reason}
			if r.IntN(odd) == 0 && r.IntN(4) == 0 || of == 0 && r.IntN(odd+3) == 0 || i%odd == 1 && list[h].AuthorizeNodeWithSelectors == (of == 1) {
				answers[h].Verdict = nodeauthz.Allow + nodeauthz.Deny - q.Implied
			}
		}
		ask := func(h int) nodeauthz.Answer { return answers[h] }
		doubt, alone := r.IntN(6) == 0, r.IntN(12) == 0
		out = append(out, func(a *version.Accumulator) any {
			force := a.InForce(q.Time)
			if e := a.Expect(&q); !alone && force.N == 1 && q.Fits(answers[force.Members[0]]) && a.Confirm(&e) {
				return force
			}
			if !alone {
				a.Observe(&q, ask)
			}
			if doubt {
				if h, is := a.Doubts(&q, ask); is {
					return [2]any{force, h}
				}
			}
			return force
		})
	}
	return out
}

// What an accumulator says does not depend on whether its hours were saved and put back in between.
func TestSavedHoursSayTheSame(t *testing.T) {
	list := version.Hypotheses()
	for seed := range uint64(effort.Of(150, 30)) {
		r := rand.New(rand.NewPCG(seed, 11))
		fresh := func() *version.Accumulator {
			a := version.NewAccumulator(list)
			switch seed % 5 {
			case 0:
				a.Given(list[3], 0)
			case 1:
				a.Asked(34)
			case 2:
				a.Prior(2)
			}
			return a
		}
		whole, split, store := fresh(), fresh(), map[int64][]byte{}
		for i, observe := range observations(r, list, 50+r.IntN(500)) {
			if r.IntN(20) == 0 {
				for _, s := range split.Changed() {
					store[s.Hour] = s.Value
				}
				if again := split.Changed(); len(again) > 0 {
					t.Fatalf("seed %d: %d hours changed by being saved", seed, len(again))
				}
				if r.IntN(3) == 0 {
					split = fresh()
					for k, value := range store {
						if !split.Restore(k, value) {
							t.Fatalf("seed %d: hour %d is not restored: %s", seed, k, value)
						}
					}
					for k, value := range store { // all that was saved is there
						if split.Unsaved(k); !bytes.Equal(split.Changed()[0].Value, value) {
							t.Fatalf("seed %d: hour %d is another once it is restored, which was %s", seed, k, value)
						}
					}
				}
			}
			if diff := cmp.Diff(observe(whole), observe(split)); diff != "" {
				t.Fatalf("seed %d, observation %d (-whole +split):\n%s", seed, i, diff)
			}
		}
		if diff := cmp.Diff(whole.Conclusions(), split.Conclusions()); diff != "" {
			t.Fatalf("seed %d (-whole +split):\n%s", seed, diff)
		}
		if diff := cmp.Diff(whole.Conclusions(), whole.Conclusions()); diff != "" {
			t.Fatalf("seed %d, asked again:\n%s", seed, diff)
		}
	}
}

// Hours of other hypotheses, or under another version that is given, are not put back, nor what is damaged.
func TestDamagedHours(t *testing.T) {
	list := version.Hypotheses()
	r := rand.New(rand.NewPCG(1, 12))
	a := version.NewAccumulator(list)
	for _, observe := range observations(r, list, 1000) {
		observe(a)
	}
	all := a.Changed()
	given := version.NewAccumulator(list)
	given.Given(list[1], 0)
	fewer := version.NewAccumulator(list[:len(list)-1])
	for _, s := range all {
		if given.Restore(s.Hour, s.Value) || fewer.Restore(s.Hour, s.Value) {
			t.Errorf("hour %d of other hypotheses is restored", s.Hour)
		}
	}
	for name, change := range map[string]func(h map[string]any){
		"prior":          func(h map[string]any) { h["p"] = len(list) },
		"negative prior": func(h map[string]any) { h["p"] = -1 },
		"count":          func(h map[string]any) { h["r"] = -4 },
		"a set":          func(h map[string]any) { h["m"].([]any)[0].(map[string]any)["h"] = []any{0, uint64(1) << 63} },
		"no example":     func(h map[string]any) { h["m"].([]any)[0].(map[string]any)["i"] = nil },
		"minutes":        func(h map[string]any) { h["m"].([]any)[0].(map[string]any)["m"] = uint64(1) << 60 },
		"doubted":        func(h map[string]any) { h["d"] = []any{map[string]any{"h": 128, "r": 1, "i": []string{"a"}}} },
		"many doubts":    func(h map[string]any) { h["d"] = []any{map[string]any{"h": 1, "r": 1, "i": make([]string, 6)}} },
		"a program": func(h map[string]any) {
			h["a"] = []any{map[string]any{"p": "curl", "v": "v1.2.3", "n": 2, "r": 1, "m": 1}}
		},
		"twice the same": func(h map[string]any) { q := h["q"].([]any); h["q"] = append(q, q[0]) },
		"ever new requests": func(h map[string]any) {
			h["q"].([]any)[0].(map[string]any)["s"] = []string{strings.Repeat("v", 513), "", "", ""}
		},
	} {
		h := map[string]any{}
		if err := json.Unmarshal(all[0].Value, &h); err != nil {
			t.Fatal(err)
		}
		change(h)
		value, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if version.NewAccumulator(list).Restore(all[0].Hour, value) {
			t.Errorf("%s: restored from %s", name, value)
		}
	}
	// Whatever is restored can be worked with.
	for range effort.Of(3000, 500) {
		value := bytes.Clone(all[r.IntN(len(all))].Value)
		for range 1 + r.IntN(3) {
			value[r.IntN(len(value))] = `0123456789-,[]{}":prm`[r.IntN(21)]
		}
		work(t, list, value)
	}
}

func work(t *testing.T, list []nodeauthz.Features, value []byte) {
	a := version.NewAccumulator(list)
	if !a.Restore(494_000, value) {
		return
	}
	at := time.Unix(494_000*3600, 0)
	a.InForce(at)
	r := version.Request{AuditID: "a", Time: at.Add(time.Minute), Implied: nodeauthz.Allow}
	answer := func(h int) nodeauthz.Answer {
		return nodeauthz.Answer{Verdict: nodeauthz.Allow + nodeauthz.Verdict(h%2), Static: true}
	}
	a.Observe(&r, answer)
	a.Doubts(&r, answer)
	for _, c := range a.Conclusions() {
		if _, err := json.Marshal(c); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	saved := a.Changed()
	if len(saved) == 0 || len(saved[0].Value) > 1<<20 {
		t.Errorf("%s: saved as %d hours", value, len(saved))
	}
	a.Forget(at.Add(2 * time.Hour))
}

// FuzzRestore has hours restored from anything.
func FuzzRestore(f *testing.F) {
	list := version.Hypotheses()
	a := version.NewAccumulator(list)
	for _, observe := range observations(rand.New(rand.NewPCG(1, 13)), list, 200) {
		observe(a)
	}
	for _, s := range a.Changed() {
		f.Add(s.Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) { work(t, list, value) })
}

// A service forgets old hours, so that there is room for new ones. What was in force in the last of them is so after it.
func TestForgottenHours(t *testing.T) {
	list := version.Hypotheses()
	a := version.NewAccumulator(list)
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	older := func(h int) nodeauthz.Answer {
		if list[h].Minor == 33 {
			return nodeauthz.Answer{Verdict: nodeauthz.Allow, Static: true}
		}
		return nodeauthz.Answer{Verdict: nodeauthz.Deny, Static: true}
	}
	observe := func(at time.Time) {
		a.Observe(&version.Request{AuditID: "a", Time: at, Implied: nodeauthz.Allow}, older)
	}
	for h := range 24 * 32 {
		observe(start.Add(time.Duration(h) * time.Hour))
	}
	end := start.Add(24 * 32 * time.Hour)
	if observe(end); len(a.Conclusions()) != 24*32 {
		t.Fatalf("%d hours", len(a.Conclusions()))
	}
	if said := a.Forget(start.Add(2*time.Hour + time.Minute)); len(said) != 2 || !said[1].Hour.Equal(start.Add(time.Hour)) || said[1].Requests != 1 {
		t.Errorf("forgets %+v", said)
	}
	if observe(end); len(a.Conclusions()) != 24*32-1 {
		t.Errorf("%d hours are left", len(a.Conclusions()))
	}
	if said := a.Forget(end.Add(time.Hour)); len(said) != 24*32-1 || len(a.Conclusions()) != 0 {
		t.Errorf("forgets %d, leaves %d", len(said), len(a.Conclusions()))
	}
	if force := a.InForce(start); list[force.Members[0]].Minor != 33 {
		t.Errorf("in force is %s", version.Name(list[force.Members[0]]))
	}
	if said := a.Forget(start); len(said) != 0 {
		t.Errorf("forgets %d again", len(said))
	}
}

// What the API server reports when it is asked after an upgrade is no matter of the hours before it.
func TestAskedAnewAfterARestart(t *testing.T) {
	list := version.Hypotheses()
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	observe := func(a *version.Accumulator, hour int) {
		a.Observe(&version.Request{AuditID: "a", Time: start.Add(time.Duration(hour) * time.Hour), Implied: nodeauthz.Allow}, func(int) nodeauthz.Answer {
			return nodeauthz.Answer{Verdict: nodeauthz.Allow}
		})
	}
	before, after := version.NewAccumulator(list), version.NewAccumulator(list)
	before.Asked(33)
	observe(before, 0)
	observe(before, 1)
	after.Asked(34)
	for _, s := range before.Changed() {
		if !after.Restore(s.Hour, s.Value) {
			t.Fatalf("hour %d is not restored", s.Hour)
		}
	}
	observe(after, 1)
	observe(after, 2)
	var got []int
	for _, c := range after.Conclusions() {
		if c.Basis != version.Asked {
			t.Errorf("%s by %s", c.Hour, c.Basis)
		}
		got = append(got, c.Features.Minor)
	}
	if diff := cmp.Diff([]int{33, 34, 34}, got); diff != "" {
		t.Errorf("minors (-want +got):\n%s", diff)
	}
}

// Whatever an hour takes in is saved with it.
func TestEachChangeIsSaved(t *testing.T) {
	list := version.Hypotheses()
	at := time.Date(2026, 11, 21, 6, 30, 0, 0, time.UTC)
	static := func(int) nodeauthz.Answer { return nodeauthz.Answer{Verdict: nodeauthz.Allow, Static: true} }
	request := func(v nodeauthz.Verdict) *version.Request {
		return &version.Request{AuditID: "a", Time: at, Shape: version.Shape{Verb: "get", Resource: "pods"}, Implied: v}
	}
	for name, change := range map[string]func(a *version.Accumulator) bool{
		"an agent": func(a *version.Accumulator) bool {
			a.Agent(at, "kube-apiserver/v1.36.3", "system:apiserver")
			return true
		},
		"a start": func(a *version.Accumulator) bool { a.Started(at); return true },
		"nothing": func(a *version.Accumulator) bool { a.InForce(at); return false },
		"a request that tells nothing": func(a *version.Accumulator) bool {
			a.Observe(request(nodeauthz.NotNode), static)
			return true
		},
		"a request": func(a *version.Accumulator) bool { a.Observe(request(nodeauthz.Deny), static); return true },
		"what was expected": func(a *version.Accumulator) bool {
			e := a.Expect(request(nodeauthz.Allow))
			return a.Confirm(&e)
		},
		"a doubt": func(a *version.Accumulator) bool {
			h, is := a.Doubts(request(nodeauthz.Allow), func(h int) nodeauthz.Answer {
				if list[h].Minor == list[0].Minor {
					return nodeauthz.Answer{Verdict: nodeauthz.Deny, Static: true}
				}
				return static(h)
			})
			return is && h > 0
		},
		"a first look": func(a *version.Accumulator) bool { a.Again(); return true },
	} {
		a := version.NewAccumulator(list)
		for range 4 {
			a.Observe(request(nodeauthz.Allow), static)
		}
		before := a.Changed()[0]
		said := a.Conclusions()
		if changed, now := change(a), a.Changed(); changed == (name == "nothing") || len(now) > 0 != changed || changed && bytes.Equal(now[0].Value, before.Value) {
			t.Errorf("%s changes it %t: %d hours are to be saved", name, changed, len(now))
		}
		b := version.NewAccumulator(list)
		a.Unsaved(before.Hour)
		if s := a.Changed()[0]; !b.Restore(s.Hour, s.Value) || !cmp.Equal(a.Conclusions(), b.Conclusions()) {
			t.Errorf("%s: %s", name, cmp.Diff(a.Conclusions(), b.Conclusions()))
		} else if name != "nothing" && name != "a start" && cmp.Equal(said, a.Conclusions()) {
			t.Errorf("%s changes no conclusion", name)
		}
	}
}
