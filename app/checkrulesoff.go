package app

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// rememberedOff is the kind of memory that has until when each rule was off, at any analyzer, by its name.
const rememberedOff = "rules-off"

// offEvery is how often that is stored while a rule stays off.
const offEvery = 5 * time.Minute

// offBook stores which rules are off. The configuration of this moment does not tell of the window's beginning. The zero value is ready.
type offBook struct{ told map[string]time.Time }

// changes are the rules that are off, and those that were until now.
func (b *offBook) changes(off []string, now time.Time) (out []tally.Remembered) {
	tell := func(name string) {
		value, err := now.UTC().MarshalText()
		if err == nil { // of a year with more than four digits there is none
			out = append(out, tally.Remembered{Kind: rememberedOff, Key: name, Value: value})
		}
	}
	for name := range b.told {
		if !slices.Contains(off, name) {
			delete(b.told, name)
			tell(name)
		}
	}
	for _, name := range off {
		if at, ok := b.told[name]; ok && now.Sub(at) < offEvery {
			continue
		}
		if b.told == nil {
			b.told = map[string]time.Time{}
		}
		b.told[name] = now
		tell(name)
	}
	return out
}

// offDuring are the rules that are off, and those that were after begin.
func offDuring(off []string, stored []tally.Remembered, begin time.Time) []string {
	out := slices.Clone(off)
	for i := range stored {
		var at time.Time
		if err := at.UnmarshalText(stored[i].Value); (err != nil || at.After(begin)) && !slices.Contains(out, stored[i].Key) {
			out = append(out, stored[i].Key)
		}
	}
	return out
}
