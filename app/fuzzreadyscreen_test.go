package app

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// The default report of days of FuzzReady: no line is wider than the terminal, no text is cut, and the first 24 lines have both answers, the two worst
// blockers and gaps, and what to do next. The first of each world's days is clean, the others are what was done to it.
func TestFirstScreenOfDays(t *testing.T) {
	most := 0
	for world := uint64(1); world <= 3; world++ {
		clean, err := worldOf(world)
		if err != nil {
			t.Fatal(err)
		}
		for index := range effort.Of(uint64(4), 2) {
			c := readyCase{world, index}
			day, _ := c.apply(clean)
			a := analyzedDay(t, day)
			if a == nil {
				t.Fatal(c)
			}
			onFirstScreen(t, fmt.Sprint(c), a.Report)
			s := a.Report.Summary()
			last := math.MaxInt
			for i := range s.Blockers {
				if count, _, ok := strings.Cut(s.Blockers[i].Count, " request"); ok {
					n, err := strconv.Atoi(strings.ReplaceAll(count, ",", ""))
					if err != nil || n > last {
						t.Errorf("%s: blocker %d has %s requests, more than the one before: %v", c, i+1, count, err)
					}
					last = n
				}
			}
			most = max(most, len(s.Blockers))
		}
	}
	if most < 2 {
		t.Errorf("no day has more than %d blockers", most)
	}
}

// onFirstScreen holds a report against what docs/output.md promises of its first 24 lines.
func onFirstScreen(t *testing.T, name string, r *report.Report) {
	t.Helper()
	s := r.Summary()
	for _, columns := range []int{0, 80, 100} {
		var b bytes.Buffer
		if err := (report.Text{Columns: columns}).Write(&b, r); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 || columns > 0 && n > columns {
				t.Errorf("%s: a line of %d columns: %q", name, n, line)
			}
		}
		screen := strings.Join(lines[:min(24, len(lines))], "\n")
		wrong := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s, %d columns: %s:\n%s", name, columns, fmt.Sprintf(format, args...), screen)
		}
		for _, ask := range []string{wording.AskReady, wording.AskConfined} {
			if strings.Count(screen, "\n"+ask+"   ") != 1 {
				wrong("no answer to %q", ask)
			}
		}
		if strings.Contains(b.String(), "…") {
			wrong("a text is cut")
		}
		for title, points := range map[string][]report.Point{"Blockers": s.Blockers, "Gaps": s.Gaps} {
			_, part, _ := strings.Cut(screen, "\n"+title)
			part, _, _ = strings.Cut(part, "\n\n")
			if named := len(regexp.MustCompile(`(?m)^ {1,2}[0-9]+\. `).FindAllString(part, -1)); named < min(2, len(points)) {
				wrong("%d of %d under %s", named, len(points), title)
			}
		}
		if (len(s.Blockers)+len(s.Gaps) > 0 || s.Then != nil) && !strings.Contains(screen, "\nNext\n") {
			wrong("nothing to do next")
		}
	}
}

// The bundled captures of the demonstration, with all checks.
func TestFirstScreenOfCaptures(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		folder := filepath.Join("..", "internal", "demo", name)
		analysis, err := Analyze(context.Background(), AnalyzeOptions{
			Input: Input{Logs: []string{filepath.Join(folder, "audit.log.gz")}, State: []string{filepath.Join(folder, "journal.jsonl.gz")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		onFirstScreen(t, name, analysis.Report)
	}
}
