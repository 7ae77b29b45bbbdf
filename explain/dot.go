package explain

import (
	"fmt"
	"io"
	"strings"
)

// WriteDOT writes the drawing for Graphviz, as in: dot -Tpdf.
func (ex *Explanation) WriteDOT(w io.Writer) error { return ex.drawing().dot(w) }

// WriteDOT writes the drawing for Graphviz.
func (r *Reach) WriteDOT(w io.Writer) error { return r.drawing().dot(w) }

func (d *drawing) dot(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("digraph nodetrail {")
	line("  graph [rankdir=LR, labelloc=t, label=%s];", quoted(strings.Join(append([]string{d.title}, d.notes...), "\n")))
	line("  node [shape=box, style=rounded, fontname=monospace, fontsize=11];")
	line("  edge [fontname=monospace, fontsize=9];")
	for i := range d.boxes {
		x := &d.boxes[i]
		pen := ""
		if x.class == "asks" || x.class == "object" {
			pen = ", penwidth=2"
		}
		text := append([]string{x.kind}, wrap(x.name)...)
		if x.label != "" {
			text = append(text, "("+x.label+")")
		}
		line("  b%d [class=%s, label=%s%s];", i, quoted(x.class), quoted(strings.Join(text, "\n")), pen)
	}
	for i := range d.arrows {
		a := &d.arrows[i]
		style := map[string]string{classMissing: ", style=dotted, arrowhead=tee", classEnded: ", style=dashed, arrowhead=tee", classLater: ", style=dotted"}[a.class]
		line("  b%d -> b%d [class=%s, label=%s%s];", a.from, a.to, quoted(a.class), quoted(a.label), style)
	}
	line("}")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the drawing: %w", err)
	}
	return nil
}

// quoted is a string as Graphviz reads it: of a label, a backslash would begin an escape, and a line end is one.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
