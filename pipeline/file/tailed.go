package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// errChanged says that what was read of a file is no longer what it holds.
var errChanged = errors.New("the file was truncated or rewritten")

// tailed is the file of a lane that is being read. It may have other names by now, or none.
type tailed struct {
	mark
	path  string
	f     *os.File
	first time.Time
	// plain reads a compressed file; nil if the file is plain itself.
	plain      io.Reader
	closePlain func()
	// offset is where the next line begins that was not handed on, and line its number, 0 if that is not known. last are the bytes before.
	offset, line int64
	last         []byte
	// nul says that the bytes before end with NUL bytes.
	nul bool
	// long is how much of that line was skipped already, since it is too long.
	long    int64
	reducer audit.Reducer // of that line
	size    int64         // when it was last looked at
	// final says that nobody writes to it: it is a copy, or compressed.
	final bool
	// wasLive says that it was the live log when it was read; succeeded that there was a newer file with content when it was last read to
	// its end; quiet counts the polls since.
	wasLive, succeeded bool
	quiet              int
	shorter            int // polls for which the live log began as it does and was shorter than what was read

	headSum   string // of the first headSumOf bytes of head
	headSumOf int
}

// openTailed opens an entry at its beginning. It is held to begin as the entry does, so that it shows if it is truncated before anything
// was read. That a file with another identity has taken its name by now is errChanged.
func openTailed(e *entry) (*tailed, error) {
	f, err := e.reach.open(e.path)
	if err != nil {
		return nil, unreadable(e.path, err)
	}
	t := &tailed{path: e.path, f: f, first: e.first, line: 1, closePlain: func() {}, final: e.packed}
	t.head = slices.Clone(e.head)
	if t.info, err = f.Stat(); err == nil && !t.sameFile(e.mark) {
		err = errChanged
	}
	if err == nil && e.packed {
		t.plain, t.closePlain, err = decompress(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, unreadable(e.path, err)
	}
	t.size = t.info.Size()
	return t, nil
}

func (t *tailed) close() {
	if t == nil {
		return
	}
	if t.closePlain != nil {
		t.closePlain()
	}
	_ = t.f.Close()
}

// goTo moves to an offset that was read before; false if the file does not have as much.
func (t *tailed) goTo(offset, line int64) (bool, error) {
	if t.plain != nil {
		buf := make([]byte, 64<<10)
		for t.offset < offset {
			n, err := t.plain.Read(buf[:min(int64(len(buf)), offset-t.offset)])
			t.pass(buf[:n])
			t.offset += int64(n)
			if errors.Is(err, io.EOF) && t.offset < offset {
				t.line = line
				return false, nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return false, fmt.Errorf("%s: %w", t.path, err)
			}
		}
		t.line = line
		return true, nil
	}
	info, err := t.f.Stat()
	if err != nil {
		return false, unreadable(t.path, err)
	}
	t.size = info.Size()
	enough := t.size >= offset
	t.offset, t.line = min(offset, t.size), line
	if t.head, err = readHead(t.f, t.size); err != nil {
		return false, unreadable(t.path, err)
	}
	t.last = make([]byte, min(t.offset, tailBytes))
	if n, err := t.f.ReadAt(t.last, t.offset-int64(len(t.last))); n < len(t.last) {
		return false, unreadable(t.path, err)
	}
	return enough, nil
}

// pass remembers bytes that were read, one after the other from the file's beginning.
func (t *tailed) pass(b []byte) {
	if known := int64(len(t.head)) - t.offset - t.long; known >= 0 && known < int64(len(b)) {
		t.head = append(t.head, b[known:min(int64(len(b)), known+fingerprintBytes-int64(len(t.head)))]...)
	}
	if len(b) >= tailBytes {
		t.last = append(t.last[:0], b[len(b)-tailBytes:]...)
		return
	}
	t.last = append(t.last, b...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-tailBytes):]...)
}

// unchanged is whether a plain file still begins with what it began with, and has the same bytes before where it is read.
func (t *tailed) unchanged() bool {
	var buf [fingerprintBytes]byte
	head := buf[:len(t.head)]
	if n, _ := t.f.ReadAt(head, 0); n < len(head) || !bytes.Equal(head, t.head) {
		return false
	}
	last := buf[:len(t.last)]
	n, _ := t.f.ReadAt(last, t.offset+t.long-int64(len(last)))
	return n == len(last) && bytes.Equal(last, t.last)
}

// more reads what follows carry, the line that was begun. It returns both, and whether the file has no more at present. Then a compressed
// file is at its end.
func (t *tailed) more(carry []byte, alloc func(int) []byte) (buf []byte, atEnd bool, err error) {
	if t.plain != nil {
		buf, err = fill(t.plain, append(alloc(max(chunkBytes, 2*len(carry))), carry...))
		if errors.Is(err, io.EOF) {
			return buf, true, nil
		}
		if err != nil {
			err = fmt.Errorf("%s: reading stopped: %w", t.path, err)
		}
		return buf, false, err
	}
	info, err := t.f.Stat()
	if err != nil {
		return carry, false, unreadable(t.path, err)
	}
	t.size = info.Size()
	from := t.offset + t.long + int64(len(carry))
	there := t.size - from
	if there < 0 {
		return carry, false, errChanged
	}
	n := 0
	if there > 0 {
		want := int(min(there, int64(max(chunkBytes, 2*len(carry))-len(carry))))
		buf = append(alloc(len(carry)+want), carry...)
		n, err = t.f.ReadAt(buf[len(carry):len(carry)+want], from)
		buf = buf[:len(carry)+n]
		if errors.Is(err, io.EOF) {
			err = nil
		}
	} else {
		buf = carry
	}
	// Asked after the reading: until then, what was read was of the same file.
	if !t.unchanged() {
		return carry, false, errChanged
	}
	if err != nil {
		err = unreadable(t.path, err)
	}
	return buf, from+int64(n) >= t.size, err
}

// unbegun is whether nothing was read, and not even the first line is there.
func (t *tailed) unbegun() bool {
	return t.offset == 0 && t.long == 0 && t.plain == nil && len(t.head) < fingerprintBytes && bytes.IndexByte(t.head, '\n') < 0
}

// position is where the next line begins.
func (t *tailed) position() position {
	n := int(min(int64(len(t.head)), t.offset))
	if t.headSum == "" || t.headSumOf != n {
		t.headSum, t.headSumOf = sum(t.head[:n]), n
	}
	p := position{Path: t.path, Head: t.headSum, HeadBytes: n, Tail: sum(t.last), TailBytes: len(t.last), Offset: t.offset, Line: t.line, First: t.first}
	p.Device, p.Inode = deviceAndInode(t.info)
	return p
}

// resume opens an entry where a position is. Where the file is not what it was, it is read from its beginning again, and again is true.
func resume(e *entry, p *position) (t *tailed, again bool, err error) {
	if t, err = openTailed(e); err != nil {
		return nil, false, err
	}
	whole, err := t.goTo(p.Offset, p.Line)
	if err != nil {
		t.close()
		return nil, false, err
	}
	switch {
	case whole && len(t.last) >= p.TailBytes && sum(t.last[len(t.last)-p.TailBytes:]) == p.Tail:
	case !whole && !p.sameFile(e) && !e.live: // a copy that was made before all was read
		t.final = true
	default:
		t.close()
		now := e.reach.look(e.path)
		if now.err != nil || !now.sameFile(e.mark) || !p.matches(&now) {
			return nil, false, errChanged // it was truncated only just now, and then there may be a copy
		}
		t, err = openTailed(&now)
		return t, true, err
	}
	return t, false, nil
}
