package explain

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The measures of a drawing, in pixels. A character of a monospaced font is 0.6 of its height wide, or a little less.
const (
	fontSize  = 12
	charWidth = 7.3
	lineWidth = 26 // characters of a name on a line
	lineStep  = 16
	boxWidth  = lineWidth*charWidth + 2*boxPad
	boxPad    = 9
	columnGap = 56
	rowGap    = 18
	partGap   = 30
	labelSize = 10
	maxName   = 300 // characters of a name that are drawn
)

// placed is a box with its place.
type placed struct {
	*box
	lines   []string
	x, y, h float64
}

// WriteSVG writes the drawing as SVG that can stand alone or in a page: no script, no font and no style from elsewhere, and no style attribute.
// All colours are currentColor; the classes are for a page to give others (docs/explain.md lists them).
func (ex *Explanation) WriteSVG(w io.Writer) error { return ex.drawing().svg(w) }

// WriteSVG writes the drawing as SVG, as [Explanation.WriteSVG] does.
func (r *Reach) WriteSVG(w io.Writer) error { return r.drawing().svg(w) }

// place lays the boxes out, the parts below each other.
func (d *drawing) place() (boxes []placed, width, height float64) {
	boxes = make([]placed, len(d.boxes))
	for i := range d.boxes {
		p := &boxes[i]
		p.box, p.lines = &d.boxes[i], wrap(d.boxes[i].name)
		p.x = 8 + float64(p.column)*(boxWidth+columnGap)
		p.h = float64(len(p.lines)+1)*lineStep + boxPad
		width = max(width, p.x+boxWidth+8)
	}
	for part := range 2 {
		if bottom := placePart(boxes, part, height); bottom > height {
			height = bottom + partGap - rowGap
		}
	}
	return boxes, max(width, 420), height
}

// placePart gives the boxes of a part their height on the page, from top on, and returns where the next may begin.
func placePart(boxes []placed, part int, top float64) (bottom float64) {
	heights := map[int]float64{} // of rows: that of the highest box in no other row
	columns := map[int][]*placed{}
	first, last := math.MaxInt, 0
	for i := range boxes {
		p := &boxes[i]
		if p.part != part {
			continue
		}
		columns[p.column] = append(columns[p.column], p)
		for _, row := range p.rows {
			first, last = min(first, row), max(last, row)
			heights[row] = max(heights[row], 2*lineStep+boxPad)
		}
		if len(p.rows) == 1 {
			heights[p.rows[0]] = max(heights[p.rows[0]], p.h)
		}
	}
	middles, y := map[int]float64{}, top
	for row := first; row <= last; row++ {
		middles[row] = y + heights[row]/2
		y += heights[row] + rowGap
	}
	bottom = top
	for _, column := range columns {
		for _, p := range column {
			for _, row := range p.rows {
				p.y += middles[row]
			}
			p.y = p.y/float64(len(p.rows)) - p.h/2
		}
		slices.SortStableFunc(column, func(a, b *placed) int { return cmp.Compare(a.y, b.y) })
		free := top
		for _, p := range column {
			p.y = max(free, p.y)
			free = p.y + p.h + rowGap
			bottom = max(bottom, free)
		}
	}
	return bottom
}

// wrap breaks a name into lines that fit a box.
func wrap(s string) []string {
	r := []rune(s)
	if len(r) > maxName {
		s = string(r[:maxName]) + "…"
	}
	return wrapAt(s, lineWidth)
}

// wrapAt breaks text into lines of a width in characters; after dashes, dots and the like it may well be broken.
func wrapAt(s string, most int) (out []string) {
	r := []rune(s)
	for {
		n, wide, at := 0, 0, 0
		for n < len(r) && wide+runeWidth(r[n]) <= most {
			wide += runeWidth(r[n])
			if n++; strings.ContainsRune("-./: ", r[n-1]) && wide > most/2 {
				at = n
			}
		}
		switch {
		case n >= len(r):
			return append(out, string(r))
		case at > 0:
			n = at
		}
		n = max(n, 1)
		out = append(out, string(r[:n]))
		r = r[n:]
	}
}

// runeWidth is 2 for what a monospaced font draws in double width, roughly.
func runeWidth(r rune) int {
	if r >= 0x1100 && r != '…' && (r < 0x2010 || r > 0x2e7f) {
		return 2
	}
	return 1
}

