package config

import (
	"fmt"
	"slices"

	"github.com/nodetrail/nodetrail/rules"
)

// UseOwn puts in the rules that were read from rules.files, which sum tells from others. It is an error if an exception is for a rule that is not
// there.
func (c *Config) UseOwn(own rules.Own, sum string) error {
	for i := range c.Exceptions {
		name := c.Exceptions[i].Rule
		if !rules.BuiltIn(name) && !slices.ContainsFunc(own.All(), func(r *rules.Rule) bool { return r.Name == name }) {
			return fmt.Errorf("exceptions[%d].rule: there is no rule %q, neither in rules.files", i, name)
		}
	}
	c.own, c.ownSum = own, sum
	return nil
}

// Own are the rules that UseOwn put in; nil if there are none.
func (c *Config) Own() rules.Own { return c.own }

// OwnNames are the names in exceptions that may be those of rules in rules.files. Whether they are is known once the files were read.
func (c *Config) OwnNames() []string {
	var out []string
	for i := range c.Exceptions {
		if name := c.Exceptions[i].Rule; len(c.Rules.Files) > 0 && !rules.BuiltIn(name) {
			out = append(out, name)
		}
	}
	return out
}
