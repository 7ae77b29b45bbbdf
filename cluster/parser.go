package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// verb is what an entry says of its object.
type verb uint8

const (
	// verbState: the object is so (an object of a snapshot).
	verbState verb = iota
	verbAdded
	verbModified
	verbDeleted
	// verbListed: all objects of the kind have been listed (a bookmark as upstream's streaming lists end with).
	verbListed
	// verbBookmark: nothing else happened until then.
	verbBookmark
	// verbListing: all objects of the kind are about to be listed, by somebody who says nothing of what was known before (a bookmark without a version).
	verbListing
)

// change is one usable entry of an input.
type change struct {
	object
	verb verb
	// at and notBefore are Unix nanoseconds, 0 when the entry does not say.
	at, notBefore int64
	// clocked is true when at is a watcher's clock, not an estimate from timestamps.
	clocked bool
	// moved is by how much more than the change before it was moved in time: see behind.
	moved int64
	// slop is how much later than at it may have been, when it is an estimate.
	slop time.Duration
	// alone is true of an object that stands in no list: nothing says that it is the only one.
	alone bool
	line  int
}

// parser turns an input into changes. Entries that cannot be used are counted and passed over.
type parser struct {
	name string // of the input
	path string // for messages: the same, and the file in it if it is an archive
	in   *input
	f    *framer
	d    *decoder
	tally

	// docs are the documents of a YAML input that are still to come.
	docs []yamlDoc
	doc  int

	// held are items of a list whose kind was not known yet.
	held  []heldItem
	ready []change
	// outer are the lists of which an item that is a list is being read, the innermost last; lines is how many lines of the file are before it.
	outer []outerList
	lines int
	// cutOff counts the values that began and did not end.
	cutOff int
	// usable is whether there was any Kubernetes object at all, known whether one was of a kind that matters, if only it could be read.
	usable, known bool
	// partial says that the input is one of which nobody knows whether it holds all objects of a kind: a backup may be of some namespaces.
	partial bool
	// made says that the input was made from something that has no lines.
	made bool
}

// tally is what an input says in addition to its changes.
type tally struct {
	skipped   map[string]int // objects of other kinds
	malformed int
	places    []string
	errors    int // ERROR entries: the watch had lost sight
}

const (
	maxPlaces = 20
	maxCutOff = 100
)

func (t *tally) bad(path string, line int, err error) {
	t.malformed++
	if len(t.places) < maxPlaces {
		var whole *InputError
		if !errors.As(err, &whole) {
			whole = &InputError{Path: path, Line: line, Err: err}
		}
		t.places = append(t.places, whole.Error())
	}
}

func newParser(name string, in *input, d *decoder) *parser {
	return &parser{name: name, path: name, in: in, d: d, tally: tally{skipped: map[string]int{}}}
}

func openParser(path string, stdin io.Reader, d *decoder) (*parser, error) {
	name := path
	if path == "-" {
		name = stdinName
	}
	in, err := openInput(path, stdin)
	if err != nil {
		return nil, &InputError{Path: name, Err: err}
	}
	p := newParser(name, in, d)
	p.partial = in.archive != nil || ofBundle(path)
	switch {
	case in.etcd != nil:
	case in.archive != nil:
		p.f = newFramer(strings.NewReader(""), maxValueBytes)
	case in.yaml:
		if err := p.readYAML(); err != nil {
			in.close()
			return nil, err
		}
		p.f = newFramer(strings.NewReader(""), maxValueBytes)
	default:
		p.f = newFramer(in, maxValueBytes)
	}
	return p, nil
}

func (p *parser) close() { p.in.close() }

// next returns the next change, io.EOF at the end, or an *InputError when the input cannot be used any further.
func (p *parser) next() (change, error) {
	c, err := p.read()
	c.alone = c.alone || p.partial && c.verb == verbState
	return c, err
}

func (p *parser) read() (change, error) {
	for {
		if len(p.ready) > 0 {
			c := p.ready[0]
			p.ready = p.ready[1:]
			return c, nil
		}
		v, err := p.f.next()
		switch {
		case err == nil:
			if c, ok, err := p.value(v); err != nil {
				return change{}, err
			} else if ok {
				return c, nil
			}
		case errors.Is(err, io.EOF) && len(p.outer) > 0:
			p.leave()
		case errors.Is(err, io.EOF):
			for len(p.docs) == 0 {
				if err := p.nextFile(); err != nil {
					return change{}, err
				}
			}
			p.f = newFramer(bytes.NewReader(p.docs[0].json), maxValueBytes)
			p.doc, p.docs = p.docs[0].line, p.docs[1:]
		default:
			if err := p.broken(err); err != nil {
				return change{}, err
			}
		}
	}
}

