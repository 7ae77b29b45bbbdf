// Package judging puts a judge of requests together over a cluster's state, and finished logs through it.
//
// What goes in: the state, how the API server decides, the rules, and the logs. What comes out: a judgement of each request, as of its own time.
// It is the one place where a pipeline.Judge is wired: analyze, run, explain, what-if and suggest have theirs from here, and so have the
// tests that judge a scenario or a capture. It imports audit, cluster, evidence, nodeauthz, pipeline, pipeline/file, rbac and rules, so that the tests of
// what is made of judgements (report, explain, web) can use it too.
package judging

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Options say how the API server decides and what is checked.
type Options struct {
	// Features decide, unless Versions has the log decide which features apply.
	Features nodeauthz.Features
	// Admission is the version of the admission plugin NodeRestriction; the zero value is that of Features, of any patch release.
	Admission nodeadmission.Version
	// Versions says how the version is found; nil compares nothing with Features.
	Versions *Versions
	// Skew is how far around a request's time a change of the state makes it a race.
	Skew time.Duration
	// Mode is the order of the API server's authorizers; it must not be nil. What the log shows of it is kept in it.
	Mode *pipeline.Mode
	// Rules are checked in their order; nil for none.
	Rules []*rules.Rule
	// Own are rules that the user wrote; nil for none.
	Own rules.Own
	// Kept are bindings for nodes that are to stay.
	Kept []rbac.BindingRef
	// Kubelets are further user agents that are a kubelet's, without version.
	Kubelets []string
	// Bootstrap says what is usual when nodes join.
	Bootstrap rules.Bootstrap
	// Live says that the state follows a cluster and does not know what comes.
	Live bool
}

// Versions says how the Kubernetes version and the feature gates are found.
type Versions struct {
	// Given says that the user gave Features: they apply whatever the log shows, and requests that contradict them are counted. Beyond is the minor
	// that the user gave if nodeauthz does not support it and Features are those of the nearest; otherwise 0.
	Given  bool
	Beyond int
	// Gates are the feature gates that the user gave.
	Gates map[string]bool
	// Asked is the minor that the API server reported about itself, 0 for none.
	Asked int
}

// Setup is a state with what judges requests by it. Not safe for concurrent use.
type Setup struct {
	State *cluster.State
	// Auth is the authorizer that applies now; if the log shows the version, it changes as the log is read.
	Auth  *nodeauthz.Authorizer
	Judge *pipeline.Judge
	skew  time.Duration
	gates map[string]bool // that the user gave
}

// AnyAudience reports whether a node gets tokens for whatever audience it asks for from API servers of a version, with the gates that the user gave.
func (s *Setup) AnyAudience(f nodeauthz.Features) bool {
	f.Minor = cmp.Or(f.Emulated, f.Minor) // on which gates depend
	v := AdmissionOf(&f, s.gates)
	return v.AnyAudience()
}

// New wires a judge over a state.
func New(state *cluster.State, o Options) *Setup {
	auth := nodeauthz.NewAuthorizer(state.Graph, o.Features, o.Skew)
	view := pipeline.NewView(state, auth)
	if o.Live {
		view = pipeline.NewLiveView(state, auth)
	}
	gates := map[string]bool{}
	if o.Versions != nil {
		gates = o.Versions.Gates
	}
	admission := func(f *nodeauthz.Features, release string) (with, blind *nodeadmission.Admission) {
		v := o.Admission
		if v.Minor == 0 || v.Minor != f.Minor {
			v = AdmissionOf(f, gates)
		}
		given := o.Versions != nil && o.Versions.Given && v.Patch != nodeadmission.AnyPatch
		if seen, err := nodeadmission.VersionOf(release); err == nil && seen.Minor == v.Minor && !given {
			v.Patch, v.Vendor = seen.Patch, seen.Vendor
		}
		return nodeadmission.New(v, state.Admission.State(&pipeline.RoleAuthorizer{RBAC: state.RBAC, Mode: o.Mode}), o.Skew), nodeadmission.New(v, nodeadmission.State{}, o.Skew)
	}
	memory := rules.NewMemory()
	memory.Kubelets, memory.Bootstrap = o.Kubelets, o.Bootstrap
	s := &Setup{
		State: state, Auth: auth, skew: o.Skew, gates: gates,
		Judge: &pipeline.Judge{
			Node: auth, RBAC: state.RBAC, State: view, Rules: o.Rules, Own: o.Own, Memory: memory, Mode: o.Mode, Kept: o.Kept,
		},
	}
	s.Judge.Admission, s.Judge.Blind = admission(&o.Features, "")
	if t := o.Versions; t != nil {
		v := pipeline.NewVersions(state.Graph, o.Skew, t.Gates, func(a *nodeauthz.Authorizer, release string) {
			s.Auth = a
			view.Use(a)
			f := a.Features()
			s.Judge.Admission, s.Judge.Blind = admission(&f, release)
		})
		if s.Judge.Versions = v; t.Given {
			v.Given(o.Features, t.Beyond)
		}
		if t.Asked != 0 {
			v.Asked(t.Asked)
		}
	}
	return s
}

