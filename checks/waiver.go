package checks

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/listfile"
)

// Bounds of a file of waivers.
const (
	MaxWaiverBytes = 1 << 20
	MaxWaivers     = 1000
)

// Waiver says that somebody answers for what the log cannot show.
type Waiver struct {
	Check string `yaml:"check"`
	Scope Scope  `yaml:"scope,omitempty"`
	// Owner is who answers for it, Reason why.
	Owner  string `yaml:"owner"`
	Reason string `yaml:"reason"`
	// Expires is the last day, UTC, on which it holds.
	Expires time.Time `yaml:"expires"`
}

// Scope is what of a check a waiver covers: items that match each member that is there. A scope with none covers the items that are about no node, server,
// line, kind of request or time.
type Scope struct {
	Nodes    []string `yaml:"nodes,omitempty"`
	Servers  []string `yaml:"servers,omitempty"`
	Lines    []string `yaml:"lines,omitempty"`
	Requests []string `yaml:"requests,omitempty"`
	Hours    *Hours   `yaml:"hours,omitempty"`
}

// Hours is a time [From, To).
type Hours struct {
	From time.Time `yaml:"from"`
	To   time.Time `yaml:"to"`
}

// ParseWaivers reads a file of waivers: YAML with the one key waivers. Unknown keys, a check that does not exist, and a waiver without an owner, a reason or
// an expiry date are errors, with the line.
func ParseWaivers(b []byte) ([]Waiver, error) {
	if len(b) > MaxWaiverBytes {
		return nil, fmt.Errorf("reading waivers: more than %d bytes", MaxWaiverBytes)
	}
	waivers, lines, err := listfile.Decode[Waiver](b, "waivers")
	if err != nil {
		return nil, fmt.Errorf("reading waivers: %w", err)
	}
	if len(waivers) > MaxWaivers {
		return nil, fmt.Errorf("reading waivers: more than %d", MaxWaivers)
	}
	for i := range waivers {
		if err := waivers[i].Validate(); err != nil {
			return nil, listfile.At(lines, i, fmt.Errorf("waiver %d: %w", i+1, err))
		}
	}
	return waivers, nil
}

// Validate returns what is wrong with the waiver.
func (w *Waiver) Validate() error {
	switch {
	case !slices.ContainsFunc(All(), func(c Check) bool { return c.Name == w.Check }):
		return fmt.Errorf("there is no check %q", w.Check)
	case strings.TrimSpace(w.Owner) == "":
		return errors.New("it has no owner")
	case strings.TrimSpace(w.Reason) == "":
		return errors.New("it has no reason")
	case w.Expires.IsZero():
		return errors.New("it has no expiry date (expires)")
	}
	if h := w.Scope.Hours; h != nil && !h.From.Before(h.To) {
		return errors.New("its hours end before they begin")
	}
	return nil
}

// Expired reports whether the waiver's last day is over.
func (w *Waiver) Expired(now time.Time) bool {
	return !now.Before(w.Expires.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1))
}

// Applied is a waiver and what it covers. One that covers nothing, or is expired, is to be reported.
type Applied struct {
	Waiver  Waiver
	Covers  []Item
	Expired bool
}

// Apply returns the results with the waivers applied as of now, and what each waiver covers. The results that were given do not change. A waiver makes
// unproven items waived, and nothing else.
func Apply(results []Result, waivers []Waiver, now time.Time) ([]Result, []Applied) {
	out := slices.Clone(results)
	applied := make([]Applied, 0, len(waivers))
	for _, w := range waivers {
		a := Applied{Waiver: w, Expired: w.Expired(now)}
		for i := range out {
			if r := &out[i]; !a.Expired && r.Check == w.Check {
				a.Covers = append(a.Covers, r.waive(&w.Scope)...)
			}
		}
		applied = append(applied, a)
	}
	return out, applied
}

// waive turns the unproven items in the scope into waived ones, and returns these.
func (r *Result) waive(s *Scope) (covers []Item) {
	var all []Item // nil while nothing is covered
	matches := s.matcher()
	for i := range r.Evidence {
		item := &r.Evidence[i]
		var in, rest []Item
		if item.State == Unproven && item.waivable() && matches(item) {
			in, rest = s.split(*item)
		}
		if len(in) == 0 {
			if all != nil {
				all = append(all, *item)
			}
			continue
		}
		if all == nil {
			all = slices.Clone(r.Evidence[:i])
		}
		for i := range in {
			in[i].State = Waived
		}
		covers = append(covers, in...)
		all = append(append(all, in...), rest...)
	}
	if len(covers) > 0 {
		r.Evidence = all
		if s := stateOf(all); r.State == Unproven {
			r.State = s
		}
		if r.State == Waived {
			r.Next = Next{}
		}
	}
	return covers
}

// waivable reports whether there is something that somebody can answer for. Where nobody looked at anything, or a check failed, there is not.
func (i *Item) waivable() bool {
	switch i.Code {
	case CodeNothingSeen, CodeNoLog, CodeNotLookedAt, CodeRestsOnUnwaivable:
		return false
	}
	return true
}

// waivable reports whether waivers can cover all for which the check does not pass.
func (r *Result) waivable() bool {
	all := slices.Clone(r.Evidence)
	for i := range all {
		if item := &all[i]; item.State == Unproven && item.waivable() {
			item.State = Waived
		}
	}
	return r.State != Failed && stateOf(all) == Waived
}

