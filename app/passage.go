package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
)

// passage is finished logs on their way through a judge.
type passage struct {
	in     *Input
	judged judging.Options
	logs   judging.Logs
	// others says whose requests are judged in addition to those of nodes, once the state is there and before anything is read; nil for nobody's.
	others func(*cluster.State) *audit.Subjects

	auto     bool         // the skew is measured before the first run
	mode     string       // as it was given
	measured *report.Skew // nil unless auto, and before the first run
}

// prepare finds the logs. Nothing is judged yet.
func (in *Input) prepare(a *Authorization) (*passage, error) {
	p := &passage{in: in, judged: judging.Options{Skew: a.Skew, Versions: a.versions()}, auto: a.SkewAuto, mode: a.AuthorizationMode}
	var err error
	if p.judged.Features, err = a.features(); err != nil {
		return nil, err
	}
	p.judged.Admission = admissionOf(&p.judged.Features, a.KubernetesVersion, a.FeatureGates)
	if p.judged.Mode, err = a.mode(); err != nil {
		return nil, err
	}
	return p, p.find()
}

// find looks for the logs.
func (p *passage) find() error {
	in := p.in
	inputs, err := file.Expand(in.Logs, in.Stdin)
	if err != nil {
		return err
	}
	window, err := in.window(inputs)
	if err != nil {
		return err
	}
	p.logs = judging.Logs{Inputs: inputs, Window: window, Bodies: !in.NoBodies, MaxEventBytes: in.maxEventBytes(), Progress: in.Progress}
	if in.Begin == nil {
		return nil
	}
	var paths []string
	for i := range inputs {
		paths = append(paths, inputs[i].Path)
	}
	return in.Begin(paths)
}

// run puts the logs through a judge over the state, which is loaded meanwhile. begin is called once, when the state is there and before the
// first judgement. Logs in which there was nothing to read are an error; files that were not read to their end are in the result.
func (p *passage) run(ctx context.Context, begin func(*judging.Setup), outs ...func(*pipeline.Judgement) error) (*file.Result, pipeline.Counts, error) {
	if p.auto && p.measured == nil {
		if err := p.measure(ctx); err != nil {
			return nil, pipeline.Counts{}, err
		}
	}
	loading := startLoading(p.in)
	if p.others != nil {
		state, err := loading.wait(ctx)
		if err != nil {
			return nil, pipeline.Counts{}, err
		}
		p.logs.Others = p.others(state)
	}
	res, counts, err := p.logs.Judge(ctx, func() (*judging.Setup, error) {
		state, err := loading.wait(ctx)
		if err != nil {
			return nil, err
		}
		s := judging.New(state, p.judged)
		begin(s)
		return s, nil
	}, outs...)
	if err == nil {
		err = p.nothingRead(res)
	}
	if err != nil {
		return nil, pipeline.Counts{}, err
	}
	return res, counts, nil
}

// nothingRead is the error of logs without a single event.
func (p *passage) nothingRead(res *file.Result) error {
	if res.Counts.Read > 0 {
		return nil
	}
	if err := errors.Join(res.Errors...); err != nil {
		return err
	}
	var names []string
	for i := range p.logs.Inputs {
		names = append(names, p.logs.Inputs[i].String())
	}
	what := strings.Join(names, ", ")
	if len(names) > 3 {
		what = fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	switch {
	case res.Counts.Malformed > 0:
		return fmt.Errorf("%s: no audit event in it; the first of its malformed lines (%d) is %s", what, res.Counts.Malformed, FirstMalformed(res))
	case res.Bytes == 0:
		return fmt.Errorf("%s: the log is empty", what)
	}
	return fmt.Errorf("%s: no audit event in it", what)
}

// FirstMalformed names the first malformed line of what was read, with its cause.
func FirstMalformed(res *file.Result) string {
	if len(res.Malformed) == 0 {
		return "not known"
	}
	p := res.Malformed[0]
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Cause)
}

// loading is state on its way.
type loading struct {
	state *cluster.State
	err   error
	done  chan struct{}
}

// startLoading begins to load the state; without any it is empty.
func startLoading(in *Input) *loading {
	l := &loading{state: in.Loaded, done: make(chan struct{})}
	if l.state != nil {
		close(l.done)
		return l
	}
	l.state = cluster.NewState()
	go func() {
		defer close(l.done)
		if l.state.EtcdPrefix, l.err = cluster.CheckEtcdPrefix(in.EtcdPrefix); l.err != nil {
			l.err = &OptionError{"EtcdPrefix", l.err}
			return
		}
		if l.err = loadState(l.state, in.State, in.Stdin); l.err == nil {
			l.state.InputsEnd(!in.NoBodies)
		}
	}()
	return l
}

// wait returns the state once it is there. The end of ctx ends the waiting: standard input may never come.
func (l *loading) wait(ctx context.Context) (*cluster.State, error) {
	select {
	case <-l.done:
		return l.state, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// loadState reads files into a state.
func loadState(state *cluster.State, paths []string, stdin io.Reader) error {
	if len(paths) == 0 {
		return nil
	}
	var input *cluster.InputError
	err := state.Load(paths, stdin)
	if errors.As(err, &input) {
		err = MisplacedOr(err, input.Path, filekind.State)
	}
	if err != nil {
		return fmt.Errorf("cannot read the state: %w", err)
	}
	if err = ofUse(paths, state.Summary()); err == nil {
		return nil
	}
	for _, path := range paths {
		if m := Misplaced(path, filekind.State); m != nil {
			return fmt.Errorf("cannot read the state: %w", m)
		}
	}
	return err
}

// ofUse refuses state that has nothing to do with authorization: the verdicts would be as confident as they are wrong.
func ofUse(paths []string, sum cluster.Summary) error {
	for _, n := range sum.Objects {
		if n > 0 {
			return nil
		}
	}
	what := strings.Join(paths, ", ")
	switch kinds := sum.SkippedKinds(); {
	case len(kinds) > 3:
		return fmt.Errorf("%s: no object in it that authorization depends on, only %s and %d other kinds", what, strings.Join(kinds[:3], ", "), len(kinds)-3)
	case len(kinds) > 0:
		return fmt.Errorf("%s: no object in it that authorization depends on, only %s", what, strings.Join(kinds, ", "))
	case len(sum.Places) > 0:
		return fmt.Errorf("%s: no object in it that could be read; the first place is %s", what, sum.Places[0])
	}
	return fmt.Errorf("%s: no object in it that authorization depends on, such as pods and nodes", what)
}
