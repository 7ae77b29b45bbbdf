package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/wording"
)

// WriteText writes the answer for people.
func (r *PolicyCheckResult) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, q := range []struct {
		answer string
		checks.Question
	}{{"READY", checks.Ready}, {"CONFINED", checks.Confined}} {
		if n, of := r.Cannot(q.Question); n > 0 {
			fmt.Fprintf(&b, "%-9s impossible with this policy: %d of %d checks cannot pass\n", q.answer, n, of)
		} else {
			fmt.Fprintf(&b, "%-9s possible with this policy: each of the %d checks can pass\n", q.answer, of)
		}
	}
	part := func(title string, in func(*CheckUnderPolicy) bool) {
		for i := range r.Checks {
			c := &r.Checks[i]
			if !in(c) {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(&b, "  %-20s %s\n", c.Check.Name, c.Check.Title())
			for _, l := range c.Lacks {
				fmt.Fprintf(&b, "  %-20s   %s\n", "", wording.English{}.Say(l.Code, l.Params))
			}
			if len(c.RestsOn) > 0 {
				fmt.Fprintf(&b, "  %-20s   %s\n", "", "rests on "+strings.Join(c.RestsOn, ", "))
			}
		}
	}
	part("Checks that cannot pass", func(c *CheckUnderPolicy) bool { return c.Cannot })
	part("Checks that can pass, but see less", func(c *CheckUnderPolicy) bool { return c.Weak })
	_, err := io.WriteString(w, b.String())
	return err
}

type policyJSON struct {
	Ready    bool              `json:"ready"`
	Confined bool              `json:"confined"`
	Checks   []policyCheckJSON `json:"checks"`
	Warnings []string          `json:"warnings,omitempty"`
}

type policyCheckJSON struct {
	Name      string           `json:"name"`
	Questions string           `json:"questions"`
	State     string           `json:"state"`
	Lacks     []policyLackJSON `json:"lacks,omitempty"`
	RestsOn   []string         `json:"restsOn,omitempty"`
}

type policyLackJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// WriteJSON writes the answer as JSON.
func (r *PolicyCheckResult) WriteJSON(w io.Writer) error {
	ready, _ := r.Cannot(checks.Ready)
	confined, _ := r.Cannot(checks.Confined)
	out := policyJSON{Ready: ready == 0, Confined: confined == 0, Warnings: r.Warnings}
	for i := range r.Checks {
		c := &r.Checks[i]
		of := policyCheckJSON{Name: c.Check.Name, Questions: c.Check.Questions.String(), State: "possible", RestsOn: c.RestsOn}
		switch {
		case c.Cannot:
			of.State = "impossible"
		case c.Weak:
			of.State = "weak"
		}
		for _, l := range c.Lacks {
			of.Lacks = append(of.Lacks, policyLackJSON{string(l.Code), wording.English{}.Say(l.Code, l.Params)})
		}
		out.Checks = append(out.Checks, of)
	}
	return wording.WriteJSON(w, out)
}
