package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// model does to a log what rotation and its writers do, at random, while it is followed by one follower after another.
type model struct {
	*writer
	st       *stored
	s        *session
	r        *rand.Rand
	opt      FollowOptions
	rest     string   // of a line that was begun
	rotated  []string // the names of rotated files, the newest first
	upTo     []int    // how many events of want are in it and in those before
	history  []string
	windows  []window
	restarts int
}

// window are the events that were written between a copying and a truncation, by their place in want.
type window struct{ from, to int }

func (m *model) did(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *model) finishLine() {
	m.text(m.rest)
	m.rest = ""
}

// shift renames logrotate's files, so that 1 is free.
func (m *model) shift() {
	for i := len(m.rotated) - 1; i >= 0; i-- {
		name := fmt.Sprintf("audit.log.%d", i+2)
		if strings.HasSuffix(m.rotated[i], ".gz") {
			name += ".gz"
		}
		m.rename(m.rotated[i], name)
		m.rotated[i] = name
	}
}

func (m *model) add(name string) {
	m.rotated = slices.Insert(m.rotated, 0, name)
	m.upTo = slices.Insert(m.upTo, 0, len(m.want))
}

// last is the last event that is stored.
func (m *model) last() string {
	if got := m.st.lane(m.lane()); len(got) > 0 {
		return got[len(got)-1]
	}
	return ""
}

// drained is whether all is stored that must come.
func (m *model) drained() bool {
	i := len(m.want) - 1
	for ; slices.ContainsFunc(m.windows, func(w window) bool { return w.from <= i && i < w.to }); i-- {
		continue
	}
	return m.last() >= m.want[i]
}

func (m *model) step() {
	switch op := m.r.IntN(20); op {
	case 0, 1, 2, 3, 4, 5:
		m.finishLine()
		n := 1 + m.r.IntN(8)
		m.size = m.r.IntN(3) * 700
		m.lines(n)
		m.did("%d lines to %d", n, len(m.want))
	case 6, 7:
		m.finishLine()
		m.size = 0
		line := m.make(1)
		at := m.r.IntN(len(line))
		m.text(line[:at])
		m.rest = line[at:]
		m.did("%d bytes of line %d", at, len(m.want))
	case 8, 9, 10:
		late := m.r.IntN(2) == 0 // the writer opens the new file only later
		if !late {
			m.finishLine()
		}
		m.shift()
		m.rename("audit.log", "audit.log.1")
		if late {
			m.finishLine()
			m.lines(m.r.IntN(4))
		}
		m.add("audit.log.1")
		m.open()
		m.did("renamed, late %t, to %d", late, len(m.want))
	case 11, 12:
		m.finishLine()
		m.shift()
		m.copy("audit.log", "audit.log.1")
		m.add("audit.log.1")
		if m.r.IntN(4) == 0 {
			from := len(m.want)
			m.lines(1 + m.r.IntN(3))
			m.windows = append(m.windows, window{from, len(m.want)})
		}
		m.truncate()
		if m.r.IntN(2) == 0 {
			m.lines(1 + m.r.IntN(12))
		}
		m.did("copied and truncated to %d, %v", len(m.want), m.windows)
	case 13, 14, 15:
		if n := len(m.rotated); n > 0 {
			i := m.r.IntN(n)
			if !strings.HasSuffix(m.rotated[i], ".gz") {
				m.compress(m.rotated[i])
				m.rotated[i] += ".gz"
				m.did("compressed %d", i+1)
			}
		}
	case 16:
		// What is not stored would be lost: the oldest goes only when the model knows that it is.
		if n := len(m.rotated); n > 1 && m.last() > m.want[m.upTo[n-1]-1] {
			check(m.t, os.Remove(m.beside(m.rotated[n-1])))
			m.rotated, m.upTo = m.rotated[:n-1], m.upTo[:n-1]
			m.did("the oldest deleted")
		}
	case 17:
		// Deleted and made anew, with the same inode if the file system likes.
		m.finishLine()
		if m.s != nil && m.s.most == 0 {
			until(m.t, "all of what is deleted: "+fmt.Sprint(m.history), m.drained)
			check(m.t, os.Remove(m.path))
			m.open()
			m.lines(1 + m.r.IntN(3))
			m.did("deleted and made anew to %d", len(m.want))
		}
	default:
		m.s.crash()
		for range m.r.IntN(3) {
			m.did("while away:")
			m.away()
		}
		m.restart()
	}
}

// away does something while nobody follows.
func (m *model) away() {
	if op := m.r.IntN(3); op == 0 {
		m.finishLine()
		m.lines(2)
		return
	}
	m.finishLine()
	m.shift()
	m.rename("audit.log", "audit.log.1")
	m.add("audit.log.1")
	m.open()
	m.did("renamed to %d", len(m.want))
}

func (m *model) restart() {
	m.restarts++
	m.opt.PollOnly = m.r.IntN(2) == 0
	m.opt.Workers = 1 + m.r.IntN(3)
	most := m.r.IntN(4) * m.r.IntN(4)
	m.s = m.st.start(m.t, m.opt, func(s *session) { s.most = most })
	m.did("restart, %d batches are stored", most)
}

// TestFollowModel does everything at random and wants each line once and in order.
func TestFollowModel(t *testing.T) {
	for seed := range effort.Of(uint64(24), 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &model{writer: logIn(t), st: newStored(), r: rand.New(rand.NewPCG(seed, 4))}
			m.opt = following(m.writer)
			m.now = true
			m.lines(1)
			m.restart()
			for range 120 {
				m.step()
				if m.r.IntN(3) == 0 {
					time.Sleep(time.Duration(m.r.IntN(6)) * time.Millisecond) // other moments; nothing depends on it
				}
			}
			m.finishLine()
			m.lines(1)
			m.s.crash()
			m.st.start(t, m.opt)
			last := m.want[len(m.want)-1]
			until(t, "the last line; "+strings.Join(m.history, ", "), func() bool {
				got := m.st.lane(m.lane())
				return len(got) > 0 && got[len(got)-1] == last
			})
			// Of a window a beginning is there, if it was read in time, and all else.
			got := m.st.lane(m.lane())
			there := map[string]bool{}
			for _, id := range got {
				there[id] = true
			}
			var want []string
			lost := 0
			for i, id := range m.want {
				w := slices.IndexFunc(m.windows, func(w window) bool { return w.from <= i && i < w.to })
				if w >= 0 && !there[id] {
					for ; i < m.windows[w].to; i++ {
						if there[m.want[i]] {
							t.Errorf("%s is there, and %s before it is not", m.want[i], id)
						}
					}
					lost++
					continue
				}
				want = append(want, id)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%.1500s\n%s\nlog:\n%s", diff, strings.Join(m.history, ", "), m.st.log.String())
			}
			t.Logf("%d lines, %d restarts, %d lost of windows, %d gaps", len(got), m.restarts, lost, len(m.st.gaps))
		})
	}
}
