package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// slowStore is an empty store whose windows are read one by one, as the test says.
type slowStore struct {
	Store
	goOn chan struct{}
	read int
}

func (s *slowStore) Version(context.Context) (string, error) { return "1", nil }

func (s *slowStore) Range(context.Context) (from, to time.Time, err error) { return from, to, nil }

func (s *slowStore) Newest(context.Context, time.Time) (time.Time, error) { return time.Time{}, nil }

func (s *slowStore) Window(context.Context, time.Time, time.Time, func(time.Time, *tally.Key, *tally.Group)) (*tally.Tally, []tally.Step, error) {
	<-s.goOn
	s.read++
	return tally.New(), nil, nil
}

// Who asks for window after window and leaves makes nobody wait for them: they are neither read nor kept.
func TestAbandonedWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowStore{goOn: make(chan struct{})}
		c := newCache(&Options{Store: st, Now: time.Now, Facts: func(context.Context) (report.Facts, error) { return report.Facts{}, nil }})
		get := func(ctx context.Context, window time.Duration, want error) {
			go func() {
				if _, err := c.get(ctx, window); err != want { //nolint:errorlint // it is returned as it is
					t.Errorf("%s: %v, want %v", window, err, want)
				}
			}()
			synctest.Wait()
		}
		get(t.Context(), time.Hour, nil) // it is being read
		leaving, leave := context.WithCancel(t.Context())
		for i := range 50 {
			get(leaving, time.Duration(i+2)*time.Hour, context.Canceled)
		}
		get(t.Context(), 3*time.Hour, nil) // somebody else waits for one of them
		get(t.Context(), 0, nil)
		leave()
		synctest.Wait()
		close(st.goOn)
		synctest.Wait()
		if st.read != 3 || len(c.windows) != 3 || c.windows[3*time.Hour].snap == nil {
			t.Errorf("%d windows were read and %d are kept, want the 3 that somebody waited for", st.read, len(c.windows))
		}
		get(t.Context(), 2*time.Hour, nil)
		if st.read != 4 {
			t.Error("a window that was abandoned is not read for who asks for it again")
		}
	})
}
