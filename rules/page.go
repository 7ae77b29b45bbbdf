package rules

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Page is the rule's page under docs/rules, in Markdown. In a Doc, 'quoted text' is code; an apostrophe inside or after a word is
// left alone.
func Page(r *Rule) string {
	_, body, _ := strings.Cut(r.Doc, "\n\n")
	body = asCode(body)
	rule := regexp.MustCompile(`\(see ([a-z-]+)\)|\b[Tt]he rule ([a-z-]+)`)
	body = rule.ReplaceAllStringFunc(body, linkRules)
	return fmt.Sprintf("%s\n# %s\n\nRule `%s`, severity up to %s.\n\n%s\n\n%s", generated, r.Title(), r.Name, r.Severity, strings.TrimSpace(body), reasonList(r))
}

// asCode makes 'quoted text' code.
func asCode(s string) string {
	return regexp.MustCompile(`(^|[\s(])'([^'\n]+)'`).ReplaceAllString(s, "$1`$2`")
}

// reasonList lists the codes of a rule.
func reasonList(r *Rule) string {
	var b strings.Builder
	b.WriteString("## Reasons\n\nThe codes are stable. Findings have one as `reason`, in JSON, metrics and alerts.\n\n")
	for _, d := range r.Reasons {
		fmt.Fprintf(&b, "- `%s`: %s\n", d.Reason, asCode(d.Doc))
	}
	return b.String()
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
