package rules

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// namedRule and quoted are compiled when a page is asked for first.
var (
	namedRule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\(see ([a-z-]+)\)|\b[Tt]he rule ([a-z-]+)`) })
	quoted    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[\s(])'([^'\n]+)'`) })
)

// Page is the rule's page under docs/rules, in Markdown; it starts with what to do. In a Doc, 'quoted text' is code; an apostrophe inside or after a word is
// left alone.
func Page(r *Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# %s\n\nRule `%s`, severity up to %s.\n", generated, r.Title(), r.Name, r.Severity)
	fmt.Fprintf(&b, "\n## What to do\n%s\n%s\n", Commands(r, "analyze", "--state journal.jsonl audit.log"), r.Section("What to do", LinkTo("")))
	for _, name := range []string{"What", "Why", "False positives", "How to silence it"} {
		fmt.Fprintf(&b, "\n## %s\n%s\n", name, r.Section(name, LinkTo("")))
	}
	return b.String() + "\n" + reasonList(r)
}

// Commands are those that list the findings of the rule and explain one.
func Commands(r *Rule, command, input string) string {
	return fmt.Sprintf("List the findings: who made the request, from which address, and what the API server answered. Then explain one by its audit ID.\n\n"+
		"```sh\nnodetrail %s --all --rule %s %s\nnodetrail explain --state journal.jsonl --audit-log audit.log --audit-id ID\n```\n", command, r.Name, input)
}

// Section is a section of the Doc in Markdown, without its heading. link makes of a rule's name a link to its page.
func (r *Rule) Section(name string, link func(rule string) string) string {
	_, text, _ := strings.Cut(r.Doc+"\n## ", "\n## "+name+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return namedRule().ReplaceAllStringFunc(asCode(strings.TrimSpace(text)), func(phrase string) string {
		for _, other := range All() {
			phrase = strings.Replace(phrase, other.Name, link(other.Name), 1)
		}
		return phrase
	})
}

// LinkTo links rules by their names to pages in a folder, which ends in a slash unless it is the page's own.
func LinkTo(folder string) func(string) string {
	return func(rule string) string { return "[" + rule + "](" + folder + rule + ".md)" }
}

// asCode makes 'quoted text' code.
func asCode(s string) string {
	return quoted().ReplaceAllString(s, "$1`$2`")
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
	b.WriteString("\nThe severities are low, medium, high and critical. A request that is a race, or whose verdict is unknown and that the API server\n" +
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
