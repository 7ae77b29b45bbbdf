package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Letter is input that is no audit event, kept for a person to look at.
type Letter struct {
	Time time.Time
	// Source is the lane that it came in by, with the offset or the like if there is one.
	Source string
	// Cause is one clause that says what is wrong with it.
	Cause string
	// Data is the input itself, or its beginning.
	Data []byte
	// Size is the length of the input in bytes where Data is only its beginning, else 0.
	Size int64
}

// Letters keeps what is no audit event. Put returns when all of the letters are safe, or an error, and then the input must not be
// acknowledged; some of them may have been kept all the same. It may be called concurrently.
type Letters interface {
	Put(letters ...Letter) error
}

// DeadLetterStats says what a DeadLetter has done since it was opened.
type DeadLetterStats struct {
	// Written counts the letters that are safe, Cut those among them whose data was too long to be kept whole.
	Written, Cut int64
	// Dropped counts the letters that were removed to make room, those of an earlier run included.
	Dropped int64
	// Failed counts the letters that could not be written.
	Failed int64
}

// DeadLetter keeps letters in a file of JSON lines, which only its owner may read:
//
//	{"time":"…","source":"webhook:audit","cause":"unexpected end","encoding":"text","data":"…"}
//
// The encoding is "text" for data that is valid UTF-8 and "base64" for other data. "size" is there when data is only the beginning of so
// many bytes. When the file is full it is renamed to path.1, in place of the one before, so that both together take at most twice the
// bound. A DeadLetter may be used concurrently, by one process.
type DeadLetter struct {
	path string
	max  int64

	mu    sync.Mutex
	file  *os.File
	size  int64 // of the whole lines in file
	torn  bool  // more may be in file than size, from a write that failed
	lines int64 // in file
	old   int64 // lines in path.1
	stats DeadLetterStats
}

// minLetterBytes is the least bound of a file: room for a letter's frame and something of its data.
const minLetterBytes = 16 << 10

// OpenDeadLetter opens or creates the file at path, which may grow to maxBytes, 16 KiB at least. A last line that a crash has torn
// is cut off: it was never acknowledged.
func OpenDeadLetter(path string, maxBytes int64) (*DeadLetter, error) {
	if maxBytes < minLetterBytes {
		return nil, fmt.Errorf("dead letters in %s: a bound of %d bytes is less than %d", path, maxBytes, minLetterBytes)
	}
	l := &DeadLetter{path: path, max: maxBytes}
	old, err := os.Open(l.rotated())
	switch {
	case err == nil:
		l.old, _, err = wholeLines(old)
		if err = errors.Join(err, old.Close()); err != nil {
			return nil, fmt.Errorf("dead letters: reading %s: %w", l.rotated(), err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *DeadLetter) rotated() string { return l.path + ".1" }

// open opens the file and finds its whole lines.
func (l *DeadLetter) open() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	fail := func(err error) error {
		return errors.Join(fmt.Errorf("dead letters: opening %s: %w", l.path, err), f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	var lines, size int64
	if info.Mode().IsRegular() {
		if lines, size, err = wholeLines(f); err != nil {
			return fail(err)
		}
		if err := syncDir(l.path); err != nil {
			return fail(err)
		}
	}
	l.file, l.lines, l.size, l.torn = f, lines, size, info.Size() > size
	return nil
}

// wholeLines counts the lines of a file that have an end, and their bytes.
func wholeLines(r io.Reader) (lines, size int64, err error) {
	buf := make([]byte, 64<<10)
	var read int64
	for {
		n, err := r.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			size = read + int64(i) + 1
		}
		read += int64(n)
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// syncDir makes the names in the folder of path last.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Put is as Letters says. After an error the next Put tries anew, so that a disk which is full for a while does no lasting harm.
func (l *DeadLetter) Put(letters ...Letter) error {
	if len(letters) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("dead letter to %s: %w", l.path, os.ErrClosed)
	}
	written, cut, err := l.put(letters)
	l.stats.Written += written
	l.stats.Cut += cut
	if err != nil {
		l.stats.Failed += int64(len(letters)) - written
		return fmt.Errorf("dead letter to %s: %w", l.path, err)
	}
	return nil
}

// put writes the letters and returns how many of them are safe, which after an error may be some.
func (l *DeadLetter) put(letters []Letter) (written, cut int64, err error) {
	if err := l.present(); err != nil {
		return 0, 0, err
	}
	if l.torn {
		if err := l.file.Truncate(l.size); err != nil {
			return 0, 0, err
		}
		l.torn = false
	}
	var pending, pendingCut, pendingBytes int64 // in the file, not yet safe
	settle := func() error {
		if err := l.file.Sync(); err != nil {
			return err
		}
		l.size += pendingBytes
		l.lines += pending
		written, cut = written+pending, cut+pendingCut
		pending, pendingCut, pendingBytes = 0, 0, 0
		return nil
	}
	for i := range letters {
		line, err := l.layOut(&letters[i])
		if err == nil && l.size+pendingBytes > 0 && l.size+pendingBytes+line.size > l.max {
			if err = settle(); err == nil {
				err = l.rotate()
			}
		}
		if err == nil {
			l.torn = true // until it is known to be whole
			err = line.write(l.file)
		}
		if err != nil {
			return written, cut, l.undo(err)
		}
		pending, pendingBytes = pending+1, pendingBytes+line.size
		if line.cut {
			pendingCut++
		}
	}
	if err := settle(); err != nil {
		return written, cut, l.undo(err)
	}
	l.torn = false
	return written, cut, nil
}

// present opens the file again if somebody has removed or renamed it: letters must not go where nobody finds them.
func (l *DeadLetter) present() error {
	at, err := os.Stat(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err == nil {
		ours, err := l.file.Stat()
		if err != nil {
			return err
		}
		if os.SameFile(at, ours) {
			return nil
		}
	}
	gone := l.file
	if err := l.open(); err != nil {
		return err
	}
	// All that counts as written is synced; a failed close has nothing to lose.
	_ = gone.Close()
	return nil
}

// undo takes back what is not safe.
func (l *DeadLetter) undo(cause error) error {
	l.torn = true
	if err := l.file.Truncate(l.size); err == nil {
		l.torn = false
	}
	return cause
}

// rotate begins a new file.
func (l *DeadLetter) rotate() error {
	if err := os.Rename(l.path, l.rotated()); err != nil {
		return err
	}
	l.stats.Dropped += l.old
	l.old = l.lines
	return l.present()
}

// Stats returns what was done so far.
func (l *DeadLetter) Stats() DeadLetterStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close closes the file. Put then returns an error.
func (l *DeadLetter) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

const letterEnd = "\"}\n"
