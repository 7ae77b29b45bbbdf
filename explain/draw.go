package explain

import (
	"fmt"
	"strings"
	"time"
)

// The bounds of a drawing: what is left out is counted in it.
const (
	maxDrawnPaths  = 12
	maxDrawnGrants = 4
	maxDesc        = 4000 // characters
)

// drawing is boxes in columns and arrows between them; the same for SVG and Graphviz. Its texts are visible already.
type drawing struct {
	title, desc string
	boxes       []box
	arrows      []arrow
	// notes are lines below.
	notes []string
}

type box struct {
	// kind is the first line; name the others.
	kind, name string
	class      string // of CSS: object, step, node, asks, request, subject, binding, role, rule
	label      string // below it
	column     int
	rows       []int // of the paths that it is on
	part       int   // 0: the graph, 1: RBAC
}

type arrow struct {
	from, to int // boxes
	// class is alive, ended, later, missing or grant.
	class, label string
}

// drawer makes a drawing: boxes that are the same are one.
type drawer struct {
	drawing
	known map[string]int
	seen  map[[2]int]int // arrows
}

func newDrawer(title, desc string) *drawer {
	return &drawer{drawing: drawing{title: short(visible(title)), desc: cut(visible(desc), maxDesc)}, known: map[string]int{}, seen: map[[2]int]int{}}
}

// box returns the number of the box with the key, which it makes if need be.
func (d *drawer) box(key string, b box, row int) int {
	i, ok := d.known[key]
	if !ok {
		i = len(d.boxes)
		b.kind, b.name = short(visible(b.kind)), short(visible(b.name))
		d.boxes = append(d.boxes, b)
		d.known[key] = i
	}
	d.boxes[i].rows = append(d.boxes[i].rows, row)
	return i
}

// arrow draws one. Several between two boxes are one with the labels of all, and alive if one is.
func (d *drawer) arrow(from, to int, class, label string) {
	label = short(visible(label))
	i, ok := d.seen[[2]int{from, to}]
	if !ok {
		d.seen[[2]int{from, to}] = len(d.arrows)
		d.arrows = append(d.arrows, arrow{from: from, to: to, class: class, label: label})
		return
	}
	a := &d.arrows[i]
	if class == classAlive {
		a.class = class
	}
	if label != "" && !strings.Contains(a.label, label) {
		a.label = strings.TrimPrefix(a.label+"; "+label, "; ")
	}
}

const (
	classAlive   = "alive"
	classEnded   = "ended"
	classLater   = "later"
	classMissing = "missing"
	classGrant   = "grant"
)

// drawnPath is a path with how it stands to the instant.
type drawnPath struct {
	*Path
	class, label string
	asks         bool
}

// paths lays the paths out: the object in the first column, nodes in the last.
func (d *drawer) paths(paths []drawnPath, object Step) (last int) {
	for i := range paths {
		last = max(last, len(paths[i].Steps)-1)
	}
	last = max(last, 2)
	for row := range paths {
		p := &paths[row]
		node := p.Steps[len(p.Steps)-1]
		before := d.box("object", box{kind: object.Kind, name: nameOf(object), class: "object"}, row)
		for i, s := range p.Steps[1:] {
			b := box{kind: s.Kind, name: nameOf(s), class: "step", column: last - (len(p.Steps) - 2 - i)}
			key := s.String()
			switch {
			case s.Kind == nodeKind:
				if b.class = nodeKind; p.asks {
					b.class = "asks"
				}
			case i == len(p.Steps)-3: // the same name may have been on another node
				key += " on " + node.Name
			}
			next := d.box(key, b, row)
			label := ""
			if s.Kind == nodeKind {
				label = p.label
			}
			d.arrow(before, next, p.class, label)
			before = next
		}
	}
	return last
}

func nameOf(s Step) string {
	if s.Namespace == "" {
		return s.Name
	}
	return s.Namespace + "/" + s.Name
}

// span is a lifetime in few words.
func span(p *Path) string {
	switch {
	case p.From != nil && p.To != nil:
		return brief(*p.From) + " – " + brief(*p.To)
	case p.From != nil:
		return "since " + brief(*p.From)
	case p.To != nil:
		return "until " + brief(*p.To)
	}
	return ""
}

// brief is a time without its day, to the millisecond.
func brief(t time.Time) string { return t.Format("15:04:05.000") }

// drawing of an explanation.
func (ex *Explanation) drawing() *drawing {
	d := newDrawer(ex.headed(ex.verdictLine()), strings.Join(append(append([]string{ex.Summary}, ex.Words...), ex.rbacWords()...), " "))
	row := ex.drawGraph(d)
	ex.drawRBAC(d, row)
	return &d.drawing
}

