package pipeline

import (
	"runtime"
	"sync/atomic"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/version"
)

// A slice is the requests that are due at once. They are judged on all cores, each by the state at its own time, as if what the requests before it show
// of the mode and the version changed nothing ([bench.judge]). Then they take their turns ([Judge.settle]): what they show is taken in, in order, and
// those few are judged again for which it changed something. The state does not change meanwhile, and all else that a judgement depends on is compared.
// One core does the same, so that what comes out does not depend on their number.

const (
	// sliceMost bounds a slice, so that its judgements are still in the caches when their turn comes.
	sliceMost = 512
	// share is how many requests are worth handing out.
	share = 16
)

// aside is what a copy of a judge has that judges in parallel.
type aside struct {
	// node has the last word on nodes' requests for the whole slice; nil where there are no versions.
	node    *nodeauthz.Authorizer
	release string // of the API servers, whose admission plugin it has
	view    View
	// unsure says that the judgement depends on those before it in another way.
	unsure bool
}

// bench is the memory of a slice.
type bench struct {
	hearings []hearing
	judges   []Judge
	due      []dueRequest
	team     *team
	// alone has each request judged in its turn, in tests that hold the one against the other.
	alone bool
}

// judge judges the requests in parallel, if, as far as is known now, the authorizer that has answered the latest one alone answers the first of them.
// Otherwise they are left to their turns.
func (b *bench) judge(j *Judge, due []dueRequest) {
	for len(b.hearings) < len(due) {
		b.hearings = append(b.hearings, hearing{})
	}
	b.due = due
	for i := range due {
		b.hearings[i].foreseen = false
	}
	if b.alone || j.Versions != nil && j.Versions.sole(receivedAt(due[0].r.ev)) == nil {
		return
	}
	procs := max(1, min(runtime.GOMAXPROCS(0), len(due)/share))
	for len(b.judges) < procs {
		b.judges = append(b.judges, Judge{aside: &aside{}})
	}
	for i := range procs {
		if !b.judges[i].copy(j) {
			return
		}
	}
	if b.team == nil {
		b.team = &team{}
	}
	b.team.run(procs, len(due), share, b)
}

// do judges one request on one of the processors.
func (b *bench) do(proc, i int) {
	if !b.due[i].early {
		h := &b.hearings[i]
		h.foreseen = b.judges[proc].foresee(h, b.due[i].r.ev)
	}
}

// team does work on several goroutines. One goroutine calls run.
type team struct {
	// linger is how many times those who help give way to other goroutines, and look for further work, before they end. A slice of a log has several parts, and a
	// core that sleeps takes longer to wake than a part may take.
	linger  int
	now     atomic.Pointer[job]
	helpers []*atomic.Bool // which of them are there; the first is never
}

// spins is how often helpers look for further work before they give way, which takes a lock of the scheduler.
const spins = 256

// job is work that is handed out.
type job struct {
	work            interface{ do(proc, i int) }
	procs, n, share int
	next            atomic.Int64
	busy            atomic.Int64 // helpers that have it in hand
}

// run calls work with each number below n, a share of them at a time, on so many goroutines, whose number it gets. It returns when all is done.
func (t *team) run(procs, n, share int, work interface{ do(proc, i int) }) {
	j := &job{work: work, procs: min(procs, (n+share-1)/share), n: n, share: share}
	if j.procs <= 1 {
		j.take(0)
		return
	}
	for len(t.helpers) < j.procs {
		t.helpers = append(t.helpers, &atomic.Bool{})
	}
	t.now.Store(j)
	for p := 1; p < j.procs; p++ {
		if there := t.helpers[p]; there.CompareAndSwap(false, true) {
			go t.help(p, there)
		}
	}
	j.take(0)
	t.now.Store(nil)
	for j.busy.Load() > 0 {
		runtime.Gosched()
	}
}

// help takes work in hand for as long as there is some.
func (t *team) help(proc int, there *atomic.Bool) {
	defer there.Store(false)
	for idle := 0; idle <= t.linger; {
		j := t.now.Load()
		if j == nil || proc >= j.procs || j.next.Load() >= int64(j.n) {
			idle++
			for i := 0; i < spins && t.now.Load() == j; i++ {
				continue
			}
			runtime.Gosched()
			continue
		}
		j.busy.Add(1)
		j.take(proc) // of a job that is over, nothing
		j.busy.Add(-1)
		idle = 0
	}
}

func (j *job) take(proc int) {
	for {
		to := int(j.next.Add(int64(j.share)))
		for i := to - j.share; i < min(to, j.n); i++ {
			j.work.do(proc, i)
		}
		if to >= j.n {
			return
		}
	}
}

// copy makes j judge like the other, in parallel. It is false where the state can be asked by one at a time only.
func (j *Judge) copy(other *Judge) bool {
	reasons, names, checker, beside := j.reasons, j.names, j.checker, j.aside
	*j = *other
	j.reasons, j.names, j.checker, j.aside = reasons, names, checker, beside
	beside.node, beside.unsure = nil, false
	j.Early = false
	if v := other.Versions; v != nil && v.latest >= 0 {
		beside.node, beside.release = v.auth(v.latest), v.release
	}
	if j.State == nil {
		return true
	}
	view, is := j.State.(*View)
	if is {
		beside.view = *view
		if view.asked != nil {
			beside.view.asked, beside.view.unsure = nil, &beside.unsure
		}
		j.State = &beside.view
	}
	return is
}

// foresee judges a request before its turn. It changes nothing but the memory that it is given, and is false if the judgement cannot stand.
func (j *Judge) foresee(h *hearing, ev *audit.Event) bool {
	j.begin(h, ev)
	if h.j.IsNode {
		h.j.Observed.NodeVerdict = j.Mode.Implies(&h.j)
	}
	h.ruledBy, h.release, h.expected = j.aside.node, j.aside.release, version.Expected{}
	if j.compares(&h.j) {
		h.expected = j.Versions.expect(&h.j, j.Mode.plain())
	}
	j.finish(h)
	unsure := j.aside.unsure
	j.aside.unsure = false
	return !unsure
}

// settle is the request's turn: it returns the judgement that hear would make now.
func (j *Judge) settle(h *hearing, ev *audit.Event) *Judgement {
	out := &h.j
	if !h.foreseen || j.Early || j.Versions != nil && (j.Versions.sole(out.Time) != h.ruledBy || j.Versions.release != h.release) {
		j.hear(h, ev)
		return out
	}
	again := false
	if out.IsNode {
		j.Mode.Observe(out)
		if implied := j.Mode.Implies(out); implied != out.Observed.NodeVerdict {
			out.Observed.NodeVerdict, again = implied, true
		}
	}
	if j.compares(out) && (again || !j.Versions.told.Confirm(&h.expected)) {
		answer, node := out.Answer, out.node
		j.Versions.observe(out, j.Mode.plain())
		again = again || out.Answer != answer || out.node != node || out.between != [2]string{} || j.Versions.sole(out.Time) != h.ruledBy
	}
	if again {
		j.finish(h)
	}
	return out
}
