package file

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// noGaps fails if something may have been lost.
func (st *stored) noGaps(t *testing.T) {
	t.Helper()
	if gaps := st.allGaps(); len(gaps) > 0 {
		t.Errorf("gaps: %q", gaps)
	}
}

func (st *stored) oneGap(t *testing.T, text string) {
	t.Helper()
	until(t, "a gap", func() bool { return len(st.allGaps()) > 0 })
	if gaps := st.allGaps(); len(gaps) != 1 || !strings.Contains(gaps[0], text) {
		t.Errorf("gaps: %q, want one: %s", gaps, text)
	}
}

// TestFollow is about a log that comes late and grows, by events of the system alone and by polling alone.
func TestFollow(t *testing.T) {
	for name, change := range map[string]func(*FollowOptions){
		"polled":   func(o *FollowOptions) { o.PollOnly = true },
		"notified": func(o *FollowOptions) { o.Poll, o.Linger = time.Hour, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			w, st := logIn(t), newStored()
			opt := following(w)
			change(&opt)
			st.start(t, opt)
			until(t, "word that the log is not there", func() bool { return st.logged("waiting for the log") == 1 })
			for i := range 5 {
				w.lines(3)
				st.await(t, w.lane(), w.want)
				if i%2 == 1 {
					w.rename("audit.log", fmt.Sprintf("audit-2026-11-21T06-04-0%d.000.log", i))
					w.open()
				}
			}
			st.noGaps(t)
			if n := st.logged("waiting for the log"); n != 1 {
				t.Errorf("logged %d times that the log is not there", n)
			}
		})
	}
}

// TestFollowRenamed: fluent-bit#2110 and k/k#64760 lost the tail of a file that was rotated by renaming.
func TestFollowRenamed(t *testing.T) {
	w, st := logIn(t), newStored()
	opt := following(w)
	opt.Linger = 1 << 30 // the file is never left
	s := st.start(t, opt)
	w.lines(3)
	st.await(t, w.lane(), w.want)
	w.rename("audit.log", "audit.log.1")
	w.lines(3) // by the old descriptor
	st.await(t, w.lane(), w.want)
	old := w.f
	w.f = nil
	w.open()
	want := len(w.want)
	_, err := old.WriteString(w.make(2)) // the next file is there, and empty
	check(t, err)
	st.await(t, w.lane(), w.want)
	late := w.make(1)
	w.lines(2) // the next file has content, and yet:
	_, err = old.WriteString(late)
	check(t, err)
	st.await(t, w.lane(), w.want[:want+3])
	check(t, old.Close())
	s.crash()
	opt.Linger = 0
	st.start(t, opt)
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
}

// TestFollowHeldBack: while the intake takes nothing the log is rotated again and again; nothing of it is lost or out of order.
func TestFollowHeldBack(t *testing.T) {
	for _, form := range []string{"lumberjack", "lumberjack compressed", "logrotate", "logrotate compressed", "copytruncate"} {
		t.Run(form, func(t *testing.T) {
			w, st := logIn(t), newStored()
			w.size = 40_000
			s := st.start(t, following(w), held)
			for i := range 6 {
				w.lines(40)
				until(t, "the first batches", func() bool { return len(s.queue) == cap(s.queue) })
				switch form {
				case "lumberjack", "lumberjack compressed":
					name := fmt.Sprintf("audit-2026-11-21T06-04-0%d.000.log", i)
					w.rename("audit.log", name)
					w.open()
					if form != "lumberjack" {
						w.compress(name)
					}
				case "copytruncate":
					for n := i; n > 0; n-- {
						w.rename(fmt.Sprintf("audit.log.%d", n), fmt.Sprintf("audit.log.%d", n+1))
					}
					w.copy("audit.log", "audit.log.1")
					w.truncate()
				default:
					gz := ""
					if form != "logrotate" {
						gz = ".gz"
					}
					for n := i; n > 1; n-- {
						w.rename(fmt.Sprintf("audit.log.%d%s", n, gz), fmt.Sprintf("audit.log.%d%s", n+1, gz))
					}
					if i > 0 {
						w.rename("audit.log.1", "audit.log.2")
						if gz != "" {
							w.compress("audit.log.2")
						}
					}
					w.rename("audit.log", "audit.log.1")
					w.open()
				}
			}
			w.lines(1)
			if stats := s.follow.Stats(); len(stats) != 1 || stats[0].Behind < 1_000_000 || stats[0].Stored != 0 || stats[0].Lane != w.lane() || !stats[0].LastEvent.IsZero() || stats[0].Since.IsZero() {
				t.Errorf("stats: %+v", stats)
			}
			close(s.hold)
			st.await(t, w.lane(), w.want)
			st.noGaps(t)
			until(t, "nothing left", func() bool { return s.follow.Stats()[0].Behind == 0 })
			if since := s.follow.Stats()[0].Since; !since.IsZero() {
				t.Errorf("nothing is left since %s", since)
			}
			if last := s.follow.Stats()[0].LastEvent; !last.Equal(day.Add(time.Duration(*w.n) * time.Millisecond)) {
				t.Errorf("last event: %s", last)
			}
			behind := st.behind
			if len(behind) < 10 || !behind[0] || behind[len(behind)-1] {
				t.Errorf("behind: %v", behind)
			}
		})
	}
}

