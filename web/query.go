package web

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// Bounds of a page of findings.
const (
	defaultLimit = 50
	maxLimit     = 1000
	groupsAtMost = 1000
)

// parseWindow reads the length of a window; its error is an errBadQuery.
func parseWindow(s string) (time.Duration, error) {
	if len(s) > 32 {
		return 0, badQuery("window is too long to be a duration")
	}
	d, err := report.ParseWindow(s)
	if err != nil {
		return 0, badQuery("window: %v", err)
	}
	return d, nil
}

// chooser is a query that was understood.
type chooser struct {
	q        FindingsQuery
	severity rules.Severity
	order    ordering
	text     string
	limit    int
	cursor   *cursor
}

// choose checks a query; its error is an errBadQuery.
func choose(q FindingsQuery) (*chooser, error) {
	c := &chooser{q: q, order: ordering(cmp.Or(q.Sort, "severity")), text: strings.ToLower(q.Text), limit: q.Limit}
	if q.Severity != "" {
		var err error
		if c.severity, err = rules.ParseSeverity(q.Severity); err != nil {
			return nil, badQuery("severity: %v", err)
		}
	}
	if !slices.Contains(sortNames(), strings.TrimPrefix(string(c.order), "-")) {
		return nil, badQuery("sort: %q is none of %s, with or without a - before it", q.Sort, strings.Join(sortNames(), ", "))
	}
	if q.Group != "" && !slices.Contains(groupNames(), q.Group) {
		return nil, badQuery("group: %q is none of %s", q.Group, strings.Join(groupNames(), ", "))
	}
	if q.Allowed != "" && q.Allowed != "true" && q.Allowed != "false" {
		return nil, badQuery("allowed: %q is neither true nor false", q.Allowed)
	}
	if c.limit == 0 {
		c.limit = defaultLimit
	}
	if c.limit < 1 || c.limit > maxLimit {
		return nil, badQuery("limit: %d is not between 1 and %d", q.Limit, maxLimit)
	}
	if q.Cursor != "" {
		at, err := parseCursor(q.Cursor)
		if err != nil || at.sort != string(c.order) {
			return nil, badQuery("cursor: this is no cursor of this query: begin again without it")
		}
		c.cursor = at
	}
	return c, nil
}

func sortNames() []string { return []string{"severity", "last", "first", "count", "rule", "node"} }

func groupNames() []string {
	return []string{"rule", "node", "binding", "userAgent", "resource", "object"}
}

// resourceName is resource[.group][/subresource].
func resourceName(f *Finding) string {
	s := f.Resource
	if f.APIGroup != "" {
		s += "." + f.APIGroup
	}
	if f.Subresource != "" {
		s += "/" + f.Subresource
	}
	return s
}

// matches reports whether the query chooses the finding.
func (c *chooser) matches(f *found) bool {
	q := &c.q
	switch {
	case q.Rule != "" && f.Rule != q.Rule,
		f.severity < c.severity,
		q.Node != "" && f.Node != q.Node,
		q.Namespace != "" && f.Namespace != q.Namespace,
		q.UserAgent != "" && f.UserAgent != q.UserAgent,
		q.Allowed != "" && f.Allowed != (q.Allowed == "true"),
		q.Binding != "" && (f.Binding == nil || bindingName(f.Binding) != q.Binding),
		q.Object != "" && (f.Name == "" || qualified(f.Namespace, f.Name) != q.Object):
		return false
	}
	// A resource without a group and a subresource means that of any group.
	if q.Resource != "" && resourceName(&f.Finding) != q.Resource && (f.Resource != q.Resource || f.Subresource != "") {
		return false
	}
	return c.text == "" || f.holds(c.text)
}