// drawGraph draws the part of the Node authorizer and returns the first free row.
func (ex *Explanation) drawGraph(d *drawer) int {
	var paths []drawnPath
	asker := Step{Kind: nodeKind, Name: ex.Request.Node}
	add := func(p *Path, class, word string, asks bool) {
		if p != nil {
			paths = append(paths, drawnPath{Path: p, class: class, label: strings.TrimSpace(word + " " + span(p)), asks: asks})
		}
	}
	add(ex.Path, classAlive, "", true)
	add(ex.Last, classEnded, "ended:", true)
	add(ex.Next, classLater, "later:", true)
	own := len(paths)
	for i := range ex.Others.Nodes {
		if len(paths) == maxDrawnPaths {
			d.notes = append(d.notes, fmt.Sprintf("and %s more", plural(len(ex.Others.Nodes)-i+ex.Others.More, "node")))
			break
		}
		add(&ex.Others.Nodes[i].Path, classAlive, "", false)
	}
	switch {
	case ex.Object != nil:
		last := d.paths(paths, *ex.Object)
		absent := "no path then"
		if ex.Verdict == "unknown" {
			absent = "not known"
		}
		if own > 0 && ex.Path == nil {
			d.boxes[d.known[asker.String()]].label = absent
		}
		if own == 0 && ex.Request.Node != "" {
			row := len(paths)
			from := d.box("object", box{kind: ex.Object.Kind, name: nameOf(*ex.Object), class: "object"}, row)
			to := d.box(asker.String(), box{kind: nodeKind, name: asker.Name, class: "asks", column: last}, row)
			d.arrow(from, to, classMissing, absent)
			return len(paths) + 1
		}
		if len(paths) == 0 {
			d.box("object", box{kind: ex.Object.Kind, name: nameOf(*ex.Object), class: "object"}, 0)
			return 1
		}
		return len(paths)
	case ex.Request.Node == "":
		return 0
	}
	node := d.box(asker.String(), box{kind: nodeKind, name: asker.Name, class: "asks"}, 0)
	rule := d.box("rule", box{kind: "static rules", name: "of the Node authorizer", class: "rule", column: 1}, 0)
	request := d.box("request", box{kind: "request", name: ex.Request.What(), class: "request", column: 2}, 0)
	if ex.Verdict == "allow" {
		d.arrow(node, rule, classAlive, "")
		d.arrow(rule, request, classAlive, "allow")
	} else {
		d.arrow(node, rule, classMissing, "")
		d.arrow(rule, request, classMissing, "none allows it")
	}
	return 1
}

// drawRBAC draws the bindings that let the request through, from the row on.
func (ex *Explanation) drawRBAC(d *drawer, row int) {
	for i := range ex.RBAC.Grants {
		if i == maxDrawnGrants {
			d.notes = append(d.notes, fmt.Sprintf("and %s more of RBAC", plural(len(ex.RBAC.Grants)-i+ex.RBAC.More, "way")))
			return
		}
		g, at := &ex.RBAC.Grants[i], row+i
		kind, name, _ := strings.Cut(ex.Request.Who(), " ")
		boxes := []int{
			d.box("rbac who", box{kind: kind, name: name, class: "asks", part: 1}, at),
			d.box("rbac "+g.Subject.String(), box{kind: g.Subject.Kind, name: nameOf(Step{Namespace: g.Subject.Namespace, Name: g.Subject.Name}), class: "subject", column: 1, part: 1}, at),
			d.box("rbac "+g.Binding.String(), box{kind: g.Binding.Kind, name: nameOf(Step{Namespace: g.Binding.Namespace, Name: g.Binding.Name}), class: "binding", column: 2, part: 1}, at),
			d.box("rbac "+g.Binding.Namespace+" "+g.Role.String(), box{kind: g.Role.Kind, name: g.Role.Name, class: "role", column: 3, part: 1}, at),
			d.box("rbac request", box{kind: "request", name: ex.Request.What(), class: "request", column: 4, part: 1}, at),
		}
		for k := range len(boxes) - 1 {
			d.arrow(boxes[k], boxes[k+1], classGrant, "")
		}
	}
	if len(ex.RBAC.Grants) == 0 {
		for _, w := range ex.rbacWords() {
			d.notes = append(d.notes, short(visible(w)))
		}
	}
}

// drawing of who can reach an object.
func (r *Reach) drawing() *drawing {
	d := newDrawer(r.headline(), strings.Join(append([]string{r.summary()}, r.Words...), " "))
	var paths []drawnPath
	for i := range r.Rows {
		if i == maxDrawnPaths {
			d.notes = append(d.notes, fmt.Sprintf("and %s more", plural(len(r.Rows)-i+r.More, "path")))
			break
		}
		p := drawnPath{Path: &r.Rows[i].Path, class: classAlive, label: span(&r.Rows[i].Path)}
		if !r.Rows[i].Now {
			p.class = classEnded
		}
		paths = append(paths, p)
	}
	object := Step{Kind: r.Kind, Namespace: r.Object.Namespace, Name: r.Object.Name}
	if r.Kind == "" {
		object.Kind = r.Object.resource()
	}
	d.paths(paths, object)
	if len(paths) == 0 {
		d.box("object", box{kind: object.Kind, name: nameOf(object), class: "object"}, 0)
		d.notes = append(d.notes, short(visible(r.summary())))
	}
	return &d.drawing
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
