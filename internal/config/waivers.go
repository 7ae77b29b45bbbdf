package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
)

// Waiver says that somebody answers for what the log cannot show: [checks.Waiver], with times as the file has them.
type Waiver struct {
	Check   string      `yaml:"check"`
	Scope   WaiverScope `yaml:"scope"`
	Owner   string      `yaml:"owner"`
	Reason  string      `yaml:"reason"`
	Expires string      `yaml:"expires"`
}

// WaiverScope is what of a check a waiver covers, as [checks.Scope] has it.
type WaiverScope struct {
	Nodes    []string     `yaml:"nodes"`
	Servers  []string     `yaml:"servers"`
	Lines    []string     `yaml:"lines"`
	Requests []string     `yaml:"requests"`
	Hours    *WaiverHours `yaml:"hours"`
}

// WaiverHours is a time [From, To).
type WaiverHours struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// Waived are the waivers of a configuration that was validated.
func (c *Config) Waived() []checks.Waiver {
	out := make([]checks.Waiver, 0, len(c.Waivers))
	for i := range c.Waivers {
		w := &c.Waivers[i]
		one := checks.Waiver{Check: w.Check, Owner: w.Owner, Reason: w.Reason, Scope: checks.Scope{
			Nodes: w.Scope.Nodes, Servers: w.Scope.Servers, Lines: w.Scope.Lines, Requests: w.Scope.Requests,
		}}
		one.Expires, _ = timeOf(w.Expires)
		if h := w.Scope.Hours; h != nil {
			one.Scope.Hours = &checks.Hours{}
			one.Scope.Hours.From, _ = timeOf(h.From)
			one.Scope.Hours.To, _ = timeOf(h.To)
		}
		out = append(out, one)
	}
	return out
}

// timeOf reads a day or a time.
func timeOf(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, s)
}

func (v *validator) waivers() {
	var names []string
	for _, c := range checks.All() {
		names = append(names, c.Name)
	}
	if n := len(v.c.Waivers); n > checks.MaxWaivers {
		v.fail("waivers", "there are %d, more than %d", n, checks.MaxWaivers)
	}
	for i := range v.c.Waivers {
		w, at := &v.c.Waivers[i], fmt.Sprintf("waivers[%d]", i)
		if v.need(at+".check", w.Check) && !slices.Contains(names, w.Check) {
			text := "the checks are " + strings.Join(names, ", ")
			if s := meant(w.Check, names); s != "" {
				text = fmt.Sprintf("did you mean %s?", s)
			}
			v.fail(at+".check", "there is no check %s: %s", v.q(at+".check", w.Check), text)
		}
		v.need(at+".owner", w.Owner)
		v.need(at+".reason", w.Reason)
		v.time(at+".expires", w.Expires)
		if h := w.Scope.Hours; h != nil {
			from, begins := v.time(at+".scope.hours.from", h.From)
			to, ends := v.time(at+".scope.hours.to", h.To)
			if begins && ends && !from.Before(to) {
				v.fail(at+".scope.hours", "the hours end before they begin")
			}
		}
	}
}

// time reads a time that is needed.
func (v *validator) time(path, s string) (t time.Time, ok bool) {
	if !v.need(path, s) {
		return t, false
	}
	t, err := timeOf(s)
	if err != nil {
		v.fail(path, "%s is neither a day such as 2027-01-31 nor a time such as 2027-01-31T12:00:00Z", v.q(path, s))
	}
	return t, err == nil
}
