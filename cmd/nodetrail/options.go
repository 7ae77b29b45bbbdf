package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// authzFlags are the flags that say how the apiserver decides.
type authzFlags struct {
	version string
	gates   []string
	skew    time.Duration
}

func (f *authzFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.version, "kubernetes-version", "", fmt.Sprintf("version of the apiserver, 1.%d to 1.%d (default the newest)",
		nodeauthz.OldestMinor, nodeauthz.NewestMinor))
	fs.StringSliceVar(&f.gates, "feature-gates", nil, "feature gates of the apiserver that are not at their default, `NAME=BOOL,...`; those that matter: "+
		strings.Join(nodeauthz.GateNames(), ", "))
	fs.DurationVar(&f.skew, "skew", time.Second, "how close to a change a request counts as a race")
}

func (f *authzFlags) features() (nodeauthz.Features, error) {
	features, err := nodeauthz.FeaturesFor(f.version)
	if err != nil {
		return features, fmt.Errorf("--kubernetes-version: %w", err)
	}
	for _, g := range f.gates {
		name, value, ok := strings.Cut(g, "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return features, fmt.Errorf("--feature-gates: %q is not NAME=true or NAME=false", g)
		}
		if err := features.Set(name, on); err != nil {
			return features, fmt.Errorf("--feature-gates: %w", err)
		}
	}
	if err := features.Validate(); err != nil {
		return features, fmt.Errorf("--feature-gates: %w", err)
	}
	if f.skew < 0 {
		return features, fmt.Errorf("--skew: %s is negative", f.skew)
	}
	return features, nil
}

// oneStdin refuses "-" more than once: standard input can be read only once.
func oneStdin(paths []string) error {
	first := slices.Index(paths, "-")
	if first >= 0 && slices.Contains(paths[first+1:], "-") {
		return errors.New("only one input can be standard input (-)")
	}
	return nil
}

// loading is state on its way.
type loading struct {
	state *cluster.State
	err   error
	done  chan struct{}
}

// startLoading begins to load what --state names; with no paths the state is empty.
func startLoading(paths []string, stdin io.Reader) *loading {
	l := &loading{state: cluster.NewState(), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		if len(paths) == 0 {
			return
		}
		if err := l.state.Load(paths, stdin); err != nil {
			l.err = fmt.Errorf("cannot read the state: %w", err)
			return
		}
		l.err = ofUse(paths, l.state.Summary())
	}()
	return l
}

// wait returns the state once it is there. The end of ctx ends the waiting: standard input may never come.
func (l *loading) wait(ctx context.Context) (*cluster.State, error) {
	select {
	case <-l.done:
		return l.state, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ofUse refuses state that has nothing to do with authorization: the verdicts would be as confident as they are wrong.
func ofUse(paths []string, sum cluster.Summary) error {
	for _, n := range sum.Objects {
		if n > 0 {
			return nil
		}
	}
	what := strings.Join(paths, ", ")
	switch kinds := sum.SkippedKinds(); {
	case len(kinds) > 3:
		return fmt.Errorf("%s: no object in it that authorization depends on, only %s and %d other kinds", what, strings.Join(kinds[:3], ", "), len(kinds)-3)
	case len(kinds) > 0:
		return fmt.Errorf("%s: no object in it that authorization depends on, only %s", what, strings.Join(kinds, ", "))
	case len(sum.Places) > 0:
		return fmt.Errorf("%s: no object in it that could be read; the first place is %s", what, sum.Places[0])
	}
	return fmt.Errorf("%s: no object in it that authorization depends on, such as pods and nodes", what)
}

// isTerminal reports whether w is a terminal that a person looks at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
