package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/meter"
	"github.com/nodetrail/nodetrail/internal/spelling"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// logFlags are the flags that do not stand for an option as it is, of the commands that read finished logs.
type logFlags struct {
	gates        []string
	since, until string
	fromAudit    bool
}

// authorization adds the flags that say how the API server decides.
func (f *logFlags) authorization(fs *pflag.FlagSet, a *app.Authorization) {
	fs.Var((*versionValue)(&a.KubernetesVersion), "kubernetes-version", fmt.Sprintf("version of the API server, 1.%d to 1.%d; other versions are judged as the "+
		"nearest (default: what the log shows)", nodeauthz.OldestMinor, nodeauthz.NewestMinor))
	fs.StringSliceVar(&f.gates, "feature-gates", nil, "feature gates of the API server that are not at their default, `NAME=BOOL,...`; those that matter: "+
		strings.Join(app.GateNames(), ", "))
	a.Skew = app.DefaultSkew
	fs.Var((*skewValue)(a), "skew", "how close to a change a request counts as a race; auto measures it in the log, which is then read twice")
}

// versionValue is the value of --kubernetes-version.
type versionValue string

// Set takes a version, supported or not.
func (v *versionValue) Set(s string) error {
	if _, err := nodeauthz.Minor(s); err != nil {
		return err
	}
	*v = versionValue(s)
	return nil
}

// String is the value as Set reads it.
func (v *versionValue) String() string { return string(*v) }

// Type is what the help calls the value.
func (v *versionValue) Type() string { return "version" }

// Wants says which values there are.
func (v *versionValue) Wants() string {
	return fmt.Sprintf("a Kubernetes version such as 1.%d", nodeauthz.NewestMinor)
}

// skewValue is the value of --skew: a duration, or auto.
type skewValue app.Authorization

// Set reads the value.
func (v *skewValue) Set(s string) (err error) {
	if v.SkewAuto = s == "auto"; v.SkewAuto {
		return nil
	}
	v.Skew, err = time.ParseDuration(s)
	return err
}

// String is the value as Set reads it.
func (v *skewValue) String() string {
	if v.SkewAuto {
		return "auto"
	}
	return v.Skew.String()
}

// Type is what the help calls the value.
func (v *skewValue) Type() string { return "duration" }

// state adds the flags of the state, and those that say how the API server decides.
func (f *logFlags) state(fs *pflag.FlagSet, a *app.Authorization, in *app.Input) {
	stateFiles(fs, in)
	fs.BoolVar(&f.fromAudit, "state-from-audit", true, "learn state from the bodies of audit events too")
	f.authorization(fs, a)
}

const maxEventUsage = "bound of an event in bytes; a longer one is judged by its fields, without its body, or is malformed if that is not possible"
const kubeletUsage = "further user agents that are a kubelet's, without version, such as my-kubelet"
const etcdPrefixUsage = "the API server's --etcd-prefix, for etcd snapshots that hold several clusters (default: found by their content)"

func stateFiles(fs *pflag.FlagSet, in *app.Input) {
	fs.StringArrayVar(&in.State, "state", nil, "cluster state: a journal (nodetrail record, kubectl get -w), a snapshot (kubectl get -o json|yaml, etcdctl snapshot save, k3s's state.db), a folder of such, or -; may be repeated")
	fs.StringVar(&in.EtcdPrefix, "etcd-prefix", "", etcdPrefixUsage)
}

// read takes the flags and arguments over.
func (f *logFlags) read(a *app.Authorization, in *app.Input, std streams, logs []string) (err error) {
	for _, g := range f.gates {
		name, value, ok := strings.Cut(g, "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return fmt.Errorf("--feature-gates: %q is not NAME=true or NAME=false", g)
		}
		if a.FeatureGates == nil {
			a.FeatureGates = map[string]bool{}
		}
		a.FeatureGates[name] = on
	}
	in.Logs, in.Stdin, in.NoBodies = logs, std.in, !f.fromAudit
	if in.Since, err = app.ParseLimit(f.since); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	if in.Until, err = app.ParseLimit(f.until); err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	if assumed := a.Assumed(); assumed != "" {
		fmt.Fprintf(std.err, "nodetrail: --kubernetes-version: %s\n", assumed)
	}
	return nil
}

// flagged is an error of package app with the flag that is to blame.
func flagged(err error) error {
	var option *app.OptionError
	var window *app.WindowError
	var store *app.NoStoreError
	var unknown *app.UnknownError
	switch {
	case errors.As(err, &option):
		return fmt.Errorf("--%s: %w", flagOf(option.Option), option.Err)
	case errors.As(err, &window):
		return fmt.Errorf("--since (%s) is not before --until (%s)", window.Since.UTC().Format(time.RFC3339), window.Until.UTC().Format(time.RFC3339))
	case errors.As(err, &unknown):
		return fmt.Errorf("%w%s", err, after(": ", wording.Visible(spelling.Meant(unknown.Name, unknown.Known))))
	case errors.As(err, &store):
		give := "give run's --data, or its --config"
		if store.Configured {
			give = "give run's --data if it had one, or the configuration that it has"
		}
		return fmt.Errorf("no 'nodetrail run' has stored anything in %s: %s", store.Path, give)
	case errors.Is(err, app.ErrSkewTwice):
		return errors.New("--skew auto reads the log and the state twice, and standard input (-) can be read only once: give files, or a duration such as 150ms")
	case errors.Is(err, app.ErrReadTwice):
		return errors.New("--verify reads the log and the state twice, and standard input (-) can be read only once")
	case errors.Is(err, app.ErrNoState):
		return fmt.Errorf("%w; give --state, or --audit-log with bodies", err)
	}
	return err
}

// flagOf is the flag of an option: its words in small letters, joined by hyphens.
func flagOf(option string) string {
	switch option {
	case "Logs":
		return "audit-log"
	case "ApiserverLogs":
		return "apiserver-log"
	case "Listen":
		return "serve"
	case "CAFile":
		return "ca-file"
	case "CertFile":
		return "cert-file and --key-file"
	}
	return strings.ToLower(regexp.MustCompile(`(.)(\p{Lu})`).ReplaceAllString(option, "$1-$2"))
}

// The values of flags that several commands have.
var (
	modes     = []string{"auto", "Node,RBAC", "RBAC,Node", "RBAC", "Node"}
	thenModes = []string{"auto", "Node,RBAC", "RBAC,Node", "RBAC"}
)

// text is how a report is written for people, in colour and of its width on a terminal.
func text(w io.Writer) report.Text {
	t := report.Text{Colour: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
	if f, ok := w.(*os.File); ok {
		t.Columns, _, _ = term.GetSize(int(f.Fd())) // 0 where it is no terminal
	}
	return t
}

// isTerminal reports whether w is a terminal that a person looks at.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// logTo is where services log.
func (s streams) logTo() app.LogTo { return app.LogTo{W: s.err, Terminal: isTerminal(s.err)} }

// versions are the values that --kubernetes-version completes to.
func versions() []string { return nodeauthz.Versions() }

// metered reads logs by f and shows meanwhile how much was read.
func metered[T any](std streams, in *app.Input, f func() (T, error)) (T, error) {
	m := meter.Start(std.err, isTerminal(std.err))
	defer m.Done()
	in.Progress = m.Add
	begin := in.Begin
	in.Begin = func(logs []string) error {
		m.Expect(logs)
		if begin == nil {
			return nil
		}
		return begin(logs)
	}
	return f()
}
