package file

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// position is how far a lane was read: a place in one file, and what that file is known by, whatever it is called by then. Lanes store
// it as JSON.
type position struct {
	Version int `json:"v"`
	// Path is where the file was. It is for people only.
	Path string `json:"path"`
	// Device and Inode are 0 where the system has none.
	Device uint64 `json:"dev,omitempty"`
	Inode  uint64 `json:"ino,omitempty"`
	// Head is the fingerprint of the first HeadBytes of the plain content, Tail that of the TailBytes before Offset.
	Head      string `json:"head"`
	HeadBytes int    `json:"headBytes"`
	Tail      string `json:"tail"`
	TailBytes int    `json:"tailBytes"`
	// Offset is in bytes of the plain content, and behind a whole line; Line is the number of the line that begins there, 0 if
	// that is not known.
	Offset int64 `json:"offset"`
	Line   int64 `json:"line"`
	// First is the time of the file's first event, or what stands in for it: files that begin later are newer.
	First time.Time `json:"first"`
}

// maxPositionBytes bounds a stored position: a path of 4 KiB takes six times that as JSON at most.
const maxPositionBytes = 32 << 10

func (p position) String() string {
	p.Version = 1
	b, err := json.Marshal(p)
	if err != nil { // a year beyond 9999
		p.First = time.Time{}
		b, _ = json.Marshal(p)
	}
	return string(b)
}

// parsePosition reads what String wrote.
func parsePosition(s string) (position, error) {
	var p position
	if len(s) > maxPositionBytes {
		return position{}, fmt.Errorf("the stored position has %d bytes", len(s))
	}
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return position{}, fmt.Errorf("reading the stored position: %w", err)
	}
	sumOf := func(s string) bool {
		b, err := hex.DecodeString(s)
		return err == nil && len(b) == 16
	}
	switch {
	case p.Version != 1:
		return position{}, fmt.Errorf("the stored position is of version %d, not 1", p.Version)
	case p.Offset < 0, p.Line < 0, p.HeadBytes < 0, p.HeadBytes > fingerprintBytes, p.TailBytes < 0, p.TailBytes > tailBytes,
		int64(p.HeadBytes) > p.Offset, int64(p.TailBytes) > p.Offset, !sumOf(p.Head), !sumOf(p.Tail):
		return position{}, errors.New("the stored position is damaged")
	}
	return p, nil
}

// matches is whether an entry of the log's folder is the position's file.
func (p *position) matches(e *entry) bool {
	if len(e.head) < p.HeadBytes || sum(e.head[:p.HeadBytes]) != p.Head {
		return false
	}
	return tells(e.head[:p.HeadBytes]) || p.sameFile(e)
}

func (p *position) sameFile(e *entry) bool {
	device, inode := deviceAndInode(e.info)
	return (device != 0 || inode != 0) && device == p.Device && inode == p.Inode
}

// find returns the index of the position's file, -1 if it is gone: the file itself rather than a copy, a plain one rather than a compressed
// one, a longer one rather than a shorter.
func (p *position) find(entries []entry) int {
	best, rank := -1, -1
	for i := range entries {
		e := &entries[i]
		if !p.matches(e) {
			continue
		}
		r := 0
		switch {
		case p.sameFile(e):
			r = 3
		case e.packed:
			r = 1
		case e.info.Size() >= p.Offset:
			r = 2
		}
		if r > rank {
			best, rank = i, r
		}
	}
	return best
}
