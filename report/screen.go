package report

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// The bounds of the text report's first part.
const (
	maxColumns, minColumns = 100, 80
	// screenLines is how many lines the first screen has.
	screenLines = 24
	// commandLines is how many lines a command may take.
	commandLines = 5
	// titleName is how many columns of a cluster's or a node's name the title and the answers have room for.
	titleName = 60
)

// layout says how much the first screen has. The answers and the next step are in each as they are.
type layout struct {
	// points is how many blockers, and how many gaps, it lists at most.
	blockers, gaps int
	// detail adds what is known of each point and which checks failed, next what to do about each.
	detail, next bool
	// count has of the findings only how many they are, and how severe the worst is.
	count bool
	// cut makes each other text fit its line.
	cut bool
}

// layouts are those that are tried, in order. The last ones cut texts: only a person at a terminal, who can make it larger, sees them.
func layouts(terminal bool) []layout {
	out := []layout{
		{blockers: 5, gaps: 5, detail: true, next: true}, {blockers: 3, gaps: 3, detail: true, next: true}, {blockers: 5, gaps: 5, next: true}, {blockers: 3, gaps: 3, next: true},
		{blockers: 5, gaps: 5}, {blockers: 4, gaps: 4}, {blockers: 3, gaps: 3}, {blockers: 3, gaps: 2}, {blockers: 2, gaps: 2}, {blockers: 2, gaps: 2, count: true},
		{blockers: 2, gaps: 1}, {blockers: 1, gaps: 1},
	}
	if terminal {
		out = append(out, layout{blockers: 3, gaps: 3, cut: true}, layout{blockers: 2, gaps: 2, cut: true}, layout{blockers: 1, gaps: 1, cut: true})
	}
	return out
}

// summary writes the Summary: first a screen with both answers, the next step, and the worst blockers and gaps, then further results.
func (t Text) summary(b *strings.Builder, r *Report) {
	s := r.Summary()
	screen := ""
	if t.All {
		screen = t.first(&s, r, layout{blockers: len(s.Blockers), gaps: len(s.Gaps), detail: true, next: true})
	} else {
		for _, l := range layouts(t.Columns > 0) {
			if screen = t.first(&s, r, l); strings.Count(screen, "\n") <= screenLines {
				break
			}
		}
	}
	b.WriteString(screen)
	b.WriteByte('\n')
	for _, line := range s.Lines {
		t.result(b, line)
	}
	if s.Notes > 0 && !t.All {
		fmt.Fprintf(b, "%s\n", t.paint(dim, plural(int64(s.Notes), "harmless note")+" hidden (--all)"))
	}
	fmt.Fprintf(b, "%s\n", t.paint(dim, wording.Pages))
}

// first is what the first screen has.
func (t Text) first(s *Summary, r *Report, l layout) string {
	var b strings.Builder
	for i, line := range wording.Wrap(strings.Join(s.Title, " · "), t.columns()-2, 0) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", min(i, 1)), t.paint(bold, line))
	}
	b.WriteByte('\n')
	t.answers(&b, s.Answers, l.detail)
	for _, remark := range s.Remarks {
		t.remark(&b, remark, l)
	}
	if s.NoBindings {
		t.worst(&b, r, l)
	}
	t.next(&b, s)
	t.points(&b, "Blockers", s.Blockers, l.blockers, 0, s.first(), l)
	t.points(&b, "Gaps", s.Gaps, l.gaps, len(s.Blockers), s.first(), l)
	return b.String()
}

// remark writes a sentence. Further lines of it are indented, so that a name in it cannot look like an answer.
func (t Text) remark(b *strings.Builder, s string, l layout) {
	for i, line := range wording.Wrap(s, t.columns()-2, l.lines()) {
		fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", min(i, 1)), line)
	}
}

// lines is how many lines a text may take that is neither an answer nor the next step, 0 for any number.
func (l layout) lines() int {
	if l.cut {
		return 1
	}
	return 0
}