func (d *drawing) svg(w io.Writer) error {
	boxes, width, height := d.place()
	title := wrapAt(d.title, int((width-16)/charWidth))
	head := float64(len(title)+1) * lineStep
	for i := range boxes {
		boxes[i].y += head
	}
	height += head
	s := &svgWriter{}
	h := fnv.New32a()
	_, _ = io.WriteString(h, d.title) // never fails
	id := fmt.Sprintf("nt%08x", h.Sum32())
	height += float64(len(d.notes)) * lineStep
	s.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="nt-drawing" role="img" aria-labelledby="%s-t %s-d" viewBox="0 0 %s %s" width="%s" height="%s" `+
		`font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="%d" fill="none" stroke="none">`+"\n",
		id, id, px(width), px(height), px(width), px(height), fontSize)
	s.printf(`<title id="%s-t">%s</title>`+"\n"+`<desc id="%s-d">%s</desc>`+"\n", id, escaped(d.title), id, escaped(d.desc))
	for i, line := range title {
		s.text(8, float64(i+1)*lineStep, "nt-title", fontSize, line)
	}
	for i := range d.arrows {
		s.arrow(&d.arrows[i], boxes)
	}
	for i := range boxes {
		s.box(&boxes[i])
	}
	for i, note := range d.notes {
		s.text(8, height-float64(len(d.notes)-i)*lineStep+lineStep/2, "nt-note", fontSize, note)
	}
	s.printf("</svg>\n")
	if _, err := io.WriteString(w, s.b.String()); err != nil {
		return fmt.Errorf("writing the drawing: %w", err)
	}
	return nil
}

type svgWriter struct{ b strings.Builder }

func (s *svgWriter) printf(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

func (s *svgWriter) text(x, y float64, class string, size int, text string) {
	s.printf(`<text class="%s" x="%s" y="%s" font-size="%d" fill="currentColor">%s</text>`+"\n", class, px(x), px(y), size, escaped(text))
}

func (s *svgWriter) box(p *placed) {
	width := "1"
	if p.class == "asks" || p.class == "object" {
		width = "2"
	}
	s.printf(`<g class="nt-box nt-%s"><title>%s</title>`+"\n", p.class, escaped(short(p.kind+" "+p.name)))
	s.printf(`<rect x="%s" y="%s" width="%s" height="%s" rx="5" stroke="currentColor" stroke-width="%s"/>`+"\n", px(p.x), px(p.y), px(boxWidth), px(p.h), width)
	s.text(p.x+boxPad, p.y+lineStep-2, "nt-kind", labelSize, p.kind)
	for i, line := range p.lines {
		s.text(p.x+boxPad, p.y+float64(i+2)*lineStep-3, "nt-name", fontSize, line)
	}
	if p.label != "" {
		s.text(p.x, p.y+p.h+labelSize+1, "nt-label", labelSize, p.label)
	}
	s.printf("</g>\n")
}

// arrow goes from the right side of a box to the left side of another.
func (s *svgWriter) arrow(a *arrow, boxes []placed) {
	from, to := &boxes[a.from], &boxes[a.to]
	x1, y1 := from.x+boxWidth, from.y+from.h/2
	x2, y2 := to.x, to.y+to.h/2
	dash := ""
	switch a.class {
	case classMissing:
		dash = ` stroke-dasharray="2 5"`
	case classEnded:
		dash = ` stroke-dasharray="7 4"`
	case classLater:
		dash = ` stroke-dasharray="1 3"`
	}
	const head = 7.0
	bend := (x2 - x1) / 2
	if bend > columnGap/2 {
		bend = columnGap / 2
	}
	s.printf(`<g class="nt-edge nt-%s">`+"\n", a.class)
	s.printf(`<path d="M%s %s C%s %s %s %s %s %s" stroke="currentColor"%s/>`+"\n",
		px(x1), px(y1), px(x1+bend), px(y1), px(x2-head-bend), px(y2), px(x2-head), px(y2), dash)
	if a.class == classMissing || a.class == classEnded { // a cross: nothing gets there
		s.printf(`<path d="M%s %s l%s %s m0 -%s l-%s %s" stroke="currentColor"/>`+"\n", px(x2-head-4), px(y2-4), "8", "8", "8", "8", "8")
	} else {
		s.printf(`<path d="M%s %s l-%s -4 v8 z" fill="currentColor"/>`+"\n", px(x2), px(y2), px(head))
	}
	if a.label != "" { // below the box that no other arrow of the same kind leaves
		at := from
		if from.class == "object" || a.class == classMissing {
			at = to
		}
		s.text(at.x, at.y+at.h+labelSize+1, "nt-label", labelSize, a.label)
	}
	s.printf("</g>\n")
}

// px is a measure without needless digits.
func px(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", f), "0"), ".")
}

// escaped is text as XML has it.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	return b.String()
}

// short cuts what nobody would read whole.
func short(s string) string { return cut(s, 2*maxName) }

func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