// nextFile opens the next file of an archive. At the end, and in what is no archive, it returns what ends the input.
func (p *parser) nextFile() error {
	if p.in.archive == nil {
		return p.end()
	}
	docs, err := p.in.archive.next()
	if errors.Is(err, io.EOF) {
		p.path = p.name
		return p.end()
	}
	if file := p.in.archive.name; file != "" {
		p.path = p.name + ": " + file
	}
	var at *InputError
	switch {
	case errors.As(err, &at):
		at.Path = p.path
		return at
	case err != nil:
		return &InputError{Path: p.path, Err: err}
	}
	p.docs = docs
	return nil
}

func (p *parser) end() error {
	if p.usable {
		return io.EOF
	}
	err := errNoObjects
	if p.known {
		err = errNoneRead
	}
	if p.malformed > 0 {
		return &InputError{Path: p.path, Err: fmt.Errorf("%w; first: %s", err, p.places[0])}
	}
	return &InputError{Path: p.path, Err: err}
}

// broken deals with a value that is no JSON: it is counted and passed over. Where that is impossible, since a list was cut off or the
// file cannot be read, half of a state would pass for the whole.
func (p *parser) broken(err error) error {
	line := p.f.atLine
	var syntax *syntaxError
	known := errors.As(err, &syntax)
	var whole *InputError
	if errors.As(err, &whole) {
		return whole
	}
	inList := p.f.list || len(p.f.nesting) > 0
	switch {
	case known && !inList:
		what := "no JSON: " + syntax.msg
		if p.doc > 0 { // it was made of YAML
			what = "not a Kubernetes object"
		}
		p.bad(p.path, p.line(line), errors.New(what))
		p.f.resync()
		return nil
	case errors.Is(err, errCutOff) && !inList && p.cutOff < maxCutOff:
		p.cutOff++ // each time the rest of the input is read once more
		p.bad(p.path, p.line(line), err)
		p.f.resync()
		return nil
	case errors.Is(err, errCutOff) && !inList:
		return &InputError{Path: p.path, Line: p.line(line), Err: errors.New("too many values that do not end")}
	case known:
		return &InputError{Path: p.path, Line: p.line(syntax.line), Err: errors.New("no JSON: " + syntax.msg)}
	case errors.Is(err, errCutOff):
		return &InputError{Path: p.path, Line: p.line(p.f.line), Err: errors.New("the input ends in the middle of a list")}
	}
	return &InputError{Path: p.path, Line: p.line(line), Err: err}
}

// line is a line of the file; for YAML that of the document, and 0 for what has no lines.
func (p *parser) line(n int) int {
	switch {
	case p.made:
		return 0
	case p.doc > 0:
		return p.doc
	}
	return p.lines + n
}

// value makes a change of a framed value. ok is false when there is nothing in it to use.
func (p *parser) value(v *value) (c change, ok bool, err error) {
	line := p.line(v.line)
	switch v.form {
	case formOther:
		p.unusable(line, errNotAnObject)
		return change{}, false, nil
	case formItem:
		return p.item(v.fields, line, v.raw)
	case formListEnd:
		return p.listEnd(v)
	}
	if v.fields[fieldType] != nil && v.fields[fieldObject] != nil {
		c, ok, err := p.event(v)
		if err != nil {
			p.bad(p.path, line, err)
			return change{}, false, nil
		}
		c.line = line
		return c, ok, nil
	}
	c, ok, err = p.single("", "", v.raw, line)
	c.alone = true
	if errors.Is(err, errAuditLog) {
		return change{}, false, &InputError{Path: p.path, Line: line, Err: err}
	}
	if err != nil {
		p.unusable(line, err)
	}
	return c, ok, nil
}

// unusable counts a value that stands in no list. An archive has files of other kinds, too.
func (p *parser) unusable(line int, err error) {
	if p.in.archive == nil || !errors.Is(err, errNotAnObject) {
		p.bad(p.path, line, err)
	}
}

// single decodes an object of a snapshot. kind and apiVersion are those to assume when it does not say.
func (p *parser) single(kind, apiVersion string, raw []byte, line int) (c change, ok bool, err error) {
	k, v, err := p.d.typeOf(raw)
	if err != nil {
		return change{}, false, err
	}
	if k == "" {
		k, v = kind, apiVersion
	}
	o, ok, err := p.decode(k, v, raw)
	return change{object: o, verb: verbState, line: line}, ok && err == nil, err
}

