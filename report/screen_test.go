package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// wideColumns is a second way to count columns, for the tests: what is not known to be narrow is wide.
func wideColumns(s string) (n int) {
	for _, r := range s {
		switch {
		case r < 0x1100 || r == '…' || r == '\u2018' || r == '\u2019':
			n++
		default:
			n += 2
		}
	}
	return n
}

// without is a text without white space, in which a text that was wrapped is found again.
func without(s string) string { return strings.Join(strings.Fields(s), "") }

// firstScreen holds the default report against what docs/output.md promises: the first 24 lines have both answers, the next step, blockers and gaps, from 80
// columns on. hostile is whether names are so long that texts may be cut at a terminal, and take more lines elsewhere.
func firstScreen(t *testing.T, name string, r *Report, hostile bool) {
	t.Helper()
	for _, columns := range []int{0, 80, 90, 100, 200} {
		out := text(t, r, Text{Columns: columns})
		most := 100
		if columns > 0 {
			most = min(columns, most)
		}
		lines := strings.Split(out, "\n")
		for _, line := range lines {
			if n := wideColumns(line); n > most {
				t.Errorf("%s: a line of %d columns, want at most %d: %q", name, n, most, line)
			}
			if strings.ContainsFunc(line, wording.Hidden) {
				t.Errorf("%s: a character that is not shown in %q", name, line)
			}
		}
		screen := strings.Join(lines[:min(24, len(lines))], "\n")
		for _, ask := range []string{wording.AskReady, wording.AskConfined} {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(ask) + `   (NOT )?(READY|CONFINED|ENOUGH EVIDENCE)`).MatchString(screen) {
				t.Errorf("%s: the first screen does not answer %q:\n%s", name, ask, screen)
			}
		}
		s := r.Summary()
		has := func(what, of string) {
			if !strings.Contains(without(screen), without(wording.Visible(of))) {
				t.Errorf("%s, %d columns: the first screen lacks %s, %q:\n%s", name, columns, what, of, screen)
			}
		}
		if !hostile {
			for _, a := range s.Answers {
				of := strings.SplitAfter(a.Counts, ", ")
				has("an answer", of[0])
				has("an answer", of[len(of)-1])
			}
			if strings.Contains(out, "…") {
				t.Errorf("%s, %d columns: a text is cut:\n%s", name, columns, out)
			}
		} else if columns == 0 {
			continue
		}
		if next := s.first(); strings.HasPrefix(next, commandBegin) {
			has("the next step", next)
		} else if next != "" {
			has("the next step", capital(next))
		}
		if s.Then != nil && s.LogFirst == "" {
			has("the next step", s.Then.What+".")
		}
		for _, part := range []struct {
			title string
			all   []Point
		}{{"Blockers", s.Blockers}, {"Gaps", s.Gaps}} {
			at := strings.Index(screen, "\n"+part.title)
			if len(part.all) == 0 {
				if at >= 0 {
					t.Errorf("%s: nothing is under %s:\n%s", name, part.title, screen)
				}
				continue
			}
			if at < 0 {
				t.Errorf("%s, %d columns: the first screen lacks %s:\n%s", name, columns, part.title, screen)
				continue
			}
			rest := screen[at+1:]
			if end := strings.Index(rest, "\n\n"); end >= 0 {
				rest = rest[:end]
			}
			want := min(2, len(part.all))
			if hostile {
				want = 1
			}
			named := len(regexp.MustCompile(`(?m)^ {1,2}[0-9]+\. `).FindAllString(rest, -1))
			if named < want {
				t.Errorf("%s, %d columns: %d of %d %s are on the first screen:\n%s", name, columns, named, len(part.all), part.title, screen)
			}
			if title, _, _ := strings.Cut(rest, "\n"); named < len(part.all) && !strings.HasPrefix(title, fmt.Sprintf("%s: %d of %d (--all lists all)", part.title, named, len(part.all))) {
				t.Errorf("%s, %d columns: %q for %d of %d", name, columns, title, named, len(part.all))
			}
		}
	}
}

// explains holds the summary against the checks: each that failed is a blocker, each that is unproven a gap.
func explains(t *testing.T, name string, r *Report) {
	t.Helper()
	s := r.Summary()
	for _, q := range r.Questions() {
		for _, c := range q.Checks {
			in := map[string][]Point{checks.Failed.String(): s.Blockers, checks.Unproven.String(): s.Gaps}[c.State]
			found := in == nil && c.State != checks.Failed.String() && c.State != checks.Unproven.String()
			for i := range in {
				found = found || in[i].check == c.Name
			}
			if !found {
				t.Errorf("%s: nothing tells that the check %s is %s", name, c.Name, c.State)
			}
		}
	}
}

