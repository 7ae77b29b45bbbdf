package cluster

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"
)

// source gives the changes of one input in the order of the input, each with a time.
type source struct {
	path  string
	stdin io.Reader
	d     *decoder
	order int // as given by the user

	p      *parser  // nil: not open
	listed []change // instead of p for an input that has no clock, all of it
	head   change
	done   bool

	// start is when the input began to observe: an object that was made before that was there already.
	start int64
	last  int64
	kinds [numKinds]kindProgress
	slow  behind
	// ahead are the nodes whose kubelets' clocks are ahead, by how much.
	ahead map[string]int64

	// etcd is a snapshot of etcd, which becomes part of a history; nothing else is there then.
	etcd *etcdSnapshot
	// until is from when on nothing is known, for an input that ends in the past. 0: it tells what there is.
	until int64
}

// kindProgress is what a source has said of a kind so far.
type kindProgress struct {
	// begun is the time of the first change since the kind was listed without a word on what was known before; 0: none yet.
	begun   int64
	listing bool // still in the initial list
	whole   bool // the list had a marked end, so that it holds all namespaces
	scope   map[string]struct{}
	last    int64 // time of the last entry
	run     listRun
}

// showsAll reports whether the list held all namespaces, or objects that are in none.
func (k *kindProgress) showsAll() bool {
	_, cluster := k.scope[""]
	return k.whole || len(k.scope) > 1 || cluster
}

// newSource opens an input and reads so far that its first change is known.
func newSource(path string, stdin io.Reader) (*source, error) {
	s := &source{path: path, stdin: stdin, d: newDecoder()}
	s.d.dates = true
	var err error
	if s.p, err = openParser(path, stdin, s.d); err != nil {
		return nil, err
	}
	if s.p.in.etcd != nil {
		return &source{etcd: s.p.in.etcd}, nil
	}
	return s, s.begin()
}

// begin reads so far that the first change is known. It closes the input if that fails.
func (s *source) begin() error {
	c, err := s.p.next()
	switch {
	case errors.Is(err, io.EOF):
		s.done = true
		return nil
	case err != nil:
		s.p.close()
		return err
	case c.clocked:
		s.slow.correct(&c)
		s.head, s.start, s.last = c, c.at, c.at
		return nil
	}
	all := []change{c}
	for {
		c, err := s.p.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.p.close()
			return err
		}
		all = append(all, c)
	}
	s.p.close()
	s.start, s.ahead = date(all)
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	s.head, s.listed = all[0], all[1:]
	s.last = s.head.at
	return nil
}

// park closes the file of a source that is not read yet, for when there are more files than a process may have open.
func (s *source) park() {
	if s.p != nil && s.listed == nil && s.path != "-" && !s.done {
		s.p.close()
		s.p = nil
	}
}

// advance moves to the next change.
func (s *source) advance() error {
	if s.listed != nil {
		if len(s.listed) == 0 {
			s.done = true
			return nil
		}
		s.head, s.listed = s.listed[0], s.listed[1:]
		s.last = max(s.last, s.head.at)
		return nil
	}
	if s.p == nil {
		p, err := openParser(s.path, s.stdin, s.d)
		if err != nil {
			return err
		}
		s.p = p
		if _, err := p.next(); err != nil { // the one that is head
			if errors.Is(err, io.EOF) {
				err = &InputError{Path: p.path, Err: errors.New("the file changed while it was read")}
			}
			return err
		}
	}
	c, err := s.p.next()
	if errors.Is(err, io.EOF) {
		s.done = true
		s.p.close()
		return nil
	}
	if err != nil {
		s.p.close()
		return err
	}
	if s.slow.correct(&c); c.at == 0 {
		c.at = s.last
	}
	s.last = c.at
	s.head = c
	return nil
}

const second = int64(time.Second)

// defaultGrace is a pod's grace period unless it says otherwise. The deletionTimestamp of a pod that is gone is when its deletion was
// asked for: the API server sets it back when the kubelet takes the grace period away.
const defaultGrace = 30 * time.Second

// date gives times to the changes of an input that has no clock, and returns when it began to observe.
//
// Objects of a snapshot, and those that a watch lists before it continues, are from the latest time found in any of them: none of them
// was written later, and the list was made thereafter. An event that follows is no earlier than the latest time written into any
// object before it, itself included, and no later than the next later one; without one, a second is taken for the difference, for
// the deletion of a pod its grace period. An object that stands in no list is from the latest time written into it: others may have been read long after.
//
// The times of kubelets whose clocks are ahead do not count. They are returned, and by how much they are ahead.
func date(all []change) (start int64, ahead map[string]int64) {
	end := 0 // of the snapshot or of the initial list
	seen := map[listedName]bool{}
	for end < len(all) && (all[end].verb == verbState || all[end].verb == verbAdded) {
		n := listedName{all[end].kind, all[end].ref.Namespace, all[end].ref.Name}
		if all[end].verb == verbAdded && seen[n] {
			break
		}
		seen[n] = true
		end++
	}
	ahead = findAhead(all, end)
	for i := range all {
		if c := &all[i]; len(ahead) > 0 && ahead[c.kubelet()] != 0 {
			c.latest = 0
		}
	}
	var now int64
	for i := range all[:end] {
		now = max(now, all[i].latest, all[i].created)
	}
	start = now
	for i := range all {
		c := &all[i]
		if c.alone {
			c.at = max(c.latest, c.created)
			continue
		}
		if i >= end {
			now = max(now, c.latest, c.created)
			if c.verb == verbDeleted {
				now = max(now, c.deletion)
			}
		}
		if !c.clocked {
			c.at = now
		}
	}
	next := int64(0)
	for i := len(all) - 1; i >= 0; i-- {
		c := &all[i]
		if i+1 < len(all) && all[i+1].at > c.at {
			next = all[i+1].at
		}
		if c.clocked || i < end {
			continue
		}
		c.slop = time.Second
		switch {
		case next > c.at:
			c.slop += time.Duration(next - c.at)
		case c.verb == verbDeleted && c.kind == kindPod:
			c.slop += defaultGrace
		}
	}
	return start, ahead
}

type listedName struct {
	kind            kindID
	namespace, name string
}