// next writes what to do first.
func (t Text) next(b *strings.Builder, s *Summary) {
	what, command := s.first(), ""
	switch {
	case s.LogFirst != "":
	case s.Then != nil:
		what = s.Then.What
		if len(s.Then.Commands) > 0 {
			command = s.Then.Commands[0]
		}
	case strings.HasPrefix(what, commandBegin):
		what, command = "", what
	}
	if what == "" && command == "" {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Next"))
	if what != "" {
		t.indented(b, "  ", "  ", capital(what)+".", 0)
	}
	if command != "" {
		t.command(b, "    ", command)
	}
}

// answers are both, each on lines of its own. With checks they name the checks that failed.
func (t Text) answers(b *strings.Builder, all []Answer, checks bool) {
	ask, head := 0, 0
	for _, a := range all {
		ask, head = max(ask, len(a.Ask)), max(head, len(a.Head))
	}
	for _, a := range all {
		why := a.Counts
		if checks {
			why = a.Why
		}
		lines := wording.Wrap(why, t.columns()-ask-head-6, 0)
		fmt.Fprintf(b, "%-*s   %s%s   %s\n", ask, a.Ask, t.paint(bold+";"+classColour(a.Class), strings.ToUpper(a.Head)), strings.Repeat(" ", head-len(a.Head)), lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(b, "%s%s\n", strings.Repeat(" ", ask+head+6), line)
		}
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

// worst are the worst findings, in a short layout one.
func (t Text) worst(b *strings.Builder, r *Report, l layout) {
	if len(r.Findings) == 0 {
		return
	}
	if !l.detail {
		f := &r.Findings[0]
		if l.count {
			t.remark(b, wording.CountOf(int64(len(r.Findings)), f.Severity), l)
			return
		}
		t.remark(b, wording.WorstOf(int64(len(r.Findings)), f.Severity, f.Message), l)
		return
	}
	const most, indent = 3, "           "
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Worst findings"))
	for i := range r.Findings[:min(most, len(r.Findings))] {
		f := &r.Findings[i]
		for j, line := range wording.Wrap(f.Message, t.columns()-len(indent), 0) {
			if j == 0 {
				fmt.Fprintf(b, "  %s %s\n", t.paint(severityColour(f.Severity), fmt.Sprintf("%-8s", f.Severity)), line)
			} else {
				fmt.Fprintf(b, "%s%s\n", indent, line)
			}
		}
	}
	if n := len(r.Findings) - most; n > 0 && !t.All {
		fmt.Fprintf(b, "  %s\n", t.paint(dim, wording.MoreOf(int64(n), "finding")))
	}
}

// points lists the first of several points, with numbers after those that were given before. What to do is written after those that need the same, but
// for what the screen has as its next step.
func (t Text) points(b *strings.Builder, title string, all []Point, most, before int, told string, l layout) {
	if len(all) == 0 {
		return
	}
	most = min(most, len(all))
	confined := 0
	for i := range all {
		if all[i].confined {
			confined++
		}
	}
	fmt.Fprintf(b, "\n%s%s\n", t.paint(bold, title), t.paint(dim, wording.Listed(most, len(all), confined)))
	from := 0
	for i := range all[:most] {
		p := &all[i]
		t.point(b, before+i+1, p, l)
		if i+1 < most && all[i+1].Next == p.Next {
			continue
		}
		if l.next && p.Next != "" && p.Next != told {
			const indent = "       "
			first := "next: "
			switch {
			case from == i-1:
				first = fmt.Sprintf("next for %d and %d: ", before+i, before+i+1)
			case from < i:
				first = fmt.Sprintf("next for %d to %d: ", before+from+1, before+i+1)
			}
			t.indented(b, indent+first, indent+"      ", p.Next, 0)
		}
		from = i + 1
	}
}

func (t Text) point(b *strings.Builder, number int, p *Point, l layout) {
	const indent = "       "
	lead := fmt.Sprintf("%3d. ", number)
	room := t.columns() - len(lead)
	if p.Count != "" {
		room -= len(p.Count) + 2
	}
	what := p.What
	if !l.detail && p.short != "" {
		what = p.short
	}
	for i, line := range wording.Wrap(what, room, l.lines()) {
		right := ""
		if i == 0 && p.Count != "" {
			right = strings.Repeat(" ", room-wording.Columns(line)+2) + p.Count
		}
		fmt.Fprintf(b, "%s%s%s\n", lead, t.paint(bold, line), right)
		lead = strings.Repeat(" ", len(lead))
	}
	if !l.detail || p.Detail == "" {
		return
	}
	last := ""
	if !p.Last.IsZero() {
		last = "last " + p.Last.UTC().Format("2006-01-02 15:04")
	}
	room = t.columns() - len(indent) - len(last) - 2
	for i, line := range wording.Wrap(p.Detail, room, 0) {
		right := ""
		if i == 0 && last != "" {
			right = strings.Repeat(" ", room-wording.Columns(line)+2) + t.paint(dim, last)
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, line, right)
	}
}

// indented writes a text on at most so many lines, 0 for any number.
func (t Text) indented(b *strings.Builder, first, rest, s string, most int) {
	for _, line := range wording.Wrap(s, t.columns()-len(first), most) {
		fmt.Fprintf(b, "%s%s\n", first, line)
		first = rest
	}
}

// command writes a command that can be pasted.
func (t Text) command(b *strings.Builder, indent, s string) {
	lines := wording.WrapCommand(s, t.columns()-len(indent)-2)
	if lines == nil || len(lines) > commandLines {
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
	t.indented(b, fmt.Sprintf("%-*s", name, line.Name), strings.Repeat(" ", name), line.Text, 0)
}