// Features are those by which requests of a time are judged, as far as the log shows.
func (s *Setup) Features(t time.Time) nodeauthz.Features {
	if v := s.Judge.Versions; v != nil {
		return v.Features(t)
	}
	return s.Auth.Features()
}

// AdmissionOf returns the admission plugin of a version by its minor, its feature gates, and further gates that the user gave, of which those count that the
// plugin of this minor depends on. Its patch release is not known.
func AdmissionOf(f *nodeauthz.Features, gates map[string]bool) nodeadmission.Version {
	v, err := nodeadmission.VersionOf(fmt.Sprintf("1.%d", f.Minor))
	if err != nil {
		panic(err) // both packages know the same minors: a test compares them
	}
	for _, all := range []map[string]bool{{"PodCertificateRequest": f.PodCertificateRequest, "CSIVolumeHealth": f.CSIVolumeHealth}, gates} {
		for name, on := range all {
			_ = v.SetGate(name, on) // the version may be too old for the gate, which is off then
		}
	}
	return v
}

// Logs are finished audit logs. The zero value of each field but Inputs means its default.
type Logs struct {
	Inputs []file.Input
	// Window limits which requests are judged; state is learnt from all events.
	Window pipeline.Window
	// Bodies says that the bodies of events tell of the state, too.
	Bodies bool
	// Ledger is shown every event that is needed, those outside of the window, too; nil for none.
	Ledger *evidence.Ledger
	// All says that requests of everybody are judged, not only those of nodes and of what may be one.
	All bool
	// Others has the requests of these users and groups judged, too; nil for none.
	Others *audit.Subjects
	// See is shown every event that is read, which it must not keep; nil for nobody.
	See func(*audit.Event)
	// Sliced is called now and then between judgements, when all who are given them have returned; nil for nothing.
	Sliced func()
	// MaxEventBytes bounds an event, 4 MiB by default.
	MaxEventBytes int
	// Progress is called with how many bytes were read of the inputs, as they are there, compressed or not; from several goroutines.
	Progress func(bytes int)
}

// Judge reads the logs and hands each judgement to each of outs, which must not keep it. Where there are several they are called in parallel, see
// [pipeline.NewStream]; one is called from the calling goroutine. setup is called once, after the reading has begun, and before the first judgement.
// It stops at the first error of setup or outs, or when ctx ends, and returns that error; files that could not be read to their end are in the result.
func (l *Logs) Judge(ctx context.Context, setup func() (*Setup, error), outs ...func(*pipeline.Judgement) error) (*file.Result, pipeline.Counts, error) {
	var stream *pipeline.Stream
	var there atomic.Pointer[pipeline.Stream] // the stream, for those who decode
	start := func() error {
		s, err := setup()
		if err != nil {
			return err
		}
		var sink pipeline.StateSink
		if l.Bodies {
			sink = s.State
		}
		stream = pipeline.NewStream(s.Judge, sink, pipeline.Options{
			Skew: s.skew, Window: l.Window, Ledger: l.Ledger, All: l.All, Others: l.Others, See: l.See, Sliced: l.Sliced,
		}, outs...)
		there.Store(stream)
		return nil
	}
	look := func(looks []source.Look, events []audit.Event) []source.Look {
		if s := there.Load(); s != nil {
			return s.Look(looks, events)
		}
		return looks
	}
	res, err := l.read(ctx, audit.Want{State: l.Bodies, Aside: l.Ledger != nil, All: l.All, Others: l.Others}, look, func(b file.Batch) error {
		if stream == nil {
			if err := start(); err != nil {
				return err
			}
		}
		return stream.Batch(&pipeline.Batch{Events: b.Events, Looks: b.Looks, Release: b.Release})
	})
	if err == nil && stream == nil {
		err = start()
	}
	if err == nil {
		err = stream.Flush()
	}
	if err != nil {
		return nil, pipeline.Counts{}, err
	}
	return res, stream.Counts(), nil
}

// Learn feeds the state with the bodies in the logs, and judges nothing.
func (l *Logs) Learn(ctx context.Context, state *cluster.State) (*file.Result, error) {
	return l.each(ctx, audit.Want{State: true}, func(ev *audit.Event) {
		if audit.ChangesState(ev) {
			state.ApplyAudit(ev)
		}
	})
}

// Events gives each event of the logs to see, which must not keep it, those included that no judge has a use for.
func (l *Logs) Events(ctx context.Context, see func(*audit.Event)) (*file.Result, error) {
	return l.each(ctx, audit.Want{All: true}, see)
}

func (l *Logs) each(ctx context.Context, want audit.Want, see func(*audit.Event)) (*file.Result, error) {
	return l.read(ctx, want, nil, func(b file.Batch) error {
		for i := range b.Events {
			see(&b.Events[i])
		}
		b.Release()
		return nil
	})
}

func (l *Logs) read(
	ctx context.Context, want audit.Want, look func([]source.Look, []audit.Event) []source.Look, out func(file.Batch) error,
) (*file.Result, error) {
	return file.Read(ctx, l.Inputs, file.Options{
		Want: want, Look: look, MaxEventBytes: l.MaxEventBytes, MaxPlaces: tally.MaxMalformed, Progress: l.Progress,
	}, out)
}
