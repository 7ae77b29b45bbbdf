package checks

import (
	"fmt"
	"regexp"
	"strings"
)

const generated = "<!-- Written by go generate from the checks' Doc: change it there. -->"

// Page is the check's page under docs/checks, in Markdown. In a Doc, 'quoted text' is code.
func Page(c *Check) string {
	_, body, _ := strings.Cut(c.Doc, "\n\n")
	body = regexp.MustCompile(`(^|[\s(])'([^'\n]+)'`).ReplaceAllString(body, "$1`$2`")
	return fmt.Sprintf("%s\n# %s\n\nCheck `%s`, of the question: %s\n\n%s\n", generated, c.Title(), c.Name, asked(c.Questions), strings.TrimSpace(body))
}

func asked(q Question) string {
	switch q {
	case Ready:
		return "can the bindings be deleted?"
	case Confined:
		return "is a stolen kubelet credential confined to its node?"
	}
	return "can the bindings be deleted? And of: is a stolen kubelet credential confined to its node?"
}

// Index is docs/checks/README.md.
func Index(all []Check) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# Checks\n\n", generated)
	b.WriteString("READY means that every check of the first list passed, CONFINED that every check of the second list did. The names are stable: they are\n" +
		"labels of metrics and keys of waivers.\n\n" +
		"A check is passed, failed, unproven or waived. One failed check makes the answer NOT READY (NOT CONFINED). If none failed and one is\n" +
		"unproven, the answer is NOT ENOUGH EVIDENCE. A waiver covers what is unproven, never what failed, nor what depends on a check that failed.\n" +
		"The answer then says how many waivers it rests on.\n")
	for _, q := range []Question{Ready, Confined} {
		fmt.Fprintf(&b, "\n## %s\n\n| check | claim |\n|---|---|\n", map[Question]string{
			Ready: "Can the bindings be deleted?", Confined: "Is a stolen kubelet credential confined to its node?",
		}[q])
		for i := range all {
			if c := &all[i]; c.Questions&q != 0 {
				fmt.Fprintf(&b, "| [%s](%s.md) | %s |\n", c.Name, c.Name, c.Title())
			}
		}
	}
	b.WriteString("\n## Waivers\n\nA waiver names the check, what of it is covered, who answers for it, why, and until when:\n\n```yaml\n" + waiverExample + "```\n\n" +
		"Each key of 'scope' that you give must match. Without a scope, a waiver covers only what is about the whole cluster. The report lists\n" +
		"waivers that cover nothing or are expired.\n")
	return strings.ReplaceAll(b.String(), "'scope'", "`scope`")
}

const waiverExample = `waivers:
  - check: reads-logged
    scope:
      nodes: [worker-3]
      requests: [watch pods]
      hours: {from: 2026-11-20T14:00:00Z, to: 2026-11-20T16:00:00Z}
    owner: platform team
    reason: the log of that server was lost when its disk failed
    expires: 2026-12-31
`
