package alertmanager

import (
	"testing"
	"time"
)

// watched is a sink of a cluster that has been watched for two days.
func watched(o *Options) { o.Since = start.Add(-48 * time.Hour) }

// TestFoundLate: what is found for the first time makes an alert however old it is, for as long as if it were of now, and what is of before the watch none.
func TestFoundLate(t *testing.T) {
	for name, incidents := range map[string]bool{"findings": false, "incidents": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1)
			s := b.begin(watched, func(o *Options) { o.Incidents = incidents })
			alert, lasts := "OutOfScopeSecretRead worker-1", 15*time.Minute
			if incidents {
				alert, lasts = "CredentialIncident worker-1", time.Hour
			}
			late, history := b.finding("worker-1", "db", 47*time.Hour), b.finding("worker-2", "db", 49*time.Hour)
			b.find(s, late)
			b.find(s, history)
			b.pass(lasts - time.Minute)
			want(t, b.peers[0], []string{alert}, nil)
			if st := s.Stats(); st.TooOld != 1 || st.Firing != 1 {
				t.Errorf("%+v", st)
			}
			if r := b.peers[0].received()[0]; !r.StartsAt.Equal(late.First) || r.Annotations["objects"] != "shop/db" {
				t.Errorf("%+v", r)
			}
			b.pass(3 * time.Minute)
			want(t, b.peers[0], nil, []string{alert})
			// What is found of the same when its alert is over is news.
			b.find(s, b.finding("worker-1", "other", 40*time.Hour))
			b.pass(time.Minute)
			want(t, b.peers[0], []string{alert}, nil)
		})
	}
}

// TestFoundLateThenKilled: the alert of what was found late outlasts the process, though the findings in the store are too old to bring it back. It is over
// when it would have been.
func TestFoundLateThenKilled(t *testing.T) {
	b := newBench(t, 2)
	b.peers[1].set(func() { b.peers[1].down = true })
	s := b.begin(watched)
	b.find(s, b.finding("worker-1", "db", 26*time.Hour))
	eventually(t, "it is kept", func() bool { return b.store.kept() == 1 })
	b.end(s)
	b.peers[1].set(func() { b.peers[1].down = false })
	b.begin(watched)
	b.pass(13 * time.Minute)
	for _, p := range b.peers {
		want(t, p, []string{"OutOfScopeSecretRead worker-1"}, nil)
	}
	b.pass(5 * time.Minute)
	for _, p := range b.peers {
		want(t, p, nil, []string{"OutOfScopeSecretRead worker-1"})
	}
	b.pass(resolvedFor)
	if n := b.store.kept(); n != 0 {
		t.Errorf("%d are kept", n)
	}
	// Reading it once more is no news.
	b.end(b.sinks[0])
	s = b.begin(watched)
	b.pass(20 * time.Minute)
	if st := s.Stats(); st.Firing != 0 {
		t.Errorf("%+v", st)
	}
}

// TestFoundLateByAnother: what one process finds late another one sends as well, and neither resolves it for the other.
func TestFoundLateByAnother(t *testing.T) {
	b := newBench(t, 1)
	s, other := b.begin(watched), b.begin(watched)
	for _, name := range []string{"db", "more"} {
		f := b.finding("worker-1", name, 30*time.Hour)
		b.find(s, f)
		b.pass(14 * time.Minute)
		want(t, b.peers[0], []string{"OutOfScopeSecretRead worker-1"}, nil)
		if n := other.Stats().Firing; n != 1 {
			t.Errorf("%d alerts of the other process fire", n)
		}
		b.pass(3 * time.Minute)
		want(t, b.peers[0], nil, []string{"OutOfScopeSecretRead worker-1"})
	}
}
