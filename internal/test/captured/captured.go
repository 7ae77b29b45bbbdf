// Package captured judges the captures of internal/demo for tests, as analyze does.
//
// What goes in: the name of a capture and the mode of authorization. What comes out: the capture's state, and each of its requests, judged, by
// app/judging as in app. It imports that and what it judges with (cluster, nodeauthz, pipeline, pipeline/file), and is imported by tests alone.
package captured

import (
	"io"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
)

// Skew is that of the captures' clocks.
const Skew = 150 * time.Millisecond

// Capture is a capture with what judges it.
type Capture struct {
	*judging.Setup // without rules
	t              testing.TB
	log            string
}

// Open loads a capture's state. The test's package must be a folder of the repository's root.
func Open(t testing.TB, name, mode string) *Capture {
	t.Helper()
	return open(t, name, mode, folder+name+"/journal.jsonl.gz", nil)
}

// OpenWith is Open with another journal.
func OpenWith(t testing.TB, name, mode string, journal io.Reader) *Capture {
	t.Helper()
	return open(t, name, mode, "-", journal)
}

const folder = "../internal/demo/"

func open(t testing.TB, name, mode, journal string, stdin io.Reader) *Capture {
	t.Helper()
	state := cluster.NewState()
	ok(t, state.Load([]string{journal}, stdin))
	features, err := nodeauthz.FeaturesFor("1.36")
	ok(t, err)
	m, err := pipeline.ParseMode(mode)
	ok(t, err)
	return &Capture{Setup: judging.New(state, judging.Options{Features: features, Skew: Skew, Mode: m}), t: t, log: folder + name + "/audit.log.gz"}
}

// Replay judges the log and gives each judgement to see, which must not keep it.
func (c *Capture) Replay(see func(*pipeline.Judgement)) *file.Result {
	c.t.Helper()
	inputs, err := file.Expand([]string{c.log}, nil)
	ok(c.t, err)
	logs := judging.Logs{Inputs: inputs, Bodies: true}
	res, _, err := logs.Judge(c.t.Context(), func() (*judging.Setup, error) { return c.Setup, nil }, func(j *pipeline.Judgement) error {
		see(j)
		return nil
	})
	ok(c.t, err)
	return res
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
