package denylog

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Denial is a NODE DENY line.
type Denial struct {
	File string
	// Line counts from 1.
	Line int
	// Time is in UTC. klog's text form has no year and no zone: it is the year nearest to the requests, and UTC.
	Time time.Time
	// Text is what the line says, at most [MaxText] bytes of it; it holds names from requests, which may hold control characters. Empty for a line of
	// which the form is not known.
	Text     string
	key      string
	yearless bool
	// Review says that an access review asked, such as a SubjectAccessReview: no request was refused.
	Review bool
}

// Match is a line with its request.
type Match struct {
	Denial
	AuditID string
	// Unknown says that the API server's graph did not know the object, or the node.
	Unknown bool
}

// Request is a node's request that the Node authorizer refused, or may have refused.
type Request struct {
	AuditID string
	// User is the user's name, Node what follows its prefix, which may be empty.
	User, Node                                             string
	Verb, APIGroup, Resource, Subresource, Namespace, Name string
	// From and To are when the API server received the request and answered it; a zero To is not known.
	From, To time.Time
	// Static says that the refusal does not depend on the graph: then the line has the attributes of the request.
	Static bool
}

// Result is what became of the lines.
type Result struct {
	// Lines counts the NODE DENY lines, Matched and Unmatched are those that were kept, in the order of time.
	Lines              int64
	Matched, Unmatched []Match
	// Reviews counts those of Unmatched that answer access reviews. Outside counts those of Unmatched that were written before the first or after the last event of the audit log, Unreadable those whose form is
	// not known. Dropped counts lines beyond the bound, which are in neither list.
	Reviews, Outside, Unreadable, Dropped int64
}

const (
	// MaxText bounds what is kept of a line to be shown.
	MaxText = 512
	maxLine = 64 << 10
	// tolerance is for rounding: both clocks are the API server's.
	tolerance = time.Millisecond
	// longest is how long a request waits for authorization at most: the queues of API priority and fairness come before it.
	longest = time.Minute
)

// Log holds the NODE DENY lines of an API server's log. Its memory is bounded. It is not safe for concurrent use.
type Log struct {
	all   []Denial
	byKey map[string]*class
	asked []request
	buf   []byte

	lines, dropped, unreadable int64
	held, mostHeld             int // bytes
	mostAsked                  int
}

// class is lines that say the same, and the requests to which that applies.
type class struct {
	key     string
	unknown bool
	asked   []int
	// While lines are matched:
	next int
	open requestHeap
}

type request struct {
	id       string
	from, to time.Time
	taken    bool
}

// New returns an empty log.
func New() *Log { return &Log{byKey: map[string]*class{}, mostHeld: 256 << 20, mostAsked: 1 << 20} }

// ErrNoLog is of what has lines, and none that a component of Kubernetes writes.
var ErrNoLog = errors.New("no line of it is as the API server logs, in text or JSON")

// Read reads a log, named name, to its end. It returns the reader's error; what was read before counts. [ErrNoLog] is of something else than a log.
func (l *Log) Read(name string, r io.Reader) error {
	b := bufio.NewReaderSize(r, maxLine)
	var begun *said // a line whose text continues
	var at int
	is := false
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		is = is || isLog(line)
		long := errors.Is(err, bufio.ErrBufferFull)
		if begun != nil && !long {
			if more, last := goesOn(line, begun); !more {
				if !last {
					begun.text = "" // it broke off
				}
				l.add(name, at, begun)
				begun = nil
			}
		} else if s, ok := parse(line); ok {
			switch at = n; {
			case long:
				l.add(name, n, &said{})
			case s.open:
				begun = &s
			default:
				l.add(name, n, &s)
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = b.ReadSlice('\n')
		}
		if err != nil {
			if begun != nil {
				begun.text = ""
				l.add(name, at, begun)
			}
			switch {
			case errors.Is(err, io.EOF) && !is && (n > 1 || len(line) > 0):
				return ErrNoLog
			case errors.Is(err, io.EOF):
				return nil
			}
			return err
		}
	}
}