// TestFollowRestart: fluent-bit#1330 and #5024 read a file again, or lost it, that was rotated while they were away; vector#13193 did not know
// a compressed file again.
func TestFollowRestart(t *testing.T) {
	for name, away := range map[string]func(w *writer){
		"nothing happened": func(*writer) {},
		"grown":            func(w *writer) { w.lines(5) },
		"renamed":          func(w *writer) { w.lines(5); w.rename("audit.log", "audit.log.1"); w.open(); w.lines(5) },
		"renamed, none new": func(w *writer) {
			w.lines(5)
			w.rename("audit.log", "audit-2026-11-21T06-04-03.123.log")
		},
		"compressed": func(w *writer) {
			w.lines(5)
			w.rename("audit.log", "audit-2026-11-21T06-04-03.123.log")
			w.compress("audit-2026-11-21T06-04-03.123.log")
			w.open()
			w.lines(5)
		},
		"rotated five times, some compressed, and both ways": func(w *writer) {
			w.lines(5)
			w.rename("audit.log", "audit-2026-11-21T06-04-03.123.log.3")
			w.compress("audit-2026-11-21T06-04-03.123.log.3")
			w.file("audit.log.4.gz", 5)
			w.file("audit.log-20261121", 5)
			w.file("audit.log.2.gz", 5)
			w.file("audit.log.1", 5)
			w.open()
			w.lines(5)
		},
		"copied and truncated": func(w *writer) {
			w.lines(5)
			w.copy("audit.log", "audit.log.1")
			w.truncate()
			w.lines(1)
		},
		"copied, truncated and compressed": func(w *writer) {
			w.lines(5)
			w.copy("audit.log", "audit.log.1")
			w.truncate()
			w.compress("audit.log.1")
			w.lines(50)
		},
		"a copy next to it": func(w *writer) { w.copy("audit.log", "audit.log.1"); w.lines(5) },
	} {
		t.Run(name, func(t *testing.T) {
			w, st := logIn(t), newStored()
			w.lines(7)
			s := st.start(t, following(w))
			st.await(t, w.lane(), w.want)
			s.crash()
			away(w)
			s = st.start(t, following(w))
			st.await(t, w.lane(), w.want)
			w.lines(2)
			st.await(t, w.lane(), w.want)
			s.crash()
			st.noGaps(t)
			if st.counts.Malformed > 0 {
				t.Errorf("malformed: %v", st.places)
			}
		})
	}
}

