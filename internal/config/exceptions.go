package config

import (
	"fmt"

	"github.com/nodetrail/nodetrail/exceptions"
)

// Exception says that somebody answers for findings: [exceptions.Exception], with the time as the file has it.
type Exception struct {
	Rule    string `yaml:"rule"`
	Match   string `yaml:"match"`
	Owner   string `yaml:"owner"`
	Reason  string `yaml:"reason"`
	Expires string `yaml:"expires"`
}

// Excepted are the exceptions of a configuration that was validated.
func (c *Config) Excepted() []exceptions.Exception {
	out := make([]exceptions.Exception, 0, len(c.Exceptions))
	for i := range c.Exceptions {
		out = append(out, c.Exceptions[i].of())
	}
	return out
}

func (e *Exception) of() exceptions.Exception {
	one := exceptions.Exception{Rule: e.Rule, Match: e.Match, Owner: e.Owner, Reason: e.Reason}
	one.Expires, _ = timeOf(e.Expires)
	return one
}

func (v *validator) exceptions() {
	if n := len(v.c.Exceptions); n > exceptions.MaxExceptions {
		v.fail("exceptions", "there are %d, more than %d", n, exceptions.MaxExceptions)
	}
	for i := range v.c.Exceptions {
		e, at := &v.c.Exceptions[i], fmt.Sprintf("exceptions[%d]", i)
		ok := v.need(at+".rule", e.Rule)
		ok = v.need(at+".owner", e.Owner) && ok
		ok = v.need(at+".reason", e.Reason) && ok
		_, is := v.time(at+".expires", e.Expires)
		if !ok || !is {
			continue
		}
		one := e.of()
		if err := one.Validate(v.c.OwnNames()...); err != nil {
			v.fail(at, "%v", err)
		}
	}
}
