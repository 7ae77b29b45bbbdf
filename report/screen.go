package report

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// The bounds of the text report's first part.
const (
	maxColumns, minColumns = 100, 80
	// screenLines is how many lines the first screen has, listed how many blockers, gaps or findings the first part names.
	screenLines, listed = 24, 5
)

// summary writes the Summary. The answers, the blockers and a next step are within the first screen, whatever the names in them.
func (t Text) summary(b *strings.Builder, r *Report) {
	s := r.Summary()
	screen := ""
	for brief := 0; brief <= 2; brief++ {
		screen = t.first(&s, r, brief)
		if t.All || strings.Count(screen, "\n") < screenLines {
			break
		}
	}
	b.WriteString(screen)
	if len(s.Blockers) > 0 {
		t.points(b, "Gaps", "gap", s.Gaps, len(s.Blockers), 0)
	}
	b.WriteByte('\n')
	for _, line := range s.Lines {
		t.result(b, line)
	}
	if s.Notes > 0 && !t.All {
		fmt.Fprintf(b, "%s\n", t.paint(dim, plural(int64(s.Notes), "harmless note")+" hidden (--all)"))
	}
}

// first is what the first screen has at least. brief is how much shorter than in full: 1 has a line for each title, 2 no details.
func (t Text) first(s *Summary, r *Report, brief int) string {
	var b strings.Builder
	columns := t.columns()
	fmt.Fprintf(&b, "%s\n\n", t.paint(bold, wording.Fit(strings.Join(s.Title, " · "), columns)))
	t.answers(&b, s.Answers)
	for _, remark := range s.Remarks {
		t.indented(&b, "", "", remark, 2)
	}
	if s.NoBindings {
		t.worst(&b, r, max(1, 4-len(s.Remarks)))
	}
	if s.Then != nil {
		fmt.Fprintf(&b, "\n%s\n", t.paint(bold, "Next"))
		t.indented(&b, "  ", "  ", s.Then.What+".", 3-brief)
		if len(s.Then.Commands) > 0 {
			t.command(&b, "    ", s.Then.Commands[0])
		}
	}
	if len(s.Blockers) > 0 {
		t.points(&b, "Blockers", "blocker", s.Blockers, 0, brief)
	} else {
		t.points(&b, "Gaps", "gap", s.Gaps, 0, brief)
	}
	return b.String()
}

// answers are both, each in a line.
func (t Text) answers(b *strings.Builder, all []Answer) {
	ask, head := 0, 0
	for _, a := range all {
		ask, head = max(ask, len(a.Ask)), max(head, len(a.Head))
	}
	for _, a := range all {
		why := wording.Fit(a.Why, t.columns()-ask-head-6)
		fmt.Fprintf(b, "%-*s   %s%s   %s\n", ask, a.Ask, t.paint(bold+";"+classColour(a.Class), strings.ToUpper(a.Head)), strings.Repeat(" ", head-len(a.Head)), why)
	}
}

func (t Text) columns() int {
	if t.Columns == 0 {
		return maxColumns
	}
	return min(max(t.Columns, minColumns), maxColumns)
}

func classColour(class string) string {
	switch class {
	case "yes":
		return green
	case "no":
		return red
	}
	return yellow
}

// worst are the worst findings, at most so many, each in a line.
func (t Text) worst(b *strings.Builder, r *Report, most int) {
	if len(r.Findings) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Worst findings"))
	for i := range r.Findings[:min(most, len(r.Findings))] {
		f := &r.Findings[i]
		fmt.Fprintf(b, "  %s %s\n", t.paint(severityColour(f.Severity), fmt.Sprintf("%-8s", f.Severity)), wording.Fit(f.Message, t.columns()-11))
	}
	if n := len(r.Findings) - most; n > 0 {
		fmt.Fprintf(b, "  %s\n", t.paint(dim, fmt.Sprintf("and %s (--all)", plural(int64(n), "more finding"))))
	}
}

// points lists the first of several points, with numbers after those that were given before.
func (t Text) points(b *strings.Builder, title, one string, all []Point, before, brief int) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, title))
	most := listed
	if t.All {
		most = len(all)
	}
	for i := range all[:min(most, len(all))] {
		t.point(b, before+i+1, &all[i], brief)
	}
	if n := len(all) - most; n > 0 {
		more := fmt.Sprintf("and %s (--all)", plural(int64(n), "more "+one))
		confined := 0
		for i := range all {
			if all[i].confined {
				confined++
			}
		}
		if confined > 0 {
			more += fmt.Sprintf("; of all %d, %d for confinement only", len(all), confined)
		}
		fmt.Fprintf(b, "  %s\n", t.paint(dim, more))
	}
}

func (t Text) point(b *strings.Builder, number int, p *Point, brief int) {
	const indent = "       "
	lead := fmt.Sprintf("%3d. ", number)
	room := t.columns() - len(lead)
	if p.Count != "" {
		room -= len(p.Count) + 2
	}
	what := p.What
	if brief == 2 && p.short != "" {
		what = p.short
	}
	lines := wording.Wrap(what, room, 2-min(brief, 1))
	for i, line := range lines {
		right := ""
		if i == 0 && p.Count != "" {
			right = strings.Repeat(" ", room-wording.Columns(line)+2) + p.Count
		}
		fmt.Fprintf(b, "%s%s%s\n", lead, t.paint(bold, line), right)
		lead = strings.Repeat(" ", len(lead))
	}
	if brief < 2 && p.Detail != "" {
		last := ""
		if !p.Last.IsZero() {
			last = "last " + p.Last.UTC().Format("2006-01-02 15:04")
		}
		if last == "" {
			t.indented(b, indent, indent, p.Detail, 2-brief)
		} else {
			room := t.columns() - len(indent) - len(last) - 2
			line := wording.Fit(p.Detail, room)
			fmt.Fprintf(b, "%s%s%s%s\n", indent, line, strings.Repeat(" ", room-wording.Columns(line)+2), t.paint(dim, last))
		}
	}
	t.indented(b, indent+"next: ", indent+"      ", p.Next, 2-min(brief, 1))
}

// indented writes a text on at most so many lines.
func (t Text) indented(b *strings.Builder, first, rest, s string, most int) {
	for _, line := range wording.Wrap(s, t.columns()-len(first), most) {
		fmt.Fprintf(b, "%s%s\n", first, line)
		first = rest
	}
}

// command writes a command that can be pasted.
func (t Text) command(b *strings.Builder, indent, s string) {
	lines := wording.WrapCommand(s, t.columns()-len(indent)-2)
	if lines == nil || len(lines) > listed {
		lines = []string{wording.LongCommand}
	}
	for i, line := range lines {
		if i > 0 {
			line = "  " + line
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// result writes a line that has a name, and what it needs of the next ones.
func (t Text) result(b *strings.Builder, line Line) {
	const name = 12
	t.indented(b, fmt.Sprintf("%-*s", name, line.Name), strings.Repeat(" ", name), line.Text, 2)
}
