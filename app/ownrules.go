package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/ownrules"
	"github.com/nodetrail/nodetrail/rules"
)

// OwnRules loads the rules that the user wrote, from files; nil where no file is named.
func OwnRules(paths []string) (*ownrules.Set, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	sources, err := ruleSources(paths)
	if err != nil {
		return nil, fileError(err)
	}
	set, err := ownrules.Load(sources)
	return set, fileError(err)
}

// useOwnRules reads the files that the configuration names.
func useOwnRules(c *config.Config) error {
	if len(c.Rules.Files) == 0 {
		return nil
	}
	sources, err := ruleSources(c.Rules.Files)
	if err != nil {
		return fmt.Errorf("rules.files: %w", err)
	}
	set, err := ownrules.Load(sources)
	if err != nil {
		return fmt.Errorf("rules.files: %w", err)
	}
	sum := sha256.New()
	for _, s := range sources {
		_, _ = fmt.Fprintf(sum, "%q %q", s.Name, s.Data) // never fails
	}
	return c.UseOwn(set, hex.EncodeToString(sum.Sum(nil)))
}

// OwnRuleNames are the names of the rules in the files that the configuration names; none where they cannot be read.
func (o *StoreOptions) OwnRuleNames() []string {
	c, err := o.load()
	if err != nil {
		return nil // whoever opens the store says so
	}
	set, err := OwnRules(c.Rules.Files)
	if err != nil {
		return nil
	}
	return set.Names()
}

// ownRules are those that were read.
func ownRules(c *config.Config) []*rules.Rule {
	if c.Own() == nil {
		return nil
	}
	return c.Own().All()
}

// TestRules runs the tests in files of rules and in the file next to each that has _test before its extension, such as rules_test.yaml.
func TestRules(paths []string) ([]ownrules.Result, error) {
	sources, err := ruleSources(paths)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		ext := filepath.Ext(p)
		s, err := ownrules.ReadFile(strings.TrimSuffix(p, ext) + "_test" + ext)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			sources = append(sources, s)
		}
	}
	return ownrules.RunTests(sources)
}

func ruleSources(paths []string) ([]ownrules.Source, error) {
	var out []ownrules.Source
	for _, p := range paths {
		if err := Misplaced(p, filekind.OwnRules); err != nil {
			return nil, err
		}
		s, err := ownrules.ReadFile(p)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
