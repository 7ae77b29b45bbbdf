package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The error about an option names a flag that some command has.
func TestFlagOf(t *testing.T) {
	flags := map[string]bool{"request": true} // which the command asks for itself
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(newRoot(streams{}))
	files, err := filepath.Glob(filepath.Join("..", "..", "app", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	option := regexp.MustCompile(`(?:optionError\(|OptionError\{)"(\w+)"`)
	found := 0
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range option.FindAllSubmatch(source, -1) {
			found++
			for _, name := range regexp.MustCompile(" and --").Split(flagOf(string(m[1])), -1) {
				if !flags[name] {
					t.Errorf("%s: an error about %s names --%s, which no command has", filepath.Base(path), m[1], name)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d errors about options were found", found)
	}
}
