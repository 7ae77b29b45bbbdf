package file

import (
	"fmt"
	"os"
)

// patience is for how many polls a compressed file that is cut off, and a live log that is shorter than what was read, is taken for one that is still being
// written.
const patience = 5

// changed continues after the current file was truncated or rewritten; false to try again later.
func (l *lane) changed() bool {
	old := l.cur
	entries, err := l.fam.scan()
	if err != nil {
		l.say("folder", err)
		return false
	}
	var found *entry
	for i := range entries {
		e := &entries[i]
		switch {
		case e.err != nil || !e.same(old.mark):
		case e.sameFile(old.mark):
			if tells(e.head) && len(e.head) >= len(old.head) {
				return l.reread(e)
			}
		case found == nil || found.packed && !e.packed || found.packed == e.packed && found.info.Size() < e.info.Size():
			found = e
		}
	}
	if found != nil {
		p := old.position()
		t, _, err := resume(found, &p)
		if err != nil {
			l.say(found.path, err)
			return false
		}
		t.final = true
		l.log.Info().Str("path", old.path).Str("copy", t.path).Int64("offset", t.offset).Msg("the log was truncated; what was not read is read from its copy")
		old.close()
		l.cur = t
		return true
	}
	if len(old.head) > 0 {
		l.gap(fmt.Sprintf("%s was truncated in place and there is no copy of it: what was written after byte %d may be lost", old.path, old.offset))
		l.done = append(l.done, old.mark)
	}
	old.close()
	l.cur = nil
	return true
}

// reread begins a file again that was rewritten and still begins as it did.
func (l *lane) reread(e *entry) bool {
	t, err := openTailed(e)
	if err != nil {
		return false
	}
	l.log.Warn().Str("path", e.path).Int64("offset", l.cur.offset).Msg("the log was rewritten; it is read again from its beginning")
	l.cur.close()
	l.cur = t
	return true
}

// damaged handles an error of the current file: a compressed one may still be in the making; true if it was given up.
func (l *lane) damaged(err error) bool {
	t := l.cur
	l.say("read", err)
	if t.plain == nil {
		return false // a plain file may recover
	}
	info, statErr := os.Stat(t.path)
	size := int64(-1)
	if statErr == nil {
		size = info.Size()
	}
	if !l.again(t.path, size) {
		return false
	}
	if l.stuck.polls > patience {
		l.gap(err.Error())
		l.leave()
		return true
	}
	e := l.fam.reach.look(t.path)
	if e.err != nil || !e.packed || !e.sameFile(t.mark) {
		return false
	}
	p := t.position()
	next, again, err := resume(&e, &p)
	if err != nil {
		return false
	}
	if again {
		l.log.Warn().Str("path", t.path).Msg("the log was rewritten; it is read again from its beginning")
	}
	t.close()
	l.cur = next
	return false
}

// again is whether it is time to try a file again that could not be read, and counts how often that was in vain.
func (l *lane) again(path string, size int64) bool {
	if !l.ticked && l.stuck.path == path {
		return false
	}
	l.ticked = false
	if l.stuck.path != path || l.stuck.size != size {
		l.stuck.path, l.stuck.size, l.stuck.polls = path, size, 0
	}
	l.stuck.polls++
	return true
}

// renamed is whether the live log is the current file under another inode, as some editors and file systems have it; then that is
// read on. If it stays shorter than what was read, it is no copy in the making, and is read from its beginning.
func (l *lane) renamed() bool {
	t := l.cur
	for _, e := range l.fam.seen {
		if !e.live || e.err != nil || e.packed || !tells(e.head) || !e.same(t.mark) || e.sameFile(t.mark) {
			continue
		}
		if e.info.Size() < t.offset {
			if l.ticked {
				l.ticked = false
				t.shorter++
			}
			return t.shorter > patience && l.reread(&e)
		}
		p := t.position()
		next, _, err := resume(&e, &p)
		if err != nil {
			return false
		}
		t.close()
		l.cur = next
		return true
	}
	return false
}
