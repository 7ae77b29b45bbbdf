package app

import (
	"os"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// The exceptions of docs/confined.md cover all that is found of the probe on that page.
func TestExceptionsOfTheProbe(t *testing.T) {
	page, err := os.ReadFile("../docs/confined.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\nexceptions:\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the page has no exceptions")
	}
	all, err := exceptions.Parse([]byte("exceptions:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := exceptions.New(all)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := days.Named("probe-plugin", 1)
	d, ok := m.Apply(threeHours(t, 41, days.Options{Minor: 36, NoBinding: true}))
	if !ok {
		t.Fatal("it does not apply")
	}
	r := analyzedDay(t, d, func(o *AnalyzeOptions) { o.Exceptions, o.Now = set, d.To }).Report
	for i := range r.Exceptions {
		if r.Exceptions[i].Findings == 0 {
			t.Errorf("%s matches nothing", r.Exceptions[i].Match)
		}
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.Excepted {
			t.Errorf("not covered: %s %s", f.Rule, f.Message)
		}
	}
}
