package scale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// work holds all that the test starts.
var work *plane.Work

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

// enough is the least share of verdicts, races included, that have to be the API server's.
const enough = 0.985

// Kubelets run pods that come and go; outside of races nodetrail says what the API server said, always; within races nearly always, and where not, the
// edge that it names is the reason. Analyze says the same of the finished log.
//
// Seen to fail with a graph in which pods never end.
func TestAgreement(t *testing.T) {
	ctx := work.Context()
	kubelets, length := setting(t)
	program, err := trail.Build(ctx, work)
	plane.Check(t, err)
	pair, err := trail.Beside(ctx, work, "scale", trail.Options{Program: program, Plane: plane.Options{Mode: "Node,RBAC", AuditLogMegabytes: 20}})
	plane.Check(t, err)
	p := pair.Plane
	plane.Check(t, p.StartControllers(ctx))
	c := &churn{plane: p, rnd: rand.New(rand.NewPCG(1, 2))}
	for i := range kubelets {
		c.nodes = append(c.nodes, fmt.Sprintf("worker-%02d", i+1))
	}
	// All at once they would take long to be ready on few cores.
	for i := 0; i < kubelets; i += 8 {
		plane.Check(t, p.StartKubelets(ctx, c.nodes[i:min(i+8, kubelets)]...))
	}
	plane.Check(t, c.setUp(ctx))
	taken := newSnapshots(p, length)
	plane.Check(t, c.run(ctx, length, taken.take))
	taken.quiet = time.Now().Add(5 * time.Second) // what has begun ends
	plane.Check(t, c.silence(ctx, 20*time.Second))

	// Kubelets first, so that the log ends; then nodetrail has all of it.
	r := result.Scale{Kubelets: kubelets, Churn: length, Usage: usage(pair)}
	for _, k := range p.Kubelets {
		k.Kill()
	}
	var l *log
	plane.Check(t, plane.Eventually(ctx, "nodetrail has judged the whole log", func() (err error) {
		if l, err = readLog(p); err != nil {
			return err
		}
		lines, err := pair.Trail.Verdicts()
		if err != nil {
			return err
		}
		missing := maps.Clone(l.requests)
		for _, v := range lines {
			delete(missing, v.AuditID)
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d are missing", len(missing), len(l.requests))
		}
		return nil
	}))
	metrics, err := pair.Trail.Metrics()
	plane.Check(t, err)
	report, err := pair.Trail.Report(ctx)
	plane.Check(t, err)
	judge(t, pair, l, report, &r)
	r.Delay = trail.Quantiles(metrics, "nodetrail_judge_delay_seconds")
	plane.Check(t, taken.last(ctx))
	plane.Check(t, pair.Trail.Stop())
	p.StopAPIServer()
	logs, err := p.AuditLogs()
	plane.Check(t, err)
	finished := analyzed(t, program, logs, "--state", filepath.Join(work.Dir, "scale-data", "state"))
	sameAsAnalyze(t, pair, finished)
	taken.judge(t, program, logs, finished)
	plane.Check(t, result.Write("scale", r))
}

