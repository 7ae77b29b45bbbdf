package checks

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// Of nodes alone the log has all that other checks ask for. Who brings their pods shows whether it has the requests of others.
func TestOthersAreLogged(t *testing.T) {
	const pod, binding = "pod", "binding"
	lacks := func(what ...string) func(*Input) {
		return without(func(t *tick) bool {
			for _, w := range what {
				if t.brings() == w {
					return true
				}
			}
			return false
		})
	}
	come := func(times ...time.Time) func(*Input) {
		return func(in *Input) {
			in.Pods = nil
			for _, at := range times {
				in.Pods = append(in.Pods, PodLife{Node: "worker-1", At: at})
			}
		}
	}
	brought := func(username, sub string, times ...time.Time) func(*Input) {
		return func(in *Input) {
			for _, at := range times {
				e := brings(username, sub, at)
				in.Ledger.Observe(&e.ev, e.o)
			}
		}
	}
	by := func(change func(*tick)) func(*Input) {
		return without(func(t *tick) bool {
			if t.brings() != "" {
				change(t)
			}
			return false
		})
	}
	omits := func(all ...evidence.Coming) func(*Input) { return func(in *Input) { in.Policy.OmitsOfOthers = all } }
	apart := []time.Time{at(13, 30, 0), at(14, 20, 0), at(15, 0, 0)}
	const controller, scheduler = "system:kube-controller-manager", "system:kube-scheduler"
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   Code
	}{
		{"all is there", func(*Input) {}, ""},
		{"nobody but nodes", lacks(pod, binding), CodeOthersUnheard},
		{"nobody made pods", lacks(pod), CodeOthersMissing},
		{"nobody bound pods: they were made for their nodes", lacks(binding), ""},
		{"who made them may act as somebody", by(func(t *tick) { t.ev.IsImpersonated, t.ev.Impersonated.Username = true, "jane" }), ""},
		{"nodes made them", by(func(t *tick) { t.ev.User.Username = "system:node:worker-7" }), CodeOthersUnheard},
		{"members of their group made them", by(func(t *tick) { t.ev.User.Groups = []string{"system:nodes"} }), CodeOthersUnheard},
		{"an API server made them", by(func(t *tick) { t.ev.User.Username = "system:apiserver" }), CodeOthersUnheard},
		{"all was refused", by(func(t *tick) { t.ev.Code = 403 }), CodeOthersUnheard},
		{"the policy does not log who makes pods", all(lacks(pod, binding), omits(evidence.ComingMade)), ""},
		{"nor who binds them", all(lacks(pod, binding), omits(evidence.ComingBound)), CodeOthersUnheard},
		{"one pod that nobody brought", all(lacks(pod, binding), come(at(13, 30, 0))), CodeOthersUnheard},
		{"one pod that was bound and that nobody made", all(lacks(pod, binding), come(at(14, 30, 0)), brought(scheduler, binding, at(14, 30, 0))), CodeOthersMissing},
		{"it waited for long, and others were made", all(lacks(pod, binding), come(at(14, 30, 0)), brought(controller, "", at(12, 40, 0)), brought(scheduler, binding, at(14, 30, 0))), ""},
		{"the policy does not log who binds those that wait", all(lacks(pod, binding), come(apart...), brought(controller, "", at(13, 5, 0), at(14, 0, 0), at(14, 40, 0)), omits(evidence.ComingBound)), ""},
		{"no pod", all(lacks(pod, binding), come()), ""},
		{"pods of before", all(lacks(pod, binding), come(at(12, 10, 0), at(12, 20, 0), at(12, 29, 0))), ""},
		{"pods at the log's end", all(lacks(pod, binding), come(at(15, 11, 0), at(15, 15, 0), at(15, 19, 0))), ""},
		{"one pod of many was not bound", all(come(at(13, 2, 0), at(13, 2, 1), at(13, 2, 2), at(14, 30, 0))), ""},
		{"three of many, in three hours", all(come(append(apart, at(13, 2, 0), at(13, 2, 1))...)), CodeOthersMissing},
		{"three of an hour", all(come(at(13, 2, 0), at(14, 30, 0), at(14, 31, 0), at(14, 32, 0))), CodeOthersMissing},
		{"they waited for a node for long, and were bound", all(come(apart...), brought(scheduler, binding, apart...)), ""},
		{"all of them, and nobody made any", all(lacks(pod, binding), come(apart...), brought(scheduler, binding, apart...)), CodeOthersMissing},
		{"all of an hour", all(come(at(13, 2, 0), at(15, 5, 0), at(15, 6, 0), at(15, 7, 0)), brought(scheduler, binding, at(15, 6, 0))), CodeOthersMissing},
		{"they waited for half an hour", all(lacks(pod, binding), come(at(14, 35, 0)), brought(controller, "", at(14, 5, 0)), brought(scheduler, binding, at(14, 35, 0))), ""},
		{"the state is five minutes late", all(lacks(pod, binding), come(at(14, 35, 0)), brought(controller, "", at(14, 30, 0))), ""},
		{"and five early", all(lacks(pod, binding), come(at(14, 35, 0)), brought(controller, "", at(14, 40, 0))), ""},
		{"no log", func(in *Input) { in.Ledger = nil }, ""},
		{"the log has nothing of then", without(func(t *tick) bool { return t.time().Hour() == 13 && t.time().Minute() < 20 }), ""},
	} {
		in := clean()
		c.change(in)
		r := resultOf(in, "policy-known")
		missing, unheard := codes(&r, Unproven)[CodeOthersMissing], codes(&r, Passed)[CodeOthersUnheard]
		if missing != (c.want == CodeOthersMissing) || unheard != (c.want == CodeOthersUnheard) {
			t.Errorf("%s: %s %+v", c.name, r.State, r.Evidence)
		}
	}
}