// goesOn takes in a further line of a text that klog wrote in several: each is indented by a tab, and " >" is the last.
func goesOn(line []byte, s *said) (more, last bool) {
	line = bytes.TrimRight(line, "\r\n")
	line = line[len(prefix.Find(line)):]
	if string(line) == " >" {
		return false, true
	}
	if len(line) == 0 || line[0] != '\t' || len(s.text)+len(line) > maxLine {
		return false, false
	}
	if s.text != "" {
		s.text += "\n"
	}
	s.text += string(line[1:])
	return true, false
}

func (l *Log) add(file string, line int, s *said) {
	l.lines++
	key := ""
	a, ok := parseRecord(s.text)
	switch {
	case ok:
		key = string(appendRecord(nil, &a))
	case s.text != "" && !strings.HasPrefix(s.text, "'"):
		key = s.text
	default:
		l.unreadable++
	}
	c := l.byKey[key]
	cost := 128
	if c == nil {
		cost += 2 * len(key)
	}
	if l.held += cost; l.held > l.mostHeld {
		l.held -= cost
		l.dropped++
		return
	}
	if c == nil && key != "" {
		c = &class{key: key}
		l.byKey[key] = c
	}
	d := Denial{File: file, Line: line, Time: s.at, yearless: s.yearless, Review: a.review}
	if c != nil {
		d.key = c.key
	}
	l.all = append(l.all, d)
}

func appendRecord(b []byte, a *asked) []byte {
	b = append(b, '\'')
	if a.review {
		b = append(b, '?')
	}
	for _, s := range [...]string{a.node, a.verb, a.group, a.resource, a.sub, a.namespace, a.name} {
		b = strconv.AppendQuote(b, s)
	}
	return b
}

// vertices are what the errors of upstream's graph call resources, by API group and resource.
var vertices = map[[2]string]string{
	{"", "secrets"}: "secret", {"", "configmaps"}: "configmap", {"", "pods"}: "pod", {"", "nodes"}: "node",
	{"", "persistentvolumeclaims"}: "pvc", {"", "persistentvolumes"}: "pv", {"", "serviceaccounts"}: "serviceAccount",
	{"storage.k8s.io", "volumeattachments"}: "volumeattachment", {"resource.k8s.io", "resourceclaims"}: "resourceclaim",
	{"resource.k8s.io", "resourceslices"}: "resourceslice", {"certificates.k8s.io", "podcertificaterequests"}: "podcertificaterequest",
}

// See takes in a request, after all lines were read. The strings are copied where they are kept. Requests to which no line applies cost no memory.
func (l *Log) See(r *Request) {
	at := -1
	look := func(unknown bool) {
		c := l.byKey[string(l.buf)]
		if c == nil {
			return
		}
		if at < 0 {
			if len(l.asked) >= l.mostAsked {
				return
			}
			to := r.From.Add(longest)
			if !r.To.IsZero() && r.To.Before(to) {
				to = r.To
			}
			at = len(l.asked)
			l.asked = append(l.asked, request{id: strings.Clone(r.AuditID), from: r.From.Add(-tolerance), to: to.Add(tolerance)})
		}
		c.asked, c.unknown = append(c.asked, at), unknown
	}
	if r.Node == "" {
		l.buf = strconv.AppendQuote(append(l.buf[:0], "unknown node for user "...), r.User)
		look(false)
		return
	}
	l.buf = appendRecord(l.buf[:0], &asked{
		node: r.Node, verb: r.Verb, group: r.APIGroup, resource: r.Resource, sub: r.Subresource, namespace: r.Namespace, name: r.Name,
	})
	look(false)
	vertex := vertices[[2]string{r.APIGroup, r.Resource}]
	if r.Static || vertex == "" {
		return
	}
	for i, form := range [...][3]string{
		{"node '", "' cannot get unknown ", ""},
		{"unknown node '", "' cannot get ", ""},
		{"node '", "' cannot get ", ", no relationship to this object was found in the node authorizer graph"},
	} {
		l.buf = append(append(append(l.buf[:0], form[0]...), r.Node...), form[1]...)
		l.buf = append(append(append(l.buf, vertex...), ' '), r.Namespace...)
		l.buf = append(append(append(l.buf, '/'), r.Name...), form[2]...)
		look(i < 2)
	}
}