func (s *Scope) empty() bool {
	return len(s.Nodes)+len(s.Servers)+len(s.Lines)+len(s.Requests) == 0 && s.Hours == nil
}

// matcher returns what reports whether an item is one of those that the scope names, whatever its hours.
func (s *Scope) matcher() func(i *Item) bool {
	if s.empty() {
		return func(i *Item) bool {
			return i.Node == "" && i.Server == "" && i.Line == "" && i.Request == "" && i.From.IsZero()
		}
	}
	in := func(names []string) func(string) bool {
		set := make(map[string]bool, len(names))
		for _, n := range names {
			set[n] = true
		}
		return func(name string) bool { return len(set) == 0 || name != "" && set[name] }
	}
	nodes, servers, lines, requests := in(s.Nodes), in(s.Servers), in(s.Lines), in(s.Requests)
	return func(i *Item) bool { return nodes(i.Node) && servers(i.Server) && lines(i.Line) && requests(i.Request) }
}

// split returns what of an item is within the scope's hours, and what is not. The item's figures are of the whole, so that parts have none.
func (s *Scope) split(i Item) (in, rest []Item) {
	h := s.Hours
	switch {
	case h == nil:
		return []Item{i}, nil
	case i.From.IsZero() || !i.From.Before(h.To) || i.To.Before(h.From) || i.To.Equal(h.From) && i.From.Before(i.To):
		return nil, []Item{i}
	case !i.From.Before(h.From) && !i.To.After(h.To):
		return []Item{i}, nil
	}
	part := func(from, to time.Time) Item {
		p := i
		p.From, p.To, p.Expected, p.Seen = from, to, 0, 0
		return p
	}
	to := i.To
	if i.From.Before(h.From) {
		rest = append(rest, part(i.From, h.From))
	}
	if i.To.After(h.To) {
		rest = append(rest, part(h.To, i.To))
		to = h.To
	}
	return []Item{part(later(i.From, h.From), to)}, rest
}

// WaiversFor returns the waivers that would cover all that is unproven and can be waived, in the order of the results. Owner, reason and expiry date are
// those given.
func WaiversFor(results []Result, owner, reason string, expires time.Time) []Waiver {
	type key struct {
		check, server, line, request string
		from, to                     time.Time
		node                         bool
	}
	type named struct {
		waiver int
		node   string
	}
	at, nodes := map[key]int{}, map[named]bool{}
	var out []Waiver
	for i := range results {
		r := &results[i]
		if r.State != Unproven {
			continue
		}
		for j := range r.Evidence {
			item := &r.Evidence[j]
			if item.State != Unproven || !item.waivable() {
				continue
			}
			k := key{r.Check, item.Server, item.Line, item.Request, item.From, item.To, item.Node != ""}
			n, there := at[k]
			if !there {
				n = len(out)
				at[k] = n
				out = append(out, Waiver{Check: r.Check, Scope: scopeOf(item), Owner: owner, Reason: reason, Expires: expires.UTC().Truncate(24 * time.Hour)})
			}
			if one := (named{n, item.Node}); item.Node != "" && !nodes[one] {
				nodes[one] = true
				out[n].Scope.Nodes = append(out[n].Scope.Nodes, item.Node)
			}
		}
	}
	// Items overlap: of two waivers the first may leave nothing to the second.
	_, applied := Apply(results, out, expires)
	needed := out[:0]
	for i := range applied {
		if len(applied[i].Covers) > 0 {
			needed = append(needed, out[i])
		}
	}
	return needed
}

// scopeOf is the scope of one item but for its node.
func scopeOf(i *Item) (s Scope) {
	list := func(name string) []string {
		if name == "" {
			return nil
		}
		return []string{name}
	}
	s.Servers, s.Lines, s.Requests = list(i.Server), list(i.Line), list(i.Request)
	if !i.From.IsZero() {
		s.Hours = &Hours{From: i.From.UTC(), To: i.To.UTC()}
		if !i.From.Before(i.To) {
			s.Hours.From = i.From.UTC().Truncate(time.Hour)
			s.Hours.To = s.Hours.From.Add(time.Hour)
		}
	}
	return s
}

// WaiverText is a file of waivers, to be pasted.
func WaiverText(waivers []Waiver) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	var file yaml.Node
	if err := file.Encode(map[string][]Waiver{"waivers": waivers}); err != nil {
		return "", fmt.Errorf("writing waivers: %w", err)
	}
	quoteLines(&file)
	comment(&file)
	if err := e.Encode(&file); err != nil {
		return "", fmt.Errorf("writing waivers: %w", err)
	}
	if err := e.Close(); err != nil {
		return "", fmt.Errorf("writing waivers: %w", err)
	}
	return b.String(), nil
}

// comment says what is to be filled in.
func comment(n *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		switch value := n.Content[i+1]; {
		case value.Value != "":
		case n.Content[i].Value == "owner":
			value.LineComment = "who answers for it"
		case n.Content[i].Value == "reason":
			value.LineComment = "why"
		}
	}
	for _, c := range n.Content {
		comment(c)
	}
}

// quoteLines has texts of several lines written as one: a name from a log makes no line.
func quoteLines(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.ContainsAny(n.Value, "\n\r\u0085\u2028\u2029") {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		quoteLines(c)
	}
}
