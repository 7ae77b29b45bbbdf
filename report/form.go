package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

// Forms are the names of the forms that [Text.WriteAs] knows.
func Forms() []string {
	return []string{"text", "json", "yaml", "markdown", "html", "sarif", "junit", "csv"}
}

// WriteAs writes the report in one of [Forms]. Text, Markdown and HTML have everything only with All.
func (t Text) WriteAs(w io.Writer, form string, r *Report) error {
	switch form {
	case "text":
		return t.Write(w, r)
	case "json":
		return r.WriteJSON(w)
	case "yaml":
		return r.WriteYAML(w)
	case "markdown":
		return r.WriteMarkdown(w, t.All)
	case "html":
		return r.WriteHTML(w, t.All)
	case "sarif":
		return r.WriteSARIF(w)
	case "junit":
		return r.WriteJUnit(w)
	case "csv":
		return r.WriteCSV(w)
	}
	return fmt.Errorf("a report has no form %q: %s", form, strings.Join(Forms(), ", "))
}

// FailOn says which reports fail. The zero value is none.
type FailOn struct {
	// Severity is that of the least severe finding that fails; None is none.
	Severity rules.Severity
	// NotReady and NotConfined fail where the answer is not READY, or not CONFINED.
	NotReady, NotConfined bool
	// AcceptWaivers lets an answer pass that rests on waivers.
	AcceptWaivers bool
}

const (
	notReady    = "not-ready"
	notConfined = "not-confined"
)

// FailOnWords are what [FailOn.Parse] reads.
func FailOnWords() []string {
	return slices.Concat(rules.SeverityNames(), []string{notReady, notConfined})
}

// Parse reads a list of [FailOnWords] that are separated by commas; "" is none. Of several severities the lowest counts.
func (f *FailOn) Parse(list string) error {
	if list == "" {
		return nil
	}
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); word {
		case notReady:
			f.NotReady = true
		case notConfined:
			f.NotConfined = true
		default:
			s, err := rules.ParseSeverity(word)
			if err != nil {
				return fmt.Errorf("%q is none of low, medium, high, critical, not-ready and not-confined", word)
			}
			if f.Severity == rules.None || s < f.Severity {
				f.Severity = s
			}
		}
	}
	return nil
}