// Match matches each line with a request: as many as possible, and none twice. first and last are the times of the audit log's events.
func (l *Log) Match(first, last time.Time) *Result {
	out := &Result{Lines: l.lines, Unreadable: l.unreadable, Dropped: l.dropped}
	for i := range l.all {
		if d := &l.all[i]; d.yearless && d.key != "" {
			d.Time = nearest(d.Time, first)
		}
	}
	slices.SortStableFunc(l.all, func(a, b Denial) int { return a.Time.Compare(b.Time) })
	for _, c := range l.byKey {
		c.next, c.open.list, c.open.of = 0, nil, l.asked
		slices.SortStableFunc(c.asked, func(i, j int) int { return l.asked[i].from.Compare(l.asked[j].from) })
	}
	for i := range l.asked {
		l.asked[i].taken = false
	}
	for _, d := range l.all {
		m := Match{Denial: d}
		c := l.byKey[d.key]
		if c == nil {
			out.Unmatched = append(out.Unmatched, m)
			continue
		}
		m.Text = shown(d.key)
		m.Unknown = c.unknown
		if i, ok := c.take(d.Time); ok {
			m.AuditID = l.asked[i].id
			l.asked[i].taken = true
			out.Matched = append(out.Matched, m)
			continue
		}
		switch {
		case d.Review:
			out.Reviews++
		case d.Time.Before(first.Add(-tolerance)) || d.Time.After(last.Add(tolerance)):
			out.Outside++
		}
		out.Unmatched = append(out.Unmatched, m)
	}
	return out
}

// take finds the request in progress at t that ended first: so a later line has the greatest choice. Times must not go back.
func (c *class) take(t time.Time) (int, bool) {
	for ; c.next < len(c.asked) && !c.open.of[c.asked[c.next]].from.After(t); c.next++ {
		heap.Push(&c.open, c.asked[c.next])
	}
	for len(c.open.list) > 0 {
		i := heap.Pop(&c.open).(int)
		if r := &c.open.of[i]; !r.taken && !r.to.Before(t) {
			return i, true
		}
	}
	return 0, false
}

// requestHeap has the request that ends first on top.
type requestHeap struct {
	of   []request
	list []int
}

func (h *requestHeap) Len() int           { return len(h.list) }
func (h *requestHeap) Less(i, j int) bool { return h.of[h.list[i]].to.Before(h.of[h.list[j]].to) }
func (h *requestHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *requestHeap) Push(x any)         { h.list = append(h.list, x.(int)) }
func (h *requestHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// nearest puts t into the year in which it is nearest to a time.
func nearest(t, to time.Time) time.Time {
	var best time.Time
	for year := to.Year() - 1; year <= to.Year()+1; year++ {
		at := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		if best.IsZero() || at.Sub(to).Abs() < best.Sub(to).Abs() {
			best = at
		}
	}
	return best
}

// shown is what a line says, for a reader.
func shown(key string) string {
	s := key
	if rest, ok := strings.CutPrefix(key, "'"); ok {
		rest, review := strings.CutPrefix(rest, "?")
		var f [7]string
		for i := range f {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				break
			}
			f[i], _ = strconv.Unquote(q)
			rest = rest[len(q):]
		}
		what := f[3]
		if f[4] != "" {
			what += "/" + f[4]
		}
		if f[2] != "" {
			what += "." + f[2]
		}
		s = fmt.Sprintf("node '%s' cannot %s %s", f[0], f[1], what)
		if name := strings.Trim(f[5]+"/"+f[6], "/"); name != "" {
			s += " " + name
		}
		if review {
			s += " (access review)"
		}
	}
	if len(s) > MaxText {
		s = strings.ToValidUTF8(s[:MaxText], "")
	}
	return s
}
