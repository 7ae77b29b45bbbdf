package checks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/evidence"
)

// left leaves out a kind of request of a node, or of all of them, in [from, to).
func left(verb, resource, node string, from, to time.Time) func(*tick) bool {
	return func(t *tick) bool {
		return t.ev.Verb == verb && t.ev.ObjectRef.Resource == resource && (node == "" || t.o.Node == node) && !t.ev.StageTime.Before(from) && t.time().Before(to)
	}
}

// read adds reads of the ConfigMap by a node.
func read(node string, times ...time.Time) func(*Input) {
	return func(in *Input) {
		for _, at := range times {
			e := event(node, "watch", "", "configmaps", "shop", "web", at)
			in.Ledger.Observe(&e.ev, e.o)
		}
	}
}

// What is missing of reads, with the hours that it is missing in and the figures.
func TestReadsThatAreMissing(t *testing.T) {
	fourth := func() func(*tick) bool {
		n := 0
		return func(t *tick) bool {
			if t.ev.Verb == "watch" && t.time().Hour() > 12 {
				n++
			}
			return t.ev.Verb == "watch" && t.time().Hour() > 12 && n%4 == 0
		}
	}
	steady := func(once bool, spans ...Span) func(*Input) {
		return func(in *Input) {
			in.Needs, in.Pods = nil, nil
			in.Steady = []Steady{{Node: "worker-0", Kind: evidence.ReadConfigMaps, Object: "shop/web", Spans: spans, Once: once}}
		}
	}
	needs := func(of ...Need) func(*Input) {
		return func(in *Input) {
			in.Needs, in.Pods = of, nil
			for i := range of {
				of[i].Node, of[i].Kind, of[i].Object = "worker-2", evidence.ReadConfigMaps, "shop/web"
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"nothing", func(*Input) {}, []string{"passed 110/110"}},
		{"a fourth of all watches of two hours", without(fourth()), []string{
			"unproven 109/110",
			"unproven watches-lost worker-0 12:00:00-16:00:00 82/90",
			"unproven watches-lost worker-1 12:00:00-16:00:00 78/90",
			"unproven watches-lost worker-2 12:00:00-16:00:00 84/90",
			"unproven watches-lost 13:00:00-16:00:00 184/210",
			"unproven read-missing worker-2 12:00:00-13:00:00: get configmaps",
		}},
		{"watches of half an hour", without(left("watch", "pods", "worker-2", at(13, 40, 0), at(14, 20, 0))), []string{
			"unproven 110/110",
			"unproven watch-missing worker-2 13:40:00-14:25:00: watch pods",
			"unproven watches-lost worker-2 12:00:00-16:00:00 85/90",
			"unproven watches-lost 13:00:00-14:00:00 85/90",
		}},
		{"watches of 25 minutes", without(left("watch", "pods", "worker-2", at(13, 35, 0), at(14, 0, 0))), []string{
			"unproven 110/110",
			"unproven watch-missing worker-2 13:30:00-14:00:00: watch pods",
			"unproven watches-lost worker-2 12:00:00-16:00:00 87/90",
			"unproven watches-lost 13:00:00-14:00:00 87/90",
		}},
		{"one watch, and none may be lost", all(without(left("watch", "pods", "worker-2", at(13, 30, 0), at(13, 40, 0))), func(in *Input) { in.MaxLoss = -1 }), []string{
			"unproven 110/110",
			"unproven watches-lost worker-2 12:00:00-16:00:00 89/90",
			"unproven watches-lost 13:00:00-14:00:00 89/90",
		}},
		{"gets of the Node of two hours", without(left("get", "nodes", "worker-1", at(13, 0, 0), at(15, 0, 0))), []string{
			"unproven 88/110",
			"unproven request-missing worker-1 13:00:00-15:00:00: get nodes (22)",
		}},
		{"reports of two hours", without(left("patch", "nodes", "worker-2", at(13, 0, 0), at(15, 0, 0))), []string{
			"unproven 108/110",
			"unproven request-missing worker-2 13:00:00-15:00:00: patch nodes/status",
		}},
		{"a window of two minutes", all(without(left("watch", "pods", "worker-2", noon, at(23, 0, 0))), func(in *Input) { in.MinWindow = 2 * time.Minute }), []string{
			"unproven 17/18",
			"unproven watch-missing worker-2 15:00:00-16:00:00: watch pods",
		}},
		{"all of a node that was there for 59 seconds", all(without(func(t *tick) bool { return t.o.Node == "worker-2" }), needs(), lives(2, at(13, 0, 1), at(13, 1, 0))), []string{"passed 81/81"}},
		{"all of a node that was there for a minute", all(without(func(t *tick) bool { return t.o.Node == "worker-2" }), needs(), lives(2, at(13, 0, 0), at(13, 1, 0))), []string{
			"unproven 81/87",
			"unproven request-missing worker-2 12:00:00-16:00:00: patch nodes/status",
			"unproven watch-missing worker-2 12:00:00-16:00:00: watch pods",
			"unproven watch-missing worker-2 12:00:00-16:00:00: watch nodes",
			"unproven watch-missing worker-2 12:00:00-16:00:00: watch services",
			"unproven watch-missing worker-2 12:00:00-16:00:00: watch csidrivers",
			"unproven watch-missing worker-2 12:00:00-16:00:00: watch runtimeclasses",
		}},
		{"watches of a Node's second life", all(without(left("watch", "pods", "worker-2", at(14, 0, 0), at(23, 0, 0))), func(in *Input) {
			in.Nodes[2].Lives = []Span{{at(1, 0, 0), at(13, 0, 0)}, {From: at(14, 0, 0)}}
		}), []string{
			"unproven 102/104",
			"unproven watch-missing worker-2 14:00:00-16:00:00: watch pods",
			"unproven watch-missing worker-2 14:05:00-15:20:00: watch pods",
		}},
		{"what is needed again and again", all(steady(true, Span{at(1, 0, 0), at(13, 0, 0)}, Span{From: at(13, 10, 0)}), without(left("watch", "configmaps", "worker-0", noon, at(23, 0, 0)))), []string{
			"unproven 104/105",
			"unproven read-missing worker-0 13:00:00-14:00:00: get configmaps",
		}},
		{"what is read after nine minutes", all(steady(true, Span{From: at(1, 0, 0)}), read("worker-0", at(13, 39, 0))), []string{"passed 105/105"}},
		{"what is read after sixteen minutes", all(steady(true, Span{From: at(1, 0, 0)}), read("worker-0", at(13, 46, 0))), []string{
			"unproven 104/105",
			"unproven read-missing worker-0 13:00:00-14:00:00: get configmaps",
		}},
		{"a start of a node that is not Ready later", all(steady(true, Span{From: at(1, 0, 0)}), notReady(0, at(13, 43, 0), at(13, 44, 0))), []string{"passed 104/104"}},
		{"a start of a node that was not Ready before", all(steady(true, Span{From: at(1, 0, 0)}), notReady(0, at(13, 35, 0), at(13, 37, 0))), []string{
			"unproven 104/105",
			"unproven read-missing worker-0 13:00:00-14:00:00: get configmaps",
		}},
		{"a start of a node that is not Ready long after", all(steady(true, Span{From: at(1, 0, 0)}), notReady(0, at(13, 53, 0), at(13, 55, 0))), []string{
			"unproven 104/105",
			"unproven read-missing worker-0 13:00:00-14:00:00: get configmaps",
		}},
		{"a second need all the time", all(steady(false, Span{at(12, 40, 0), at(13, 40, 0)}, Span{From: at(13, 50, 0)})), []string{
			"unproven 105/106",
			"unproven read-missing worker-0 13:00:00-16:00:00: get configmaps",
		}},
		{"a need all the time between two in which it was not Ready", all(steady(false, Span{From: at(12, 20, 0)}), notReady(0, at(13, 0, 0), at(13, 50, 0))), []string{
			"unproven 98/99",
			"unproven read-missing worker-0 13:00:00-16:00:00: get configmaps",
		}},
		{"what a node needs that is silent for two hours", all(steady(true, Span{From: at(1, 0, 0)}), func(in *Input) {
			in.Steady = append(in.Steady, in.Steady[0])
			in.Steady[1].Once = false
		}, lives(0, at(1, 0, 0), at(13, 0, 0)), without(func(t *tick) bool { return t.o.Node == "worker-0" && !t.ev.StageTime.Before(at(13, 0, 0)) })), []string{
			"unproven 86/87",
			"unproven read-missing worker-0 12:00:00-16:00:00: get configmaps",
		}},
		{"a need with nine minutes to come", needs(Need{At: at(15, 10, 30)}), []string{"passed 104/104"}},
		{"a need with ten minutes to come", needs(Need{At: at(15, 10, 0)}), []string{
			"unproven 104/105",
			"unproven read-missing worker-2 15:00:00-16:00:00: get configmaps",
		}},
		{"a need that is read after nine minutes", all(needs(Need{At: at(14, 0, 0)}), read("worker-2", at(14, 9, 0))), []string{"passed 105/105"}},
		{"a need that is read after sixteen minutes", all(needs(Need{At: at(14, 0, 0)}), read("worker-2", at(14, 16, 0))), []string{
			"unproven 104/105",
			"unproven read-missing worker-2 14:00:00-15:00:00: get configmaps",
		}},
		{"a need as the window begins", needs(Need{At: at(12, 20, 0)}), []string{
			"unproven 104/105",
			"unproven read-missing worker-2 12:00:00-13:00:00: get configmaps",
		}},
		{"a need of a minute", needs(Need{At: at(14, 0, 0), Until: at(14, 1, 0)}), []string{
			"unproven 104/105",
			"unproven read-missing worker-2 14:00:00-15:00:00: get configmaps",
		}},
		{"a need of less than a minute", needs(Need{At: at(14, 0, 0), Until: at(14, 0, 59)}), []string{"passed 104/104"}},
		{"a need in a second life", all(needs(Need{At: at(14, 0, 0)}), func(in *Input) { in.Nodes[2].Lives = []Span{{at(1, 0, 0), at(14, 1, 0)}, {From: at(15, 0, 0)}} }), []string{
			"unproven 98/99",
			"unproven read-missing worker-2 15:00:00-16:00:00: get configmaps",
		}},
		{"a node that is there for a quarter of each hour, and watches late", all(needs(), without(func(t *tick) bool {
			return t.o.Node == "worker-2" && t.ev.Verb == "watch" && (t.ev.StageTime.Minute() < 10 || t.time().Minute() < 10 || t.time().Hour() > 13)
		}), func(in *Input) {
			in.Nodes[2].Lives = nil
			for hour := 12; hour < 16; hour++ {
				in.Nodes[2].Lives = append(in.Nodes[2].Lives, Span{at(hour, 4, 0), at(hour, 18, 59)})
			}
		}), []string{"passed 87/87"}},
		{"a need while it was not Ready for a while", all(needs(Need{At: at(14, 0, 0)}), notReady(2, at(14, 1, 0), at(14, 20, 0))), []string{
			"unproven 104/105",
			"unproven read-missing worker-2 14:00:00-15:00:00: get configmaps",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			in.LeaseDuration, in.NodeGrace = 40*time.Second, 50*time.Second
			c.change(in)
			r := resultOf(in, "reads-logged")
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
