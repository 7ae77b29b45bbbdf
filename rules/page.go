package rules

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sections are the headings of a rule's Doc, in their order.
func Sections() []string {
	return []string{"What", "Why", "What to do", "False positives", "How to silence it"}
}

// Page is the rule's page under docs/rules, in Markdown. In a Doc, 'quoted text' is code; an apostrophe inside or after a word is
// left alone.
func Page(r *Rule) string {
	_, body, _ := strings.Cut(r.Doc, "\n\n")
	code := regexp.MustCompile(`(^|[\s(])'([^'\n]+)'`)
	body = code.ReplaceAllString(body, "$1`$2`")
	rule := regexp.MustCompile(`\(see ([a-z-]+)\)|\b[Tt]he rule ([a-z-]+)`)
	body = rule.ReplaceAllStringFunc(body, linkRules)
	return fmt.Sprintf("%s\n# %s\n\nRule `%s`, severity up to %s.\n\n%s\n", generated, r.Title(), r.Name, r.Severity, strings.TrimSpace(body))
}

// Index is docs/rules/README.md.
func Index(rules []*Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# Rules\n\n", generated)
	b.WriteString("What nodetrail flags. The names are stable: they are metric labels, alert names and configuration keys.\n\n")
	b.WriteString("| rule | severity, at most | what it says |\n|---|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", r.Name, r.Name, r.Severity, r.Title())
	}
	b.WriteString("\nThe severities are low, medium, high and critical. A request that is a race, or whose verdict is unknown and that the apiserver\n" +
		"does not decide, is flagged by no rule that depends on the verdict.\n")
	return b.String()
}

// AlertName is a rule's name as alerts have it, in PascalCase.
func AlertName(rule string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(rule, "-") {
		r, n := utf8.DecodeRuneInString(part)
		if n > 0 {
			b.WriteRune(unicode.ToUpper(r))
			b.WriteString(part[n:])
		}
	}
	return b.String()
}

const generated = "<!-- Written by go generate from the rules' Doc: change it there. -->"

// linkRules turns each name of a rule in a phrase into a link to its page.
func linkRules(phrase string) string {
	for _, r := range All() {
		phrase = strings.Replace(phrase, r.Name, "["+r.Name+"]("+r.Name+".md)", 1)
	}
	return phrase
}