// longNames are names that break a layout.
func longNames() []string {
	return append(hostileStrings(), strings.Repeat("n", 300), strings.Repeat("節点", 200), strings.Repeat("a ", 150), strings.Repeat("e\u0301", 90),
		strings.Repeat("\U0001f4a3", 70), strings.Repeat("/", 253), strings.Repeat("\x1b[2J", 60), strings.Repeat("'", 80))
}

func TestFirstScreen(t *testing.T) {
	for name, r := range map[string]*Report{"sample": sample(t), "empty": NewBuilder().Report(Facts{})} {
		firstScreen(t, name, r, false)
		explains(t, name, r)
	}
	for _, s := range longNames() {
		firstScreen(t, fmt.Sprintf("%.20q", s), hostileReport(t, s), true)
	}
}

// Any number of blockers, gaps and findings, with any names, with and without bindings.
func TestFirstScreenOfAnything(t *testing.T) {
	names := append(longNames(), "worker-1", "calico-node")
	for seed := range effort.Of(uint64(300), 40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		name := func() string { return names[rnd.IntN(len(names))] }
		l := newLog(t)
		for range rnd.IntN(12) {
			l.add("worker-1 get secrets shop/db", byRBAC(name()), agent(name()+"/1"), func(r *rules.Request) { r.Node = name() })
			l.add(" get nodes x", stranger(name()+"u"))
		}
		f := facts(8)
		f.Cluster = name()
		if rnd.IntN(2) == 0 {
			f.Bindings = []NodeBinding{}
		}
		for _, c := range checks.All() {
			x := checks.Result{Check: c.Name, State: checks.States()[rnd.IntN(4)]}
			if rnd.IntN(3) == 0 {
				x.State = checks.Passed
			}
			for range rnd.IntN(3) {
				x.Evidence = append(x.Evidence, checks.Item{State: x.State, Code: checks.CodeNeedsBinding, Client: name(), Value: name(), Object: name()})
			}
			if rnd.IntN(2) == 0 {
				x.Next = checks.Next{Code: checks.NextGetLog}
			}
			f.Checks = append(f.Checks, x)
		}
		if rnd.IntN(3) == 0 {
			f.Only = []string{name(), name()}
		}
		f.Gaps = []codes.Gap{{Code: codes.KindMissing, Params: codes.Params{codes.Text(codes.ParamKind, name())}}}
		r := l.b.Report(f)
		firstScreen(t, fmt.Sprint("seed ", seed), r, true)
		explains(t, fmt.Sprint("seed ", seed), r)
		if t.Failed() {
			return
		}
	}
}

// The two captures of 1.36, as a person sees them.
func TestFirstScreenOfCaptures(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		r := capture(t, name, "auto", func(*pipeline.Judgement) {})
		firstScreen(t, name, r, false)
		explains(t, name, r)
		check(t, "screen-"+name+".txt", []byte(text(t, r, Text{})))
		check(t, "screen-"+name+"-80.txt", []byte(text(t, r, Text{Columns: 80})))
	}
}

// Where everything is proven the first screen has the plan's first step.
func TestFirstScreenOfReady(t *testing.T) {
	l := newLog(t)
	l.add("worker-1 get secrets shop/web")
	f := facts(1)
	f.Checks = passedChecks()
	f.Bindings = []NodeBinding{{Binding: Binding{Kind: "ClusterRoleBinding", Name: "system:node"}, Role: "system:node", Fate: "goes"}}
	r := l.b.Report(f)
	firstScreen(t, "ready", r, false)
	out := text(t, r, Text{})
	if !strings.Contains(out, "\nNext\n") || !strings.Contains(out, "--without clusterrolebinding/system:node") {
		t.Errorf("the report is\n%s", out)
	}
	if strings.Contains(out, wording.NoBindingLeft) {
		t.Errorf("a binding is there:\n%s", out)
	}
	f.Bindings = []NodeBinding{}
	if out = text(t, l.b.Report(f), Text{}); !strings.Contains(out, "\n"+wording.NoBindingLeft+"\n") {
		t.Errorf("no binding is there:\n%s", out)
	}
}

