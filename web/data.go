package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// What a view can fail with; errors.Is finds them. The text of an errBadQuery is a sentence for who asked.
var (
	errNotFound    = errors.New("there is no such thing")
	errBadQuery    = errors.New("the query is not understood")
	errUnavailable = errors.New("the store cannot be read now")
)

// queryError is an errBadQuery with its sentence.
type queryError struct{ say string }

func (e *queryError) Error() string        { return e.say }
func (e *queryError) Is(target error) bool { return target == errBadQuery }

func badQuery(format string, args ...any) error { return &queryError{fmt.Sprintf(format, args...)} }

// views is what pages and the API show. A window is a length such as "24h" or "7d" that ends with the last request; "" is all that is
// stored. What the methods return is shared: it must not be changed.
type views interface {
	overview(ctx context.Context, window string) (*Overview, error)
	incidents(ctx context.Context, credential, window string) (*IncidentsPage, error)
	incident(ctx context.Context, id string) (*IncidentPage, error)
	findings(ctx context.Context, q FindingsQuery) (*FindingsPage, error)
	finding(ctx context.Context, id string) (*FindingPage, error)
	nodes(ctx context.Context, window, cursor string, limit int) (*NodesPage, error)
	node(ctx context.Context, name, window string) (*NodePage, error)
	bindings(ctx context.Context, window string) (*BindingsPage, error)
	binding(ctx context.Context, b report.Binding, window string) (*BindingPage, error)
	object(ctx context.Context, o Object, window string) (*ObjectPage, error)
	checks(ctx context.Context, window string) (*ChecksPage, error)
	check(ctx context.Context, name, window string) (*CheckPage, error)
	rules(ctx context.Context, window string) ([]Rule, error)
	rule(ctx context.Context, name, window string) (*Rule, error)
	// report is the whole report, as 'nodetrail report' makes it.
	report(ctx context.Context, window string) (*report.Report, error)
	// each calls f for all findings of the query, in its order, from one state of the store; Limit and Cursor do not count. begin is called
	// first, when nothing can fail any more but f.
	each(ctx context.Context, q FindingsQuery, begin func(), f func(*Finding) error) error
}

// Store is what views are made of. Its methods may be called concurrently.
type Store interface {
	// Version changes whenever what is stored does.
	Version(ctx context.Context) (string, error)
	// Range is the time of the first and the last request, zero where there is none.
	Range(ctx context.Context) (from, to time.Time, err error)
	// Newest is the time of the last request that is not later than now, with which windows end.
	Newest(ctx context.Context, now time.Time) (time.Time, error)
	// Window is what is stored from from until before to; a zero time bounds nothing. each is called for each group of findings of each
	// step of time.
	Window(ctx context.Context, from, to time.Time, each func(at time.Time, k *tally.Key, g *tally.Group)) (*tally.Tally, []tally.Step, error)
	// Changes says of each step how often anything was added to it.
	Changes(ctx context.Context, from, to time.Time) (map[time.Time]int64, error)
	// NodeSteps are one node's counts over time, in order.
	NodeSteps(ctx context.Context, node string, from, to time.Time) ([]tally.Step, error)
	// FindingSteps are one group's counts over time, in order.
	FindingSteps(ctx context.Context, k *tally.Key, from, to time.Time) ([]tally.Step, error)
	// Remembered is the rules' memory of one kind and key, nil if there is none.
	Remembered(ctx context.Context, kind, key string) ([]byte, error)
}

// Live answers from the state of the cluster. Its methods may be called concurrently.
type Live interface {
	// Explain explains the latest request of the finding's group. An error is a sentence that says why that cannot be.
	Explain(ctx context.Context, k *tally.Key, at time.Time) (*explain.Explanation, error)
	// Reach says who could reach the object in the span of time.
	Reach(ctx context.Context, o Object, from, to time.Time) (*explain.Reach, error)
	// NodeReach says what the credential of the node could reach in the span of time, and what to rotate for that and for what it read beyond it.
	NodeReach(ctx context.Context, node string, read []explain.Use, from, to time.Time) (*explain.NodeReach, error)
	// Binding tells of a binding as it is now.
	Binding(ctx context.Context, b report.Binding) (*BindingState, error)
}

// BindingState is a binding as the state has it.
type BindingState struct {
	// Exists is "yes", "no" or "unknown".
	Exists string
	// Role is Kind and name, Subjects are Kind and name each.
	Role     string
	Subjects []string
}
