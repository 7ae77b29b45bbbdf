package explain

import "strings"

// branch is a box of the drawing as text, with what it leads to.
type branch struct {
	label, mark string
	next        []*branch
}

// textDrawing draws the paths as a tree that grows from the object.
func (ex *Explanation) textDrawing(l *lines) {
	if ex.Object == nil {
		return
	}
	root := &branch{label: ex.Object.String()}
	add := func(p *Path, mark, remark string) {
		if p == nil {
			return
		}
		at := root
		for i, s := range p.Steps[1:] {
			text := s.String()
			if i == len(p.Steps)-2 {
				text += remark
				if when := span(p); when != "" {
					text += "  (" + when + ")"
				}
			}
			at = at.child(text, mark)
		}
	}
	add(ex.Path, "─►", "  allowed")
	add(ex.Last, "╌x", "  ended")
	add(ex.Next, "╌►", "  later")
	if ex.Path == nil && ex.Last == nil && ex.Next == nil && ex.Request.Node != "" {
		remark := "  no path then"
		if ex.Verdict == "unknown" {
			remark = "  not known"
		}
		root.child(nodeKind+" "+ex.Request.Node+remark, "╌x")
	}
	for i := range ex.Others.Nodes {
		if i == maxDrawnPaths {
			root.child("and "+plural(len(ex.Others.Nodes)-i+ex.Others.More, "node")+" more", "─►")
			break
		}
		add(&ex.Others.Nodes[i].Path, "─►", "")
	}
	l.head("Drawing")
	l.add("  %s", root.label)
	root.write(l, "  ")
}

func (b *branch) child(label, mark string) *branch {
	for _, c := range b.next {
		if c.label == label && c.mark == mark {
			return c
		}
	}
	c := &branch{label: label, mark: mark}
	b.next = append(b.next, c)
	return c
}

func (b *branch) write(l *lines, indent string) {
	for i, c := range b.next {
		corner, below := "├", "│"
		if i == len(b.next)-1 {
			corner, below = "└", " "
		}
		l.add("%s%s%s %s", indent, corner, c.mark, c.label)
		c.write(l, indent+below+strings.Repeat(" ", 3))
	}
}