// Once no binding is left, the worst findings come on the first screen: three of them, or, on a screen without room, the first.
func TestWorstFindingsWithoutBindings(t *testing.T) {
	for n := range 6 {
		l := newLog(t)
		for i := range n {
			l.add(fmt.Sprintf(" get nodes worker-%d", i), stranger(fmt.Sprintf("user-%d", i)))
		}
		f := facts(1)
		f.Bindings, f.Checks = []NodeBinding{}, passedChecks()
		r := l.b.Report(f)
		if len(r.Findings) != n {
			t.Fatalf("%d findings, want %d", len(r.Findings), n)
		}
		s := r.Summary()
		for _, c := range []struct {
			detail      bool
			most, title int
		}{{true, 3, 1}, {false, 1, 0}} {
			out := Text{}.first(&s, r, layout{detail: c.detail})
			shown := 0
			for i := range r.Findings {
				if strings.Contains(without(out), without(r.Findings[i].Message)) {
					shown++
				}
			}
			title := min(c.title, n)
			if shown != min(n, c.most) || strings.Count(out, "Worst findings") != title {
				t.Errorf("%d of %d findings are shown with detail %t:\n%s", shown, n, c.detail, out)
			}
			more := n - c.most
			if has := strings.Contains(out, "more finding"); c.detail && has != (more > 0) || has && !strings.Contains(out, fmt.Sprintf("  %s\n", wording.MoreOf(int64(more), "finding"))) {
				t.Errorf("the rest of %d findings:\n%s", n, out)
			}
			if all := wording.WorstOf(int64(n), "", ""); n > 0 && !c.detail && !strings.Contains(without(out), without(strings.SplitN(all, "(", 2)[0])) {
				t.Errorf("%q is not said:\n%s", all, out)
			}
		}
	}
	// With a binding, they come later.
	l := newLog(t)
	l.add(" get nodes worker-1", stranger("user"))
	f := facts(1)
	f.Bindings = []NodeBinding{{Binding: Binding{Kind: "ClusterRoleBinding", Name: "system:node"}, Role: "system:node", Fate: "goes"}}
	r := l.b.Report(f)
	if s := r.Summary(); strings.Contains(Text{}.first(&s, r, layout{detail: true}), "Worst findings") {
		t.Error("findings come before the blockers while a binding is there")
	}
}

func TestCommandsCanBePasted(t *testing.T) {
	command := `nodetrail what-if --without 'clusterrolebinding/a b' --state <journal> --fail-on breaks <audit log>`
	for columns := 20; columns < 120; columns++ {
		lines := wording.WrapCommand(command, columns)
		if lines == nil {
			continue
		}
		var b bytes.Buffer
		for i, line := range lines {
			if wideColumns(line) > columns {
				t.Errorf("%d: %q", columns, line)
			}
			if i < len(lines)-1 {
				line = strings.TrimSuffix(line, `\`)
			}
			b.WriteString(line)
		}
		if b.String() != command {
			t.Errorf("%d: %q", columns, b.String())
		}
	}
}

// The page's contents lead to each of its parts, and none is open; without all it lists at most 20 of each.
func TestPageOfCapture(t *testing.T) {
	r := capture(t, "capture", "auto", func(*pipeline.Judgement) {})
	var b bytes.Buffer
	if err := r.WriteHTML(&b, false); err != nil {
		t.Fatal(err)
	}
	tags, _ := elements(t, b.String())
	var links, parts []string
	rows := 0
	for _, tag := range tags {
		name, attributes, _ := strings.Cut(tag, " ")
		switch name {
		case "a":
			links = append(links, strings.TrimPrefix(attributes, "href=#"))
		case "details":
			if strings.Contains(attributes, "open") {
				t.Errorf("element %s", tag)
			}
			parts = append(parts, strings.TrimPrefix(attributes, "id="))
		case "table":
			rows = 0
		case "tr":
			if rows++; rows > topOf+1 {
				t.Fatal("a table has more than 20 rows")
			}
		}
	}
	if slices.Sort(links); len(links) < 10 {
		t.Errorf("%d links", len(links))
	}
	slices.Sort(parts)
	if diff := cmp.Diff(links, parts); diff != "" {
		t.Errorf("contents and parts (-contents +parts):\n%s", diff)
	}
	if head := r.Readiness.Head() + ", " + r.Confinement.Question().Head() + "</title>"; !strings.Contains(b.String(), head) {
		t.Errorf("the title lacks %q", head)
	}
	if full := asHTML(t, r); strings.Count(full, "<tr>") < len(r.Findings) || b.Len()*3 > len(full) {
		t.Errorf("%d bytes, all is %d", b.Len(), len(full))
	}
	var md bytes.Buffer
	if err := r.WriteMarkdown(&md, false); err != nil {
		t.Fatal(err)
	}
	check(t, "summary-capture.md", md.Bytes())
}