// holds reports whether the text, in lower case, is somewhere in the finding.
func (f *found) holds(text string) bool {
	fields := []string{f.ID, f.Rule, f.Severity, f.Node, f.Verb, resourceName(&f.Finding), qualified(f.Namespace, f.Name), f.UserAgent, f.Message, string(f.Reason), f.key.Apart}
	if f.Binding != nil {
		fields = append(fields, f.Binding.Kind, bindingName(f.Binding))
	}
	fields = append(fields, f.AuditIDs...)
	return slices.ContainsFunc(fields, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// chosen are the findings of the query in its order.
func (c *chooser) chosen(s *snapshot) []*found {
	var out []*found
	for _, f := range s.all {
		if c.matches(f) {
			out = append(out, f)
		}
	}
	if c.order != "severity" { // they are in that order
		c.order.sort(out)
	}
	return out
}

// ordering is a name of an order, with a - before it for the other way round. What comes new, or grows, while somebody pages through, moves
// nothing that was not read yet out of the way, but by the orders last and count.
type ordering string

// orderKey is a finding's place in an ordering, whatever else there is.
type orderKey struct {
	n  [3]int64
	s  string
	id string
}

func (o ordering) of(f *found) orderKey {
	k := orderKey{id: f.ID}
	switch strings.TrimPrefix(string(o), "-") {
	case "severity":
		k.n = [3]int64{-int64(f.severity), int64(f.rule), f.First.UnixNano()}
	case "last":
		k.n[0] = -f.Last.UnixNano()
	case "first":
		k.n[0] = f.First.UnixNano()
	case "count":
		k.n[0] = -f.Count
	case "rule":
		k.n[0], k.s = int64(f.rule), f.Rule
	case "node":
		k.s = f.Node
	}
	return k
}

func (o ordering) compare(a, b *orderKey) int {
	n := slices.Compare(a.n[:], b.n[:])
	if n == 0 {
		n = strings.Compare(a.s, b.s)
	}
	if n == 0 {
		n = strings.Compare(a.id, b.id)
	}
	if strings.HasPrefix(string(o), "-") {
		return -n
	}
	return n
}

// sort puts findings in the order. A key is made once, and lies next to its finding: there may be hundreds of thousands.
func (o ordering) sort(all []*found) {
	type placed struct {
		key orderKey
		f   *found
	}
	places := make([]placed, len(all))
	for i, f := range all {
		places[i] = placed{o.of(f), f}
	}
	slices.SortFunc(places, func(a, b placed) int { return o.compare(&a.key, &b.key) })
	for i := range places {
		all[i] = places[i].f
	}
}

// page are the findings after the cursor, or before it, and the cursors of the next page and the one before.
func (c *chooser) page(all []*found) (out []*found, next, previous string) {
	first, last := 0, min(c.limit, len(all))
	if at := c.cursor; at != nil {
		i, there := slices.BinarySearchFunc(all, at.key, func(f *found, k orderKey) int {
			key := c.order.of(f)
			return c.order.compare(&key, &k)
		})
		if at.back {
			first, last = max(0, i-c.limit), i
		} else {
			if there {
				i++
			}
			first, last = i, min(i+c.limit, len(all))
		}
	}
	out = all[first:last]
	if len(out) == 0 {
		return out, "", ""
	}
	if last < len(all) {
		next = (&cursor{sort: string(c.order), key: c.order.of(out[len(out)-1])}).String()
	}
	if first > 0 {
		previous = (&cursor{sort: string(c.order), key: c.order.of(out[0]), back: true}).String()
	}
	return out, next, previous
}

// cursor is a place between two findings of an order.
type cursor struct {
	sort string
	key  orderKey
	back bool
}

// maxCursor bounds what is decoded.
const maxCursor = 4096

var errCursor = errors.New("it is no cursor")

func (c *cursor) String() string {
	b := []byte{0}
	if c.back {
		b[0] = 1
	}
	for _, n := range c.key.n {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range []string{c.sort, c.key.s, c.key.id} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (*cursor, error) {
	if len(s) > maxCursor {
		return nil, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) == 0 || b[0] > 1 {
		return nil, errCursor
	}
	c := &cursor{back: b[0] == 1}
	b = b[1:]
	for i := range c.key.n {
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, errCursor
		}
		c.key.n[i], b = n, b[size:]
	}
	for _, to := range []*string{&c.sort, &c.key.s, &c.key.id} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, errCursor
		}
		*to, b = string(b[size:size+int(n)]), b[size+int(n):]
	}
	if len(b) > 0 {
		return nil, errCursor
	}
	return c, nil
}

// groupsOf sums findings up by what the query groups by.
func (c *chooser) groupsOf(all []*found) []Group {
	out := []Group{}
	at := map[string]int{}
	for _, f := range all {
		name := ""
		switch c.q.Group {
		case "":
			return out
		case "rule":
			name = f.Rule
		case "node":
			name = f.Node
		case "binding":
			if f.Binding != nil {
				name = bindingName(f.Binding)
			}
		case "userAgent":
			name = f.UserAgent
		case "resource":
			name = resourceName(&f.Finding)
		case "object":
			if f.Name != "" {
				name = qualified(f.Namespace, f.Name)
			}
		}
		i, there := at[name]
		if !there {
			i = len(out)
			at[name] = i
			out = append(out, Group{Name: name})
		}
		g := &out[i]
		g.Findings++
		g.Requests += f.Count
		if severityOf(g.Severity) < f.severity {
			g.Severity = f.Severity
		}
		if f.Last.After(g.Last) {
			g.Last = f.Last
		}
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return slices.Clip(out[:min(len(out), groupsAtMost)])
}

// number reads a query's number, 0 for none.
func number(name, s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxLimit || s[0] == '+' {
		return 0, badQuery("%s: %q is not a number between 1 and %d", name, s, maxLimit)
	}
	return n, nil
}
