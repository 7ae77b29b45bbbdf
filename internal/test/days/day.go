package days

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Day is an audit log with the journal of the state next to it. Its slices may be changed, what their elements point to may not: a day and its
// mutations share it. A Day may be read by several goroutines.
type Day struct {
	Seed     uint64
	Options  Options
	From, To time.Time
	// Events are in the order in which the API servers wrote them.
	Events []*Event
	// State begins 90 minutes before the log, so that nothing in the log is older than it.
	State []*Entry
	// Policy is the audit policy in force, YAML; empty: not known.
	Policy string
	// NodeNames are the nodes with a kubelet that are there all day; Virtual have none.
	NodeNames, Virtual []string

	pods []*pod
	// Applied says what was done to a clean day, one for each mutation.
	Applied []Applied
	// filters are what keeps events out of the log, also those that later mutations add.
	filters []func(*Event) bool
}

// Applied is a mutation that a day has undergone.
type Applied struct {
	Mutation Mutation
	What     string
}

// Log renders the events as one JSONL file, those of all API servers in one.
func (d *Day) Log() []byte { return d.ServerLog(-1) }

// ServerLog renders the events that one API server wrote; -1 stands for all.
func (d *Day) ServerLog(server int) []byte {
	b := make([]byte, 0, len(d.Events)*1100)
	for _, e := range d.Events {
		if server < 0 || e.Server == server {
			b = e.appendLine(b)
		}
	}
	return b
}

// Read reads what Log renders.
func (d *Day) Read() io.Reader {
	return &lines{n: len(d.Events), line: func(b []byte, i int) []byte { return d.Events[i].appendLine(b) }}
}

// ReadJournal reads what Journal renders.
func (d *Day) ReadJournal() io.Reader {
	return &lines{n: len(d.State), line: func(b []byte, i int) []byte { return d.State[i].appendLine(b, version(i)) }}
}

// lines are rendered while they are read.
type lines struct {
	next, n int
	line    func(b []byte, i int) []byte
	buf     []byte // of which left is still to be read
	left    []byte
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(l.left) == 0 {
			if l.next == l.n {
				return n, io.EOF
			}
			l.buf = l.line(l.buf[:0], l.next)
			l.left = l.buf
			l.next++
		}
		k := copy(p[n:], l.left)
		n, l.left = n+k, l.left[k:]
	}
	return n, nil
}

// Journal renders the state as nodetrail record writes it.
func (d *Day) Journal() []byte {
	b := make([]byte, 0, len(d.State)*1200)
	for i, e := range d.State {
		b = e.appendLine(b, version(i))
	}
	return b
}

// version is the resource version of the i-th entry of the state.
func version(i int) string { return strconv.Itoa(1000 + i) }

// Render keeps what Log and Journal render of the day, at the cost of as much memory, so that they do not render again what mutations of the day share
// with it. No other goroutine may use the day meanwhile.
func (d *Day) Render() {
	log := make([]byte, 0, len(d.Events)*1100)
	for _, e := range d.Events {
		from := len(log)
		log = e.render(log)
		e.rendered = rendering[Event]{of: e, before: log[from:len(log):len(log)]}
	}
	const place = "the resource version"
	for _, e := range d.State {
		before, after, _ := bytes.Cut(e.render(nil, place), []byte(place))
		e.rendered = rendering[Entry]{of: e, before: before, after: after}
	}
}

// rendering is the line of a value, around its resource version if it has one. A copy of the value has it too, but is not the one that it is of.
type rendering[T any] struct {
	of            *T
	before, after []byte
}

// Readme says what the day is and what is planted in it.
func (d *Day) Readme() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# A simulated day\n\nSeed %d, %s to %s, Kubernetes 1.%d, %d nodes, %d API servers, audit policy %q, features: %s.\n\n",
		d.Seed, d.From.Format(time.RFC3339), d.To.Format(time.RFC3339), d.Options.Minor, d.Options.Nodes, d.Options.Servers, d.Options.Profile,
		strings.Join(d.Options.Features.Names(), ", "))
	b.WriteString("| file | what it is |\n|---|---|\n| `audit.log` | the audit log, events of audit.k8s.io/v1 |\n" +
		"| `journal.jsonl` | the cluster's state, as `nodetrail record` writes it |\n| `audit-policy.yaml` | the audit policy in force, if it is known |\n\n" +
		"    nodetrail analyze --state journal.jsonl --audit-policy audit-policy.yaml audit.log\n\n")
	if len(d.Applied) == 0 {
		b.WriteString("Nothing is planted: the cluster is ready for the binding's deletion.\n")
		return b.Bytes()
	}
	b.WriteString("What was done to it:\n\n| mutation | what | any of these checks must not pass |\n|---|---|---|\n")
	for _, a := range d.Applied {
		checks := strings.Join(a.Mutation.Checks, ", ")
		if checks == "" {
			checks = "none: it is harmless"
		}
		fmt.Fprintf(&b, "| `%s`, seed %d | %s | %s |\n", a.Mutation.Name, a.Mutation.Seed, strings.ReplaceAll(a.What, "|", "\\|"), checks)
	}
	return b.Bytes()
}

// Names are the features' names, sorted.
func (f Features) Names() []string {
	var out []string
	for name, g := range FeatureNames() {
		if f.Has(g) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// copyOf is a day that shares events and entries, but no slice, with another.
func (d *Day) copyOf() *Day {
	c := *d
	c.Events, c.State, c.Applied, c.filters = slices.Clone(d.Events), slices.Clone(d.State), slices.Clone(d.Applied), slices.Clip(d.filters)
	return &c
}

// sortEvents puts events in the order in which they are written.
func sortEvents(events []*Event) {
	slices.SortStableFunc(events, func(a, b *Event) int { return a.Staged.Compare(b.Staged) })
}

// newRand is the one source of chance for a seed; stream keeps a day's from its mutations'.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