func judge(t *testing.T, pair *trail.Pair, l *log, report *trail.Report, r *result.Scale) {
	t.Helper()
	lines, err := pair.Trail.Verdicts()
	plane.Check(t, err)
	unexplained := 0
	for _, v := range lines {
		want := "allow"
		if l.denied[v.AuditID] {
			want = "deny"
		}
		switch {
		case v.Observed.NodeVerdict != want:
			t.Errorf("the Node authorizer said %s, nodetrail read %q: %+v", want, v.Observed.NodeVerdict, v)
		case v.Verdict == want:
		case v.Verdict == "unknown":
			t.Errorf("unknown (%s): %+v", v.Detail, v)
		case !v.Race:
			t.Errorf("a disagreement outside of a race: %+v", v)
		default:
			if err := l.explained(v); err != nil {
				unexplained++
				t.Errorf("a disagreement in a race that is not explained: %v", err)
			}
		}
	}
	a := report.Agreement
	r.Events, r.Judged, r.Unknown, r.Denials = l.events, report.Events.Judged, report.Verdicts.Unknown, int64(len(l.denied))
	r.Compared, r.Agree, r.RacesCompared, r.RacesAgree = a.Compared, a.Agree, a.Races.Compared, a.Races.Agree
	r.Pods = int64(len(l.bound))
	if denials, err := pair.Plane.NodeDenials(); err != nil || len(denials) != len(l.denied) {
		t.Errorf("the API server logged NODE DENY %d times, and %d denials in its audit log (%v)", len(denials), len(l.denied), err)
	}
	if a.Compared != a.Agree || report.Verdicts.Unknown != 0 {
		t.Errorf("%d of %d agree outside of races, %d are unknown", a.Agree, a.Compared, report.Verdicts.Unknown)
	}
	if a.Reasons.Equal != a.Reasons.Compared {
		t.Errorf("reasons: %+v", a.Reasons)
	}
	share := float64(a.Agree+a.Races.Agree) / float64(a.Compared+a.Races.Compared)
	if !(share >= enough) {
		t.Errorf("%.4f of the verdicts are the API server's, want %v", share, enough)
	}
	if int64(len(l.requests)) != report.Events.Judged {
		t.Errorf("the log has %d requests of nodes, nodetrail judged %d", len(l.requests), report.Events.Judged)
	}
	t.Logf("%d events, %d judged, %d pods; outside of races %d of %d agree, in races %d of %d (%.2f %% in all); %d unexplained", l.events, report.Events.Judged,
		len(l.bound), a.Agree, a.Compared, a.Races.Agree, a.Races.Compared, 100*share, unexplained)
}

// analyzed are the verdicts of nodetrail analyze by audit ID.
func analyzed(t *testing.T, program string, logs []string, state ...string) map[string]*trail.Verdict {
	t.Helper()
	args := append(append([]string{"analyze", "-o", "json", "--verdicts", "-"}, state...), logs...)
	out, err := trail.Run(work.Context(), program, args...)
	plane.Check(t, err)
	all := map[string]*trail.Verdict{}
	for line := range bytes.Lines(out) {
		v := &trail.Verdict{}
		plane.Check(t, json.Unmarshal(line, v))
		all[v.AuditID] = v
	}
	return all
}

// sameAsAnalyze holds each verdict of run against those of analyze on the same log and the journal that run left. Outside of races they are the same; within
// them analyze knows what news came too late for run.
func sameAsAnalyze(t *testing.T, pair *trail.Pair, finished map[string]*trail.Verdict) {
	t.Helper()
	lines, err := pair.Trail.Verdicts()
	plane.Check(t, err)
	if len(lines) != len(finished) {
		t.Errorf("run judged %d requests, analyze %d", len(lines), len(finished))
	}
	differ := 0
	for _, v := range lines {
		f := finished[v.AuditID]
		switch {
		case f == nil:
			t.Errorf("analyze has not judged %+v", v)
		case f.Verdict == v.Verdict:
		case f.Race && v.Race:
			differ++
		default:
			t.Errorf("run says %+v, analyze %+v", v, f)
		}
	}
	t.Logf("analyze and run differ on %d races", differ)
}

func usage(pair *trail.Pair) map[string]result.Usage {
	out := map[string]result.Usage{}
	add := func(name string, p *plane.Process) {
		u := out[name]
		cpu, peak := p.Used()
		u.Processes++
		u.CPU += cpu
		u.Peak = max(u.Peak, peak)
		out[name] = u
	}
	add("nodetrail", pair.Trail.Process)
	add("kube-apiserver", pair.Plane.APIServer())
	for _, k := range pair.Plane.Kubelets {
		add("hollow kubelet", k)
	}
	return out
}

func setting(t *testing.T) (kubelets int, length time.Duration) {
	t.Helper()
	kubelets, length = 40, 3*time.Minute
	var err error
	if s := strings.TrimSpace(os.Getenv("NODETRAIL_E2E_KUBELETS")); s != "" {
		kubelets, err = strconv.Atoi(s)
		plane.Check(t, err)
	}
	if s := strings.TrimSpace(os.Getenv("NODETRAIL_E2E_CHURN")); s != "" {
		length, err = time.ParseDuration(s)
		plane.Check(t, err)
	}
	return kubelets, length
}
