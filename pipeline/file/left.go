package file

import (
	"fmt"
	"os"
)

// leftFor is for how many polls a file is looked at that was rotated away and read to its end, and mostLeft how many such files are at a time.
const (
	leftFor  = 60
	mostLeft = 4
)

// left is a file that was read to its end when the next one had begun. Nobody should write to it then. A program that has it open still can, and what it writes is
// not read: the lane reads one file at a time.
type left struct {
	f     *os.File
	path  string
	size  int64
	polls int
}

// leaves keeps the current file to be looked at, and takes it from the lane.
func (l *lane) leaves() {
	t := l.cur
	if t.final || !t.wasLive {
		t.close()
		return
	}
	if len(l.left) == mostLeft {
		_ = l.left[0].f.Close()
		l.left = l.left[1:]
	}
	l.left = append(l.left, left{f: t.f, path: t.path, size: t.offset})
}

// lookBack notes what was written to files after they were left.
func (l *lane) lookBack() {
	kept := l.left[:0]
	for _, f := range l.left {
		f.polls++
		info, err := f.f.Stat()
		if grown := err == nil && info.Size() > f.size; grown || err != nil || f.polls > leftFor {
			if grown {
				l.gap(fmt.Sprintf("%d bytes were written to the file that was %s after it had been rotated away and the next one had begun: they were not read", info.Size()-f.size, f.path))
			}
			_ = f.f.Close()
			continue
		}
		kept = append(kept, f)
	}
	l.left = kept
}

// closeLeft looks no longer.
func (l *lane) closeLeft() {
	for _, f := range l.left {
		_ = f.f.Close()
	}
	l.left = nil
}
