// Package cli has what the commands of a program share: errors of usage that say what would be right, flags from environment variables, and the names under
// which kubectl runs a plugin. Its functions are called while a command line is read, and are not safe for concurrent use.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/internal/spelling"
)

// UsageError is a wrong use of the command line, after which the program names the help of the command.
type UsageError struct {
	// Command is how the command is called, such as "nodetrail analyze".
	Command string
	Err     error
}

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what was wrong.
func (e UsageError) Unwrap() error { return e.Err }

// Usage makes an error one of the command's usage, and passes nil on. An error that begins with a flag whose value comes from the environment names the
// variable.
func Usage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	if name, _, ok := strings.Cut(strings.TrimPrefix(err.Error(), "--"), ":"); ok {
		if f := cmd.Flags().Lookup(name); f != nil && f.Annotations[fromEnvironment] != nil {
			err = fmt.Errorf("%w (from %s)", err, f.Annotations[fromEnvironment][0])
		}
	}
	return UsageError{cmd.CommandPath(), err}
}

// NeedArgs refuses fewer arguments than at least, saying what is missing.
func NeedArgs(least int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least {
			return Usage(cmd, fmt.Errorf("%s is missing", what))
		}
		return nil
	}
}

// AtMostOne refuses more than one argument.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Usage(cmd, fmt.Errorf("%s takes one %s, and %d were given", cmd.Name(), what, len(args)))
		}
		return nil
	}
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(cmd, fmt.Errorf("%s takes no arguments, and %q is one", cmd.Name(), args[0]))
	}
	return nil
}

// Subcommand is the error of a command that only has subcommands: one must be named, and none is arg.
func Subcommand(cmd *cobra.Command, what string, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if len(args) == 0 {
		return Usage(cmd, fmt.Errorf("a %s is missing: %s", what, spelling.OneOf(names)))
	}
	return Usage(cmd, fmt.Errorf("unknown %s %q: %s", what, args[0], cmp.Or(spelling.Meant(args[0], names), "it is one of "+strings.Join(names, ", "))))
}

// FlagError says of a flag that was misused what would be right.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var valueless *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		name, meant := "--"+unknown.GetSpecifiedName(), ""
		if all := unknown.GetSpecifiedShortnames(); all != "" {
			name = "-" + unknown.GetSpecifiedName()
			// A name after one dash, such as -state.
			if word, _, _ := strings.Cut(all, "="); slices.Contains(names, "--"+word) {
				name, meant = "-"+word, "did you mean --"+word+"?"
			}
		} else {
			meant = spelling.Meant(name, names)
		}
		if err = fmt.Errorf("unknown flag %s", name); meant != "" {
			err = fmt.Errorf("%w: %s", err, meant)
		}
	case errors.As(err, &valueless):
		err = fmt.Errorf("--%s needs a value", valueless.GetFlag().Name)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if what := wants(f); what != "" {
			err = fmt.Errorf("--%s: %q is not %s", f.Name, invalid.GetValue(), what)
		}
	}
	return UsageError{cmd.CommandPath(), err}
}

// Wanting is the value of a flag that says what values it takes, such as "a Kubernetes version such as 1.37".
type Wanting interface{ Wants() string }

// wants says what the values of a flag are; "" where neither the value nor its type tells.
func wants(f *pflag.Flag) string {
	if w, ok := f.Value.(Wanting); ok {
		return w.Wants()
	}
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 150ms or 24h"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return ""
}

// Complete sets what shells offer for the flags of a command.
func Complete(cmd *cobra.Command, flags map[string][]string) {
	for name, values := range flags {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// OneOf refuses a value that is none of a flag's.
func OneOf(flag, value string, values ...string) error {
	if !slices.Contains(values, value) {
		return fmt.Errorf("--%s: %q is none of %s", flag, value, strings.Join(values, ", "))
	}
	return nil
}

// AtLeast refuses a number that is too small, 0 included, which options take for their default.
func AtLeast(flag string, least, n int) error {
	if n < least {
		return fmt.Errorf("--%s: %d is less than %d", flag, n, least)
	}
	return nil
}

// Refuse refuses flags that were given although they say nothing here; why follows the flag.
func Refuse(cmd *cobra.Command, why string, flags ...string) error {
	for _, name := range flags {
		if Given(cmd, name) {
			return fmt.Errorf("--%s %s", name, why)
		}
	}
	return nil
}

// Address refuses what is not HOST:PORT.
func Address(flag, s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--%s: %q is not an address such as 127.0.0.1:9876 or :9876", flag, s)
	}
	return nil
}

// NoneEmpty refuses a flag that was given on the command line with an empty text, which is what a variable of a shell that is not set leaves: --fail-on
// "$LEVEL" would look at nothing.
func NoneEmpty(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !Given(cmd, f.Name) {
			return
		}
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty {
			err = fmt.Errorf("--%s is empty", f.Name)
		}
	})
	return Usage(cmd, err)
}

// NotAsArgument refuses arguments where the flag names the file.
func NotAsArgument(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usage(cmd, fmt.Errorf("%s takes no arguments: name the file by --%s %s", cmd.Name(), flag, args[0]))
		}
		return nil
	}
}

// NoRule is the error of a flag that names a rule that there is not.
func NoRule(flag, name string, all []string) error {
	return fmt.Errorf("--%s: there is no rule %q: %s", flag, name, cmp.Or(spelling.Meant(name, all), "the rules are "+strings.Join(all, ", ")))
}
