package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/web"
)

// stateFeed is a service's state of the cluster and where it comes from. It is opened before the judge is wired, its watch is started with the
// other parts, and there is nothing to close.
type stateFeed struct {
	*cluster.State
	live    *cluster.Live // nil without a cluster that is watched
	given   bool          // whether complete state was given
	horizon time.Duration
	// maxEnded is how many objects are kept that have ended.
	maxEnded int
	// forgotten is up to when more was forgotten than the horizon asks for; the engine's goroutine has it.
	forgotten time.Time
	began     time.Time
	log       zerolog.Logger
}

// openStateFeed loads what is given of the state and what a former process has kept of it.
func openStateFeed(c *config.Config, log zerolog.Logger) (*stateFeed, error) {
	f := &stateFeed{
		State: cluster.NewState(), given: c.State.Live.Enabled || len(c.State.Files) > 0, horizon: c.State.Horizon.D(), maxEnded: c.State.MaxEnded, began: time.Now(), log: log,
	}
	var err error
	if f.EtcdPrefix, err = cluster.CheckEtcdPrefix(c.State.EtcdPrefix); err != nil {
		return nil, fmt.Errorf("state.etcdPrefix: %w", err)
	}
	if err := loadState(f.State, c.State.Files, nil); err != nil {
		return nil, err
	}
	if sum := f.Summary(); sum.Malformed > 0 {
		log.Warn().Int("entries", sum.Malformed).Strs("places", sum.Places).Msg("entries of the state cannot be read: verdicts that depend on them can be wrong")
	}
	if !c.State.Live.Enabled {
		return f, nil
	}
	rest, err := cluster.ClientConfig(c.State.Live.Kubeconfig, c.State.Live.Context)
	if err != nil {
		return nil, err
	}
	f.live, err = cluster.NewLive(cluster.LiveConfig{
		Record: cluster.RecordConfig{Config: rest}, Dir: c.DataPath(config.StateFolder), Horizon: f.horizon, Settle: c.State.Settle.D(),
	}, f.State, log)
	return f, err
}

// atLeastKept is for how long what has ended is kept, however much it is. Requests are judged within that time, and the rules look back for ten minutes.
const atLeastKept = 15 * time.Minute

// beyondHorizon is how much more than the horizon is kept. A report of as long a window asks for [moreThanAsked] before that, a while after the latest request.
const beyondHorizon = 10 * moreThanAsked

// prune forgets what was over before the horizon; oldest is the time of the oldest requests that may come in still. If more has ended than is to be kept, it
// forgets more, and returns up to when.
func (f *stateFeed) prune(oldest time.Time) (early time.Time) {
	before := oldest.Add(-f.horizon - beyondHorizon)
	full := f.Graph.Overfull(f.maxEnded)
	if least := oldest.Add(-atLeastKept); full.After(least) {
		full = least
	}
	if full.After(before) {
		before, early, f.forgotten = full, full, full
	}
	f.Prune(before)
	return early
}

// askVersionFor bounds how long an API server that does not answer delays the start.
const askVersionFor = 5 * time.Second

// askVersion asks the cluster that is watched for its version, if the configuration has none; empty if it did not answer, so that only the log shows it.
func (f *stateFeed) askVersion(ctx context.Context, c *config.Config) string {
	if f.live == nil || c.Authorization.KubernetesVersion != "" {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, askVersionFor)
	defer stop()
	version, err := f.live.Version(ctx)
	if err == nil {
		_, err = c.Authorization.Features(version)
	}
	if err != nil {
		f.log.Warn().Err(err).Msg("the API server does not report a usable version: nodetrail looks for it in the log")
		return ""
	}
	f.log.Info().Str("version", version).Msg("the API server reports its version; the log can still show another one")
	return version
}

// doubts are what the watch has to say against the state.
func (f *stateFeed) doubts() []codes.Gap {
	if f.live == nil {
		return nil
	}
	return f.live.Gaps()
}

// late are the kinds that are judged by and not synced, though they could be.
func (f *stateFeed) late() []string {
	var out []string
	for _, k := range f.live.Status() {
		if k.Judged && !k.Synced && !k.Refused && !k.Absent {
			out = append(out, k.Kind)
		}
	}
	return out
}

// notReady says what of the state is not there yet.
func (f *stateFeed) notReady() []string {
	if f.live == nil || f.live.Synced() {
		return nil
	}
	out := f.late()
	for i := range out {
		out[i] = "the state is not synced: " + out[i]
	}
	if len(out) == 0 {
		out = append(out, "the state is not synced")
	}
	return out
}

// metrics are the state's figures.
func (f *stateFeed) metrics() metrics.State {
	var out metrics.State
	if f.live == nil {
		for kind, n := range f.Summary().Objects {
			out.Kinds = append(out.Kinds, metrics.Kind{Name: kind, Objects: n, Synced: true})
		}
		return out
	}
	out.Watched = true
	now := time.Now()
	if mark := f.live.Watermark(now); !mark.IsZero() {
		out.Lag = max(0, now.Sub(mark))
	} else {
		out.Lag = now.Sub(f.began)
	}
	out.Kinds = kindMetrics(f.live.Status())
	return out
}

// kindMetrics takes a kind that is not served for synced: that there is none of it is all there is to know.
func kindMetrics(kinds []cluster.KindStatus) []metrics.Kind {
	var out []metrics.Kind
	for i := range kinds {
		k := &kinds[i]
		out = append(out, metrics.Kind{Name: k.Kind, Objects: k.Objects, Synced: k.Synced || k.Absent})
	}
	return out
}

// source is where the state comes from, as the overview shows it.
func (f *stateFeed) source() web.Source {
	out := web.Source{Name: "state of the cluster", Kind: "state", Healthy: true}
	sum := f.Summary()
	n := 0
	for _, of := range sum.Objects {
		n += of
	}
	if !sum.To.IsZero() {
		out.Last = &sum.To
	}
	if f.live == nil {
		out.Message = fmt.Sprintf("%d objects, from files and audit bodies", n)
		return out
	}
	out.Message = fmt.Sprintf("%d objects, watched", n)
	if late := f.late(); len(late) > 0 {
		out.Healthy, out.Message = false, "not synced: "+strings.Join(late, ", ")
	}
	return out
}
