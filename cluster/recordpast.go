package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Past is what a journal of [Record] says of its end, so that another recording can continue it. One recording can use it.
type Past [numKinds]pastKind

type pastKind struct {
	journalScan
	lost bool // something cannot be read, and no list has begun since
}

// entryBegin is how an entry of a journal begins.
const entryBegin = `{"observedAt":"`

var errNoEntry = errors.New("no entry of a journal")

// ReadPast reads a journal. The number returned is how many bytes of it are lines with an end: a crash has left what follows, which begins as an entry does. It returns
// an *InputError if neither of the first two lines is an entry of a journal, or the last one does not begin as one, and if r fails. Another line that cannot be read may have
// been of any kind: each kind is listed again by whoever continues, unless that has happened in the journal.
func ReadPast(name string, r io.Reader) (*Past, int64, error) {
	p := &Past{}
	for id := range p {
		p[id].forget()
	}
	n, read, useless := 0, 0, 0
	whole, rest, err := eachLine(r, func(line []byte) bool {
		if n++; p.line(line) {
			read++
		}
		if n == 2 && read == 0 { // one may be what a crash has left
			useless = 1
		}
		return useless == 0
	})
	if n == 1 && read == 0 {
		useless = 1
	}
	if begin := bytes.Trim(rest[:min(len(rest), len(entryBegin))], "\x00"); !strings.HasPrefix(entryBegin, string(begin)) {
		useless = n + 1 // zeros are what a crash of the machine leaves
	}
	switch {
	case err != nil:
		return nil, 0, &InputError{Path: name, Err: err}
	case useless > 0: // somebody else's file
		return nil, 0, &InputError{Path: name, Line: useless, Err: errNoEntry}
	}
	return p, whole, nil
}

// line takes in a line, and reports whether it is an entry.
func (p *Past) line(line []byte) bool {
	e, begin, ok := readEntry(line)
	if ok && e.Type == "ERROR" {
		return true
	}
	group, _, _ := cutVersion(e.Object.APIVersion)
	id, matters := kindByName(group, e.Object.Kind)
	if ok && !matters {
		return true
	}
	if ok {
		k := &p[id]
		if k.lost && e.Type == "BOOKMARK" && e.Object.Metadata.ResourceVersion == "" && e.NotBefore.IsZero() {
			k.lost = false
		}
		ok = k.lost || k.entry(&e, begin, len(line), id)
	}
	if !ok {
		for id := range p {
			p[id].forget()
			p[id].lost = true
		}
	}
	return ok
}

func (k *pastKind) forget() {
	k.journalScan = journalScan{known: map[nodeauthz.NamespacedName]knownObject{}}
}

// take gives recorders of all kinds what the journal says. What is in it from a time that is still to come was written by a clock that was set back since.
func (p *Past) take(all []*kindRecorder) {
	for id, k := range all {
		k.resumes = true
		if was := &p[id]; was.listed {
			k.version, k.rv, k.known, k.listed, k.good = was.version, was.rv, was.known, true, was.good
			if now := k.cfg.Now(); k.good.After(now) {
				k.good = now
			}
			for name, o := range k.known {
				o.stored = stored{}
				k.known[name] = o
			}
		}
	}
	callWitness(all)
}
