package file

import (
	"io"
	"os"
	"testing"
	"time"
)

// A program that has the log open while it is rotated away may write to it after the next file has begun. What it writes then is not read, and is reported.
func TestFollowLateWriter(t *testing.T) {
	for _, late := range []bool{false, true} {
		w, st := logIn(t), newStored()
		w.lines(5)
		opt := following(w)
		opt.Poll = 20 * time.Millisecond
		st.start(t, opt)
		st.await(t, w.lane(), w.want)
		old, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0o600)
		check(t, err)
		w.rename("audit.log", "audit.log.1")
		w.open()
		w.lines(5)
		st.await(t, w.lane(), w.want)
		want := w.want
		if late {
			_, err := io.WriteString(old, w.make(3))
			check(t, err)
			until(t, "the gap", func() bool { return len(st.allGaps()) == 1 })
			st.oneGap(t, "were written to the file that was "+w.path+" after it had been rotated away")
		}
		check(t, old.Close())
		w.want = want
		w.lines(5)
		st.await(t, w.lane(), w.want)
		if late {
			st.oneGap(t, "they were not read")
			continue
		}
		st.noGaps(t)
	}
}
