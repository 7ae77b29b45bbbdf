package scale

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// snapshots takes snapshots of etcd while the churn runs. Between them etcd is compacted, to where the snapshot before ended, as API servers do.
type snapshots struct {
	plane  *plane.Plane
	every  time.Duration
	next   time.Time
	before int64 // the revision of the last one
	paths  []string
	// quiet is when the churn was over.
	quiet time.Time
}

func newSnapshots(p *plane.Plane, churn time.Duration) *snapshots {
	every := min(time.Minute, churn/12)
	return &snapshots{plane: p, every: every, next: time.Now().Add(every)}
}

// take takes one when it is time.
func (s *snapshots) take(ctx context.Context) error {
	if time.Now().Before(s.next) {
		return nil
	}
	s.next = time.Now().Add(s.every)
	revision, err := s.plane.EtcdRevision(ctx)
	if err != nil {
		return err
	}
	if s.before != 0 {
		if err := s.plane.CompactEtcd(ctx, s.before); err != nil {
			return err
		}
	}
	s.before = revision
	path := filepath.Join(work.Dir, fmt.Sprintf("snapshot-%02d.db", len(s.paths)))
	s.paths = append(s.paths, path)
	return s.plane.EtcdSnapshot(ctx, path)
}

// last takes the last one when all requests are over.
func (s *snapshots) last(ctx context.Context) error {
	path := filepath.Join(work.Dir, "snapshot-last.db")
	s.paths = append(s.paths, path)
	return s.plane.EtcdSnapshotAfter(ctx, path)
}

// mostUnknown is how much of the churn may be unknown by snapshots, mostUnknownQuiet by one snapshot of a time in which little happens.
const (
	mostUnknown      = 0.10
	mostUnknownQuiet = 0.02
)

// judge holds the verdicts by snapshots against those by the journal: they are the same, or unknown, or one of them is a race.
//
// Seen to fail where the time of a revision is taken for exact, and where what a snapshot does not have counts as never having been.
func (s *snapshots) judge(t *testing.T, program string, logs []string, journal map[string]*trail.Verdict) {
	t.Helper()
	s.compare(t, "all snapshots", program, logs, s.paths, journal, mostUnknown)
	quiet := map[string]*trail.Verdict{}
	for id, v := range journal {
		if v.Time.After(s.quiet) {
			quiet[id] = v
		}
	}
	s.compare(t, "the last snapshot, of the quiet time", program, logs, s.paths[len(s.paths)-1:], quiet, mostUnknownQuiet)
}

func (s *snapshots) compare(t *testing.T, what, program string, logs, state []string, journal map[string]*trail.Verdict, most float64) {
	t.Helper()
	args := []string{"--state"}
	for i, path := range state {
		if i > 0 {
			args = append(args, "--state")
		}
		args = append(args, path)
	}
	verdicts := analyzed(t, program, logs, args...)
	unknown, races, wrong := 0, 0, 0
	for id, want := range journal {
		got := verdicts[id]
		switch {
		case got == nil:
			t.Errorf("%s: not judged: %+v", what, want)
		case got.Verdict == "unknown":
			unknown++
		case got.Race || want.Race:
			races++
		case got.Verdict != want.Verdict:
			if wrong++; wrong <= 10 {
				t.Errorf("%s: %s, and by the journal %s: %+v", what, got.Verdict, want.Verdict, want)
			}
		}
	}
	t.Logf("%s: of %d verdicts %d are races, %d unknown (%.1f %%), %d wrong", what, len(journal), races, unknown, 100*float64(unknown)/float64(len(journal)), wrong)
	if len(journal) < 100 || float64(unknown) > most*float64(len(journal)) {
		t.Errorf("%s: %d of %d are unknown, want at most %v", what, unknown, len(journal), most)
	}
}

// silence lets only the probes run, so that little changes.
func (c *churn) silence(ctx context.Context, d time.Duration) error {
	for n := range namespaces {
		path := fmt.Sprintf("/apis/batch/v1/namespaces/churn-%d/cronjobs/cron", n)
		if _, err := c.plane.Admin().Must(ctx, http.MethodPatch, path, object{"spec": object{"suspend": true}}); err != nil {
			return err
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 30) {
		if err := c.probe(ctx); err != nil {
			return err
		}
	}
	return nil
}