// TestFollowInodeReused: vector#18342, #25079, beats#1341, #40197 and fluent-bit#8025 took a new file for the one whose inode it had got.
func TestFollowInodeReused(t *testing.T) {
	for _, rotated := range []bool{false, true} {
		t.Run(fmt.Sprintf("rotated %t", rotated), func(t *testing.T) {
			w, st := logIn(t), newStored()
			w.lines(7)
			s := st.start(t, following(w))
			st.await(t, w.lane(), w.want)
			s.crash()
			w.lines(2)
			if rotated {
				w.copy("audit.log", "audit.log.1")
			} else {
				w.want = w.want[:7]
			}
			check(t, os.Remove(w.path))
			w.open()
			w.lines(30) // longer than the old one was
			// Not every file system reuses inodes when a test wants it to: the position gets this one.
			p, err := parsePosition(st.positions[w.lane()])
			check(t, err)
			info, err := os.Stat(w.path)
			check(t, err)
			p.Device, p.Inode = deviceAndInode(info)
			st.positions[w.lane()] = p.String()
			st.start(t, following(w))
			st.await(t, w.lane(), w.want)
			if rotated {
				st.noGaps(t)
			} else {
				st.oneGap(t, "is not next to the log any more: what was written to it later may be lost")
			}
		})
	}
}

// TestFollowCopyTruncated: beats#45300 lost 100 and 35 of 150 lines, fluent-bit#375 and #445 others. What is written between the copying and
// the truncation is lost exactly if it was not read before.
func TestFollowCopyTruncated(t *testing.T) {
	t.Run("read in time", func(t *testing.T) {
		w, st := logIn(t), newStored()
		st.start(t, following(w))
		for i := range 5 {
			w.lines(5)
			w.copy("audit.log", fmt.Sprintf("audit.log.%d", 9-i))
			w.lines(2)
			st.await(t, w.lane(), w.want) // these are in no copy
			w.truncate()
			w.lines(7 * (i % 2)) // the new content is as long as the old was, or comes later
		}
		w.lines(1)
		st.await(t, w.lane(), w.want)
		st.noGaps(t)
	})
	t.Run("not read in time", func(t *testing.T) {
		w, st := logIn(t), newStored()
		s := st.start(t, following(w))
		w.lines(5)
		st.await(t, w.lane(), w.want)
		s.crash()
		w.lines(3)
		w.copy("audit.log", "audit.log.1")
		before := len(w.want)
		w.lines(2) // the window
		w.truncate()
		w.want = w.want[:before]
		w.lines(4)
		st.start(t, following(w))
		st.await(t, w.lane(), w.want)
	})
	t.Run("no copy", func(t *testing.T) {
		w, st := logIn(t), newStored()
		st.start(t, following(w))
		w.lines(5)
		st.await(t, w.lane(), w.want)
		w.truncate()
		w.lines(5)
		st.await(t, w.lane(), w.want)
		st.oneGap(t, "was truncated in place and there is no copy of it")
	})
	t.Run("same size at once", func(t *testing.T) {
		w, st := logIn(t), newStored()
		st.start(t, following(w))
		w.lines(5)
		st.await(t, w.lane(), w.want)
		f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
		check(t, err)
		defer f.Close()
		w.copy("audit.log", "audit.log.1")
		_, err = f.WriteAt([]byte(w.make(5)), 0) // of the same length in one write: there is no moment at which it is shorter
		check(t, err)
		st.await(t, w.lane(), w.want)
		st.noGaps(t)
	})
	t.Run("rewritten shorter", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.size = 700
		s := st.start(t, following(w))
		w.lines(9)
		st.await(t, w.lane(), w.want)
		text, err := os.ReadFile(w.path)
		check(t, err)
		check(t, os.Truncate(w.path, int64(len(text)/9*7)))
		// Nothing new is lost, and what was read comes again.
		want := slices.Concat(w.want, w.want[:7])
		st.await(t, w.lane(), want)
		w.lines(1)
		st.await(t, w.lane(), append(want, w.want[9]))
		s.crash()
		// And so after a restart.
		check(t, os.Truncate(w.path, int64(len(text)/9*3)))
		st.start(t, following(w))
		st.await(t, w.lane(), append(append(want, w.want[9]), w.want[:3]...))
		st.noGaps(t)
	})
	t.Run("replaced by a shorter one", func(t *testing.T) {
		w, st := logIn(t), newStored()
		w.size = 700
		s := st.start(t, following(w))
		w.lines(9)
		st.await(t, w.lane(), w.want)
		want := slices.Clone(w.want)
		replace := func(lines int) { // as sed -i does, and the writer opens it again and continues
			t.Helper()
			text, err := os.ReadFile(w.path)
			check(t, err)
			check(t, os.WriteFile(w.beside("new"), bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:lines], nil), 0o600))
			w.rename("new", "audit.log")
			w.open()
			want = append(want, w.want[:lines]...)
			from := len(w.want)
			w.lines(1)
			want = append(want, w.want[from:]...)
		}
		replace(7)
		st.await(t, w.lane(), want)
		s.crash()
		replace(3)
		st.start(t, following(w))
		st.await(t, w.lane(), want)
		st.noGaps(t)
	})
}

