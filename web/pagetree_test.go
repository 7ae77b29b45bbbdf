package web

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// pageNode is an element of a page, or a text, which has no name.
type pageNode struct {
	name     string
	inSVG    bool
	attrs    []xml.Attr
	text     string
	children []*pageNode
}

// XML has no control characters, which the value of an input may have: they are put into a private area while the page is read.
const private = 0xe000

func hideControls(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' && r != '\r' {
		return private + r
	}
	return r
}

func showControls(r rune) rune {
	if r >= private && r < private+' ' {
		return r - private
	}
	return r
}

// parsePage reads a page, whose elements must all be closed in order, but for options: what a browser would have to guess is an error.
func parsePage(body string) (*pageNode, error) {
	in := xml.NewDecoder(strings.NewReader(strings.Map(hideControls, body)))
	in.Strict, in.Entity = false, xml.HTMLEntity
	root := &pageNode{}
	open := []*pageNode{root}
	for {
		token, err := in.RawToken()
		if errors.Is(err, io.EOF) {
			if len(open) > 1 {
				return nil, fmt.Errorf("<%s> is not closed", open[len(open)-1].name)
			}
			return root, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the page: %w", err)
		}
		if ends, is := tagOf(token); is && open[len(open)-1].name == "option" && ends != "/option" {
			open = open[:len(open)-1] // its end tag may be left out
		}
		parent := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			n := &pageNode{name: token.Name.Local, attrs: token.Attr}
			for i := range n.attrs {
				n.attrs[i].Value = strings.Map(showControls, n.attrs[i].Value)
			}
			n.inSVG = parent.inSVG || n.name == "svg"
			parent.children = append(parent.children, n)
			open = append(open, n)
			if isVoid(n.name) {
				open = open[:len(open)-1]
			}
		case xml.EndElement:
			if isVoid(token.Name.Local) {
				continue
			}
			if parent.name != token.Name.Local {
				return nil, fmt.Errorf("</%s> ends <%s>", token.Name.Local, parent.name)
			}
			open = open[:len(open)-1]
		case xml.CharData:
			parent.children = append(parent.children, &pageNode{text: strings.Map(showControls, string(token))})
		}
	}
}

// tagOf is the name of a tag, after a slash if it is an end tag; false for what is no tag.
func tagOf(token xml.Token) (string, bool) {
	switch token := token.(type) {
	case xml.StartElement:
		return token.Name.Local, true
	case xml.EndElement:
		return "/" + token.Name.Local, true
	}
	return "", false
}

// isVoid is whether an element has neither content nor an end tag.
func isVoid(name string) bool {
	for _, void := range xml.HTMLAutoClose {
		if strings.EqualFold(void, name) {
			return true
		}
	}
	return false
}

// first is the first element inside of one, nil if there is none.
func (n *pageNode) first() *pageNode {
	for _, k := range n.children {
		if k.name != "" {
			return k
		}
	}
	return nil
}

// words is all text inside.
func (n *pageNode) words() string {
	out := n.text
	for _, k := range n.children {
		out += k.words()
	}
	return out
}

// find is the first element of a name, nil if there is none.
func (n *pageNode) find(name string) *pageNode {
	if n.name == name {
		return n
	}
	for _, k := range n.children {
		if found := k.find(name); found != nil {
			return found
		}
	}
	return nil
}
