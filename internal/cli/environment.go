package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Environment gives each flag that was not given the value of its variable: the prefix and its name in capital letters, such as NODETRAIL_STATE for
// --state with the prefix NODETRAIL_.
func Environment(cmd *cobra.Command, prefix string) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
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
