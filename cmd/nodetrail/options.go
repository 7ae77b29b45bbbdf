package main

import (
	"fmt"
	"io"
	"os"
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

// loadState loads what --state names; with no paths it is empty.
func loadState(paths []string, stdin io.Reader) (*cluster.State, error) {
	s := cluster.NewState()
	if len(paths) == 0 {
		return s, nil
	}
	return s, s.Load(paths, stdin)
}

// isTerminal reports whether w is a terminal that a person looks at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
