package app

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// The default report of days of FuzzReady: no line is over 100 columns, and the first 24 lines have both answers, every blocker or the five largest and how
// many more there are, and what to do next. The first of each world's days is clean, the others are what was done to it.
func TestFirstScreenOfDays(t *testing.T) {
	most := 0
	for world := uint64(1); world <= 3; world++ {
		clean, err := worldOf(world)
		if err != nil {
			t.Fatal(err)
		}
		for index := range uint64(4) {
			c := readyCase{world, index}
			day, _ := c.apply(clean)
			a := analyzedDay(t, day)
			if a == nil {
				t.Fatal(c)
			}
			var b bytes.Buffer
			if err := (report.Text{}).Write(&b, a.Report); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(b.String(), "\n")
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > 100 {
					t.Errorf("%s: a line of %d columns: %q", c, n, line)
				}
			}
			screen := strings.Join(lines[:min(24, len(lines))], "\n")
			wrong := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s: %s:\n%s", c, fmt.Sprintf(format, args...), screen)
			}
			for _, ask := range []string{wording.AskReady, wording.AskConfined} {
				if strings.Count(screen, "\n"+ask+"   ") != 1 {
					wrong("no answer to %q", ask)
				}
			}
			s := a.Report.Summary()
			blockers, _, _ := strings.Cut(screen[strings.Index(screen+"\nBlockers\n", "\nBlockers\n"):], "\nGaps\n")
			named := len(regexp.MustCompile(`(?m)^ {1,2}[0-9]+\. `).FindAllString(blockers, -1))
			if named != min(5, len(s.Blockers)) {
				wrong("%d of %d blockers", named, len(s.Blockers))
			}
			if more := len(s.Blockers) - named; more > 0 && !regexp.MustCompile(fmt.Sprintf(`(?m)^  and %d more blockers? \(--all\)(;|$)`, more)).MatchString(screen) {
				wrong("no count of %d more blockers", more)
			}
			if (len(s.Blockers)+len(s.Gaps) > 0 || s.Then != nil) && !strings.Contains(screen, "\n       next: ") && !strings.Contains(screen, "\nNext\n") {
				wrong("nothing to do next")
			}
			last := math.MaxInt
			for i := range s.Blockers {
				if count, _, ok := strings.Cut(s.Blockers[i].Count, " request"); ok {
					n, err := strconv.Atoi(strings.ReplaceAll(count, ",", ""))
					if err != nil || n > last {
						wrong("blocker %d has %s requests, more than the one before: %v", i+1, count, err)
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
