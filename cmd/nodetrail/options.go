package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/spelling"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// logFlags are the flags that do not stand for an option as it is, of the commands that read finished logs.
type logFlags struct {
	gates        []string
	since, until string
	fromAudit    bool
}

// authorization adds the flags that say how the apiserver decides.
func (f *logFlags) authorization(fs *pflag.FlagSet, a *app.Authorization) {
	fs.Var((*versionValue)(&a.KubernetesVersion), "kubernetes-version", fmt.Sprintf("version of the apiserver, 1.%d to 1.%d; other versions are judged as the "+
		"nearest (default: what the log shows)", nodeauthz.OldestMinor, nodeauthz.NewestMinor))
	fs.StringSliceVar(&f.gates, "feature-gates", nil, "feature gates of the apiserver that are not at their default, `NAME=BOOL,...`; those that matter: "+
		strings.Join(nodeauthz.GateNames(), ", "))
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

// state adds the flags of the state, and those that say how the apiserver decides.
func (f *logFlags) state(fs *pflag.FlagSet, a *app.Authorization, in *app.Input) {
	fs.StringArrayVar(&in.State, "state", nil, "cluster state: a journal (nodetrail record, kubectl get -w), a snapshot (kubectl get -o json|yaml, etcdctl snapshot save), a folder of such, or -; may be repeated")
	fs.BoolVar(&f.fromAudit, "state-from-audit", true, "learn state from the bodies of audit events too")
	f.authorization(fs, a)
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

// atLeast refuses a number that is too small, 0 included, which options take for their default.
func atLeast(flag string, least, n int) error {
	if n < least {
		return fmt.Errorf("--%s: %d is less than %d", flag, n, least)
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
	var b strings.Builder
	for i, r := range option {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// known refuses a value that is none of a flag's.
func known(flag, value string, values ...string) error {
	if !slices.Contains(values, value) {
		return fmt.Errorf("--%s: %q is none of %s", flag, value, strings.Join(values, ", "))
	}
	return nil
}

// complete tells shells what the flags of a command can be.
func complete(cmd *cobra.Command, flags map[string][]string) {
	for name, values := range flags {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// The values of flags that several commands have.
var (
	reportForms = []string{"text", "json", "yaml", "markdown", "html", "sarif", "junit", "csv"}
	severities  = []string{"low", "medium", "high", "critical"}
	modes       = []string{"auto", "Node,RBAC", "RBAC,Node", "RBAC", "Node"}
	thenModes   = []string{"auto", "Node,RBAC", "RBAC,Node", "RBAC"}
)

// failOn is what --fail-on lists.
type failOn struct {
	// severity is the least severe finding that fails, None for none.
	severity              rules.Severity
	notReady, notConfined bool
	// baseline is the report that this one is compared with, nil for none.
	baseline *report.Report
	// acceptWaivers is --accept-waivers.
	acceptWaivers bool
}

// failOnWords are what --fail-on can list.
func failOnWords() []string { return slices.Concat(severities, []string{notReady, notConfined}) }

const (
	notReady    = "not-ready"
	notConfined = "not-confined"
)

// failOnUsage is the help of --fail-on.
const failOnUsage = "exit 2 if one of these applies, as a list: a finding is at least low, medium, high or critical; not-ready, the answer is not ready; " +
	"not-confined, the answer is not confined"

const acceptWaiversUsage = "--fail-on not-ready and not-confined accept an answer that rests on waivers"

// read reads --fail-on; "" is none. Of several severities the lowest counts.
func (f *failOn) read(list string) error {
	if list == "" {
		return nil
	}
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.TrimSpace(word); word {
		case notReady:
			f.notReady = true
		case notConfined:
			f.notConfined = true
		default:
			s, err := rules.ParseSeverity(word)
			if err != nil {
				return fmt.Errorf("--fail-on: %w, nor not-ready nor not-confined", err)
			}
			if f.severity == rules.None || s < f.severity {
				f.severity = s
			}
		}
	}
	return nil
}

// check is the error of a report to which something of the list applies, errFindings, with all that does. found says of findings that are severe enough
// how many there are and how severe.
func (f failOn) check(r *report.Report, found func() string) error {
	var errs []error
	if n, _ := r.Failing(f.severity); f.severity != rules.None && n > 0 {
		errs = append(errs, fmt.Errorf("%w %s: %s", errFindings, f.severity, found()))
	}
	if f.notReady && !r.Readiness.Good(f.acceptWaivers) {
		errs = append(errs, answerError("--fail-on not-ready: the answer is: "+r.Readiness.Verdict))
	}
	if f.notConfined && !r.Confinement.Good(f.acceptWaivers) {
		errs = append(errs, answerError("--fail-on not-confined: the answer is: "+r.Confinement.Verdict))
	}
	return errors.Join(errs...)
}

// answerError is a sentence that ends a command with exitFindings.
type answerError string

func (s answerError) Error() string        { return string(s) }
func (s answerError) Is(target error) bool { return target == errFindings }

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