// decode decodes an object if its kind matters, and counts it otherwise.
func (p *parser) decode(kind, apiVersion string, raw []byte) (o object, ok bool, err error) {
	if kind == "" {
		return object{}, false, errNotAnObject
	}
	group := groupOf(apiVersion)
	if group == "audit.k8s.io" {
		return object{}, false, errAuditLog
	}
	id, matters := kindByName(group, kind)
	if !matters {
		if err := p.d.otherType(raw, kind, group); err != nil || apiVersion == "" && kindNamed(kind) {
			p.known = true
			return object{}, false, cmp.Or(err, errNoVersion)
		}
		if !strings.HasSuffix(kind, "List") || !p.emptyList(raw) {
			p.skip(kind)
		}
		p.usable = true
		return object{}, false, nil
	}
	p.known = true
	o, err = p.d.object(id, raw)
	if err == nil && o.ref.Name == "" {
		err = errNoName
	}
	p.usable = p.usable || err == nil
	if id == kindLease && err == nil && (!o.server || o.ref.Namespace != serversNamespace) {
		p.skip(kind)
		return object{}, false, nil
	}
	return o, err == nil, err
}

const maxSkippedKinds = 1000

func (p *parser) skip(kind string) {
	if _, ok := p.skipped[kind]; !ok {
		if len(p.skipped) >= maxSkippedKinds {
			kind = "(others)"
		}
		kind = strings.Clone(kind)
	}
	p.skipped[kind]++
}

// event decodes a watch event.
func (p *parser) event(v *value) (c change, ok bool, err error) {
	if c.at, err = p.clock(v.fields[fieldObservedAt]); err != nil {
		return change{}, false, fmt.Errorf("observedAt: %w", err)
	}
	if c.notBefore, err = p.clock(v.fields[fieldNotBefore]); err != nil {
		return change{}, false, fmt.Errorf("notBefore: %w", err)
	}
	c.clocked = c.at != 0
	p.d.s.Reset(v.fields[fieldType])
	name := p.d.text()
	if err := p.d.s.Err(); err != nil {
		return change{}, false, fmt.Errorf("type: %w", err)
	}
	raw := v.fields[fieldObject]
	switch name {
	case "ADDED":
		c.verb = verbAdded
	case "MODIFIED":
		c.verb = verbModified
	case "DELETED":
		c.verb = verbDeleted
	case "BOOKMARK":
		return p.bookmark(c, raw)
	case "ERROR":
		p.usable = true
		p.errors++
		return change{}, false, nil
	default:
		return change{}, false, fmt.Errorf("unknown type of watch event %.40q", name)
	}
	if c.clocked {
		p.d.dates = false
	}
	kind, apiVersion, err := p.d.typeOf(raw)
	if err != nil {
		return change{}, false, err
	}
	c.object, ok, err = p.decode(kind, apiVersion, raw)
	return c, ok && err == nil, err
}

// clock reads an RFC 3339 time.
func (p *parser) clock(raw []byte) (int64, error) {
	if raw == nil {
		return 0, nil
	}
	p.d.s.Reset(raw)
	t := p.d.time()
	return t, p.d.s.Err()
}

// bookmark reads a bookmark: a sign of life or, with the annotation of upstream's streaming lists, the end of a list; without a version, the beginning of one.
func (p *parser) bookmark(c change, raw []byte) (change, bool, error) {
	kind, apiVersion, err := p.d.typeOf(raw)
	if err != nil {
		return change{}, false, err
	}
	p.usable = true
	id, matters := kindByName(groupOf(apiVersion), kind)
	if !matters {
		return change{}, false, nil
	}
	c.verb, c.kind = verbBookmark, id
	if bytes.Contains(raw, []byte(`"k8s.io/initial-events-end"`)) {
		c.verb = verbListed
	} else if c.notBefore == 0 && hasNoVersion(raw) {
		c.verb = verbListing
	}
	return c, c.clocked, nil
}

// hasNoVersion reports whether an object has a resource version that is empty.
func hasNoVersion(raw []byte) bool {
	var o struct {
		Metadata struct{ ResourceVersion *string }
	}
	return json.Unmarshal(raw, &o) == nil && o.Metadata.ResourceVersion != nil && *o.Metadata.ResourceVersion == ""
}
