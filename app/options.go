package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
)

// OptionError is a wrong value of an option.
type OptionError struct {
	Option string // the name of the field
	Err    error
}

// Error names the option first.
func (e *OptionError) Error() string { return e.Option + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *OptionError) Unwrap() error { return e.Err }

func optionError(option, format string, args ...any) error {
	return &OptionError{Option: option, Err: fmt.Errorf(format, args...)}
}

// ErrStdinTwice refuses "-" for more than one input: standard input can be read only once.
var ErrStdinTwice = errors.New("only one input can be standard input (-)")

// oneStdin refuses "-" more than once.
func oneStdin(lists ...[]string) error {
	paths := slices.Concat(lists...)
	if first := slices.Index(paths, "-"); first >= 0 && slices.Contains(paths[first+1:], "-") {
		return ErrStdinTwice
	}
	return nil
}

// DefaultSkew is what fits the clocks of most clusters.
const DefaultSkew = time.Second

// Authorization says how the API server decides.
type Authorization struct {
	// KubernetesVersion is the API server's, such as 1.36; "" has it found in the log, and where there is none or it tells nothing it is the newest that
	// is known (nodeauthz.NewestMinor). One that is not known is judged as the nearest.
	KubernetesVersion string
	// FeatureGates are the API server's that are not at their default; GateNames has those that matter. Without a version they are what is
	// known of it.
	FeatureGates map[string]bool
	// Skew is how close to a change a request counts as a race; see DefaultSkew.
	Skew time.Duration
	// SkewAuto measures the skew, in place of Skew: from the API server's own decisions in the logs, which are then read twice, and so is the state.
	SkewAuto bool
	// AuthorizationMode is the value of kube-apiserver's flag --authorization-mode; "" or "auto" infers it from the log.
	AuthorizationMode string
}

func (a *Authorization) features() (nodeauthz.Features, error) {
	if a.KubernetesVersion != "" {
		features, _, err := nodeauthz.Nearest(a.KubernetesVersion)
		if err != nil {
			return features, &OptionError{"KubernetesVersion", err}
		}
		return a.withGates(features)
	}
	// The newest version that can have the gates.
	var first error
	all := nodeauthz.Versions()
	for _, version := range slices.Backward(all) {
		features, err := nodeauthz.FeaturesFor(version)
		if err == nil {
			features, err = a.withGates(features)
		}
		if err == nil {
			return features, nil
		}
		first = cmp.Or(first, err)
	}
	return nodeauthz.Features{}, first
}

// GateNames are the feature gates that matter.
func GateNames() []string { return config.GateNames() }

// withGates sets the feature gates.
func (a *Authorization) withGates(features nodeauthz.Features) (nodeauthz.Features, error) {
	for _, name := range slices.Sorted(maps.Keys(a.FeatureGates)) {
		if err := config.SetGate(&features, name, a.FeatureGates[name]); err != nil {
			return features, &OptionError{"FeatureGates", err}
		}
	}
	if err := features.Validate(); err != nil {
		return features, &OptionError{"FeatureGates", err}
	}
	return features, nil
}

func (a *Authorization) mode() (*pipeline.Mode, error) {
	mode, err := pipeline.ParseMode(a.AuthorizationMode)
	if err != nil {
		return nil, &OptionError{"AuthorizationMode", err}
	}
	return mode, nil
}

func (a *Authorization) validate() error {
	if _, err := a.features(); err != nil {
		return err
	}
	if a.Skew < 0 {
		return optionError("Skew", "%s is negative", a.Skew)
	}
	_, err := a.mode()
	return err
}

// Input is what is read of finished audit logs and of the state that belongs to them.
type Input struct {
	// Logs are the audit logs: files, globs, folders, or "-" for Stdin. What is compressed by gzip or zstd is read as it is, and rotated
	// files in the order of time.
	Logs []string
	// State is the cluster's: journals (see Record), snapshots (kubectl get -o json or yaml), folders of such, or "-" for Stdin.
	State []string
	// EtcdPrefix is the API server's flag --etcd-prefix, for snapshots of etcd in State; "" is found by their content.
	EtcdPrefix string
	// Loaded is state that was loaded already, in place of State. It takes in what the logs tell, unless NoBodies is set.
	Loaded *cluster.State
	// Stdin is what "-" stands for; nil if nothing is "-".
	Stdin io.Reader
	// NoBodies says that bodies in the logs are not to tell of the state.
	NoBodies bool
	// MaxEventBytes is from when on an event counts as malformed, at least 1024; 0 is 4 MiB.
	MaxEventBytes int
	// Since and Until limit which requests are judged, as [Since, Until). State is learnt from all events.
	Since, Until Limit
	// Progress is called with how many bytes were read of the logs, as they are there, compressed or not; from several goroutines. Nil for nothing.
	Progress func(bytes int)
	// Begin is called once with the paths of the logs, when they were found and before the first is read. Its error ends everything. Nil for
	// nothing.
	Begin func(logs []string) error
}

// validateSkew refuses to measure a skew by what can be read only once.
func (in *Input) validateSkew(a *Authorization) error {
	if a.SkewAuto && (in.Loaded != nil || slices.Contains(slices.Concat(in.State, in.Logs), "-")) {
		return ErrSkewTwice
	}
	return nil
}

func (in *Input) validate() error {
	if in.MaxEventBytes != 0 && in.MaxEventBytes < 1024 {
		return optionError("MaxEventBytes", "%d is less than 1024", in.MaxEventBytes)
	}
	return oneStdin(in.State, in.Logs)
}

func (in *Input) maxEventBytes() int {
	if in.MaxEventBytes == 0 {
		return audit.DefaultMaxEventBytes
	}
	return in.MaxEventBytes
}

// hasState is whether complete state is given.
func (in *Input) hasState() bool { return len(in.State) > 0 || in.Loaded != nil }
