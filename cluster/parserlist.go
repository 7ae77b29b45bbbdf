package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

type yamlDoc struct {
	line int
	json []byte
}

type heldItem struct {
	line int
	raw  []byte
}

// outerList is what the parser continues with after an item that is a list.
type outerList struct {
	f     *framer
	held  []heldItem
	lines int
}

// maxListDepth is how deep lists are read that are items of lists: each is read once more than the one around it.
const maxListDepth = 8

var errListDepth = fmt.Errorf("lists are nested more than %d deep", maxListDepth)

var errPage = errors.New("only a page of a list, with more to follow (metadata.continue); give the whole list, as kubectl get -A -o json prints it")

var errNoListKind = errors.New("the input ends in the middle of a list, or the list has no kind; a list in YAML needs one, such as kind: List")

// isPage reports whether a list is followed by further pages, by its metadata. Without them, objects that exist would seem not to.
func (p *parser) isPage(metadata []byte) bool { return p.text(p.member(metadata, "continue")) != "" }

// named reports whether JSON has a metadata.name. Every object has, and no list.
func (p *parser) named(raw []byte) bool {
	return p.text(p.member(p.member(raw, "metadata"), "name")) != ""
}

// member returns a member of a JSON object; nil if there is none, or no object.
func (p *parser) member(raw []byte, name string) (value []byte) {
	var key string
	s := &p.d.s
	s.Reset(raw)
	if s.Peek() != jscan.Object {
		return nil
	}
	for s.Object(); s.Key(&key); {
		if key == name {
			value = s.Raw()
		} else {
			s.Skip()
		}
	}
	if s.Err() != nil {
		return nil
	}
	return value
}

// text reads a JSON string, and anything else, nil too, as the empty one.
func (p *parser) text(raw []byte) string {
	if raw == nil {
		return ""
	}
	p.d.s.Reset(raw)
	return strings.Clone(p.d.text())
}

// enter continues with the items of a list that is an item itself, as where the outputs of several kubectl get are put into one List.
func (p *parser) enter(line int, raw []byte) error {
	if len(p.outer) >= maxListDepth {
		return errListDepth
	}
	p.outer = append(p.outer, outerList{p.f, p.held, p.lines})
	p.f, p.held, p.lines = newFramer(bytes.NewReader(bytes.Clone(raw)), maxValueBytes), nil, line-1
	return nil
}

// leave continues with the list around it.
func (p *parser) leave() {
	last := len(p.outer) - 1
	o := p.outer[last]
	p.outer = p.outer[:last]
	p.f, p.held, p.lines = o.f, o.held, o.lines
}

// readYAML splits the input into documents and makes JSON of each.
func (p *parser) readYAML() error {
	text, err := io.ReadAll(io.LimitReader(p.in, maxValueBytes+1))
	if err != nil {
		return &InputError{Path: p.path, Err: err}
	}
	if len(text) > maxValueBytes {
		return &InputError{Path: p.path, Err: errTooLong}
	}
	if p.docs, err = yamlDocs(text); err != nil {
		var at *InputError
		if errors.As(err, &at) {
			at.Path = p.path
		}
	}
	return err
}

// yamlDocs splits a text into documents and makes JSON of each. Errors are *InputErrors without a path.
func yamlDocs(text []byte) (docs []yamlDoc, err error) {
	line, doc := 1, 1
	for len(text) > 0 {
		part, rest := cutDocument(text)
		if len(bytes.TrimSpace(part)) > 0 {
			j, err := yaml.YAMLToJSONStrict(part)
			if err != nil {
				below, cause := yamlCause(err)
				return nil, &InputError{Line: line + below, Err: fmt.Errorf("document %d is no YAML: %s", doc, cause)}
			}
			docs = append(docs, yamlDoc{line: line, json: j})
			doc++
		}
		line += bytes.Count(text[:len(text)-len(rest)], []byte("\n"))
		text = rest
	}
	return docs, nil
}

// yamlCause is how many lines below the document's first one an error is, and its cause. The library has the line only in the text "yaml: line 5: cause".
func yamlCause(err error) (below int, cause string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n") // the first one of them
	if rest, has := strings.CutPrefix(text, "line "); has {
		n, cause, is := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(n); is && err == nil && line > 0 {
			return line - 1, cause
		}
	}
	return 0, text
}

// cutDocument splits before a line that is a document separator.
func cutDocument(text []byte) (doc, rest []byte) {
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		next := len(text)
		if end >= 0 {
			next = at + end + 1
		}
		l := bytes.TrimRight(text[at:next], "\r\n \t")
		if bytes.Equal(l, []byte("---")) || bytes.HasPrefix(l, []byte("--- ")) && len(bytes.TrimSpace(l[3:])) > 0 && l[4] == '#' {
			return text[:at], text[next:]
		}
		at = next
	}
	return text, nil
}

// emptyList reports whether the object is a list that has no items, which tools write as null or not at all.
func (p *parser) emptyList(raw []byte) bool {
	var key string
	empty := true
	s := &p.d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		if key == "items" && !s.Null() {
			empty = false
		}
		if key != "items" || !empty {
			s.Skip()
		}
	}
	return empty
}

// item decodes an item of a list. In typed lists items have no kind of their own; when the list has not said its kind yet, they wait.
func (p *parser) item(list [numFields][]byte, line int, raw []byte) (c change, ok bool, err error) {
	kind, apiVersion, known := p.listType(list)
	k, _, err := p.d.typeOf(raw)
	switch {
	case err != nil:
	case k == "" && !known:
		p.held = append(p.held, heldItem{line: line, raw: bytes.Clone(raw)})
		return change{}, false, nil
	case strings.HasSuffix(k, "List") && !p.named(raw):
		err = p.enter(line, raw)
	default:
		c, ok, err = p.single(kind, apiVersion, raw, line)
	}
	if errors.Is(err, errAuditLog) {
		return change{}, false, &InputError{Path: p.path, Line: line, Err: err}
	}
	if err != nil {
		p.bad(p.path, line, err)
	}
	return c, ok, nil
}

// listType is what a list says of its items: PodList of v1 holds Pods of v1.
func (p *parser) listType(list [numFields][]byte) (kind, apiVersion string, known bool) {
	kind, apiVersion = p.text(list[fieldKind]), p.text(list[fieldAPIVersion])
	known = kind != "" && apiVersion != ""
	kind = strings.TrimSuffix(kind, "List")
	return kind, apiVersion, known
}

// listEnd decodes the items that waited for the list's kind.
func (p *parser) listEnd(v *value) (change, bool, error) {
	if p.isPage(v.fields[fieldMetadata]) {
		return change{}, false, &InputError{Path: p.path, Line: p.line(v.line), Err: errPage}
	}
	if p.doc > 0 && p.text(v.fields[fieldKind]) == "" { // kubectl writes kind after the items, and YAML that is cut off between two lines can still be read
		return change{}, false, &InputError{Path: p.path, Line: p.line(v.line), Err: errNoListKind}
	}
	kind, apiVersion, _ := p.listType(v.fields)
	if kind != "" || v.fields[fieldKind] != nil {
		p.usable = true
	}
	held := p.held
	p.held = nil
	for _, h := range held {
		c, ok, err := p.single(kind, apiVersion, h.raw, h.line)
		if errors.Is(err, errAuditLog) {
			return change{}, false, &InputError{Path: p.path, Line: h.line, Err: err}
		}
		if err != nil {
			p.bad(p.path, h.line, err)
		}
		if ok {
			p.ready = append(p.ready, c)
		}
	}
	return change{}, false, nil
}
