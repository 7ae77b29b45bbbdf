package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/internal/spelling"
)

// Environment gives each flag that was not given the value of its variable: the prefix and its name in capital letters, such as NODETRAIL_STATE for
// --state with the prefix NODETRAIL_. It warns on the standard error of variables that are probably misspelt.
func Environment(cmd *cobra.Command, prefix string) error {
	for _, name := range misspelt(cmd.Root(), prefix, os.Environ()) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: no flag has the environment variable %s\n", cmd.Root().Name(), name)
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := variable(prefix, f)
		value, set := os.LookupEnv(name)
		if !set || f.Changed || f.Name == "help" || f.Name == "version" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			if what := wants(f); what != "" {
				err = fmt.Errorf("%q is not %s", value, what)
			}
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[fromEnvironment] = []string{name}
	})
	return Usage(cmd, errors.Join(errs...))
}

// fromEnvironment is the annotation of a flag whose value comes from the environment.
const fromEnvironment = "from-environment"

// Given reports whether a flag was given on the command line.
func Given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f.Changed && f.Annotations[fromEnvironment] == nil
}

func variable(prefix string, f *pflag.Flag) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// misspelt returns the variables of the environment whose names are near that of a flag's variable, and no flag's, each with what it may have been. It looks at the flags
// only if there is a variable of the prefix.
func misspelt(root *cobra.Command, prefix string, environment []string) (out []string) {
	var names []string
	for _, e := range environment {
		name, _, _ := strings.Cut(e, "=")
		if rest, ours := strings.CutPrefix(name, prefix); ours && rest != "" {
			names = append(names, rest)
		}
	}
	if len(names) == 0 {
		return nil
	}
	known := map[string]bool{}
	addFlags(root, known)
	flags := slices.Sorted(maps.Keys(known))
	// It is what a variable ends with that the kubelet makes for a Service of the namespace, whose name may begin like the program's.
	serviceLink := regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)?)$`)
	for _, name := range names {
		if known[name] || serviceLink.MatchString(name) {
			continue
		}
		near := spelling.Nearest(name, flags)
		for i := range near {
			near[i] = prefix + near[i]
		}
		if len(near) > 0 {
			out = append(out, fmt.Sprintf("%s: did you mean %s?", prefix+name, spelling.OneOf(near[:min(len(near), 5)])))
		}
	}
	return out
}

// addFlags adds the variables, without a prefix, of a command's flags and of those of its subcommands.
func addFlags(cmd *cobra.Command, known map[string]bool) {
	add := func(f *pflag.Flag) { known[variable("", f)] = true }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, c := range cmd.Commands() {
		addFlags(c, known)
	}
}