// TestFollowNULs: two rotators left 1 GB of NUL bytes in kubo-deployment#370 and k/k#52865.
func TestFollowNULs(t *testing.T) {
	const hole = 16 << 20
	w, st := logIn(t), newStored()
	f, err := os.Create(w.path) // a writer that does not append
	check(t, err)
	w.f = f
	w.lines(5)
	st.start(t, following(w))
	st.await(t, w.lane(), w.want)
	w.copy("audit.log", "audit.log.1")
	w.truncate()
	_, err = f.Seek(hole, 0)
	check(t, err)
	w.lines(5)
	st.await(t, w.lane(), w.want)
	w.text(sized("torn", 0, 300)[:200])
	_, err = f.Seek(5<<20, 1)
	check(t, err)
	w.lines(5)
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.counts.NULBytes != hole+5<<20 || st.counts.Malformed != 1 || len(st.places) != 1 || st.places[0].Line != 6 {
		t.Errorf("%+v, %v", st.counts, st.places)
	}
}

// TestFollowPartial: a line without its end is never handed on, fluent-bit#5382, but for the rest of a file that was rotated away.
func TestFollowPartial(t *testing.T) {
	w, st := logIn(t), newStored()
	s := st.start(t, following(w))
	for i := range 20 {
		line := w.make(1)
		cut := i * (len(line) - 1) / 19
		w.text(line[:cut])
		if i%3 == 0 {
			st.await(t, w.lane(), w.want[:len(w.want)-1])
		}
		if i%7 == 0 {
			s.crash()
			s = st.start(t, following(w))
		}
		w.text(line[cut:])
	}
	st.await(t, w.lane(), w.want)
	w.text(event("torn", *w.n)[:150])
	w.rename("audit.log", "audit.log.2")
	w.open()
	w.lines(1)
	st.await(t, w.lane(), w.want)
	w.text(event("whole", *w.n)) // whole but for its newline
	w.rename("audit.log", "audit.log.1")
	w.open()
	w.want = append(w.want, "whole")
	w.lines(1)
	st.await(t, w.lane(), w.want)
	s.crash()
	st.start(t, following(w))
	w.lines(1)
	st.await(t, w.lane(), w.want)
	st.noGaps(t)
	if st.counts.Malformed != 1 || len(st.places) != 1 || st.places[0].Line != 21 {
		t.Errorf("%+v, %v", st.counts, st.places)
	}
}

// TestFollowSharedHeads: the heads of audit logs are alike, beats#51417.
func TestFollowSharedHeads(t *testing.T) {
	w, st := logIn(t), newStored()
	if a, b := event("00000001", 1), event("00000002", 2); a[:77] != b[:77] {
		t.Fatal("the heads of the test are not alike")
	}
	w.lines(1)
	s := st.start(t, following(w))
	st.await(t, w.lane(), w.want)
	for i := range 20 {
		w.rename("audit.log", fmt.Sprintf("audit.log.%d", 99-i))
		if i%2 == 0 {
			w.compress(fmt.Sprintf("audit.log.%d", 99-i))
		}
		w.open()
		w.lines(1) // of one line each
		if i%3 == 0 {
			s.crash()
			s = st.start(t, following(w))
		}
		st.await(t, w.lane(), w.want)
	}
	st.noGaps(t)
}
