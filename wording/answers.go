package wording

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
)

// Answer is a verdict as a title: "Ready with 2 waivers". Empty for what is no answer.
func Answer(a checks.Answer, waivers int) string {
	s := string(a)
	switch a {
	case "":
		return ""
	case checks.AnswerReadyWaived:
		s = "ready with " + Plural(int64(waivers), "waiver")
	case checks.AnswerConfinedWaived:
		s = "confined with " + Plural(int64(waivers), "waiver")
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// CheckCounts counts the checks of a question by their states.
type CheckCounts struct{ Passed, Failed, Unproven, Waived int }

// String names the states that occur, the worst first: "1 check failed, 2 are unproven, 12 passed".
func (c CheckCounts) String() string {
	var out []string
	add := func(n int, one, many string) {
		switch {
		case n == 0:
		case len(out) > 0 && n == 1:
			out = append(out, "1 "+one)
		case len(out) > 0:
			out = append(out, fmt.Sprintf("%d %s", n, many))
		case n == 1:
			out = append(out, "1 check "+one)
		default:
			out = append(out, fmt.Sprintf("%d checks %s", n, many))
		}
	}
	add(c.Failed, "failed", "failed")
	add(c.Unproven, "is unproven", "are unproven")
	add(c.Waived, "is waived", "are waived")
	add(c.Passed, "passed", "passed")
	return strings.Join(out, ", ")
}

// namedNodes is how many nodes an answer names that is about some alone.
const namedNodes = 10

// Means says what an answer means: for all nodes, or for those of only.
func Means(a checks.Answer, q checks.Question, only []string, c CheckCounts) string {
	deletable, undeletable := "the bindings can be deleted", "the bindings must not be deleted yet"
	confined, of := "a stolen kubelet credential is confined to its node", ""
	if len(only) > 0 {
		of = " of " + Some(only, 0, namedNodes)
		deletable, undeletable = "the kubelets"+of+" do not need the bindings", "the bindings must stay for the kubelets"+of
		confined = "a stolen kubelet credential" + of + " is confined to its node"
	}
	say := map[checks.Answer]string{
		checks.AnswerReady: deletable, checks.AnswerReadyWaived: deletable + " if the waivers hold",
		checks.AnswerNotReady: undeletable,
		checks.AnswerConfined: confined, checks.AnswerConfinedWaived: confined + " if the waivers hold",
		checks.AnswerNotConfined: "a stolen kubelet credential" + of + " reaches beyond its node",
		checks.AnswerNotEnough:   "it is not proven that " + deletable,
	}[a]
	if a == checks.AnswerNotEnough && q == checks.Confined {
		say = "it is not proven that " + confined
	}
	return say + ": " + c.String()
}
