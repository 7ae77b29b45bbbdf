package app

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/userfile"
)

// Output is a file that is to be written.
type Output struct {
	Option string // the name of the field that has the path
	Path   string // "" for none, "-" for standard output
}

// CheckOutputs says which file must not be written, as an *OptionError: one that is an input or is in a folder of inputs, and one that another option writes, too.
// It opens nothing. What is no regular file, such as /dev/null, takes any number of outputs. Inputs may be "", "-", and globs.
func CheckOutputs(outputs []Output, inputs ...string) error {
	for i, o := range outputs {
		if o.Path == "" {
			continue
		}
		for _, other := range outputs[:i] {
			if userfile.Same(o.Path, other.Path) {
				return optionError(o.Option, "--%s writes %s, too", strings.ToLower(other.Option), o.Path)
			}
		}
		for _, in := range inputs {
			if what := userfile.Read(in, o.Path); what != "" {
				return optionError(o.Option, "%s is %s, and would be overwritten", o.Path, what)
			}
		}
	}
	return nil
}

// CheckOutputs is [CheckOutputs] for what is written next to a store: not over the store, its configuration or a file that this names. What sinks write is
// no output of a report either.
func (o *StoreOptions) CheckOutputs(outputs []Output, inputs ...string) error {
	c, err := o.load()
	if err != nil {
		return nil //nolint:nilerr // whoever opens the store says so
	}
	for i := range c.Sinks.JSONL {
		inputs = append(inputs, c.Sinks.JSONL[i].Path)
	}
	return CheckOutputs(outputs, slices.Concat(inputs, []string{o.Config}, c.Reads(), cluster.StateFiles(c.State.Files))...)
}
