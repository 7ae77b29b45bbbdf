package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/internal/spelling"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// usageError is a wrong use of the command line, which earns a pointer to the help.
type usageError struct {
	command string
	err     error
}

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// needArgs refuses fewer arguments than at least, saying what is missing.
func needArgs(least int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least {
			return usageError{cmd.CommandPath(), fmt.Errorf("%s is missing", what)}
		}
		return nil
	}
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{cmd.CommandPath(), fmt.Errorf("%s takes no arguments, and %q is one", cmd.Name(), args[0])}
	}
	return nil
}

// aCommand is the error of a command that only has subcommands: one must be named, and none is arg.
func aCommand(cmd *cobra.Command, what string, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if len(args) == 0 {
		return usageError{cmd.CommandPath(), fmt.Errorf("a %s is missing: %s", what, spelling.OneOf(names))}
	}
	return usageError{cmd.CommandPath(), fmt.Errorf("unknown %s %q: %s", what, args[0], cmp.Or(spelling.Meant(args[0], names), "it is one of "+strings.Join(names, ", ")))}
}

// flagError says of a flag that was misused what would be right.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var valueless *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		err = fmt.Errorf("unknown flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		name := "--" + unknown.GetSpecifiedName()
		err = fmt.Errorf("unknown flag %s", name)
		if s := spelling.Meant(name, names); s != "" {
			err = fmt.Errorf("%w: %s", err, s)
		}
	case errors.As(err, &valueless):
		err = fmt.Errorf("--%s needs a value", valueless.GetFlag().Name)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if what := wants(f); what != "" {
			err = fmt.Errorf("--%s: %q is not %s", f.Name, invalid.GetValue(), what)
		}
	}
	return usageError{cmd.CommandPath(), err}
}

// wants says what the values of a flag are, by its type; "" where that does not tell.
func wants(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 150ms or 24h"
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "version":
		return fmt.Sprintf("a Kubernetes version such as 1.%d", nodeauthz.NewestMinor)
	}
	return ""
}
