package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// IsPlugin says whether kubectl runs a program of this name as "kubectl name": it is kubectl-name, with .exe or without.
func IsPlugin(program, name string) bool {
	base := filepath.Base(strings.ReplaceAll(program, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(base), ".exe") == "kubectl-"+name
}

// AsPlugin makes help, examples and messages of a command, and of those below it, name them as they are typed: "kubectl nodetrail".
func AsPlugin(root *cobra.Command) {
	name := "kubectl " + root.Name()
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	line := regexp.MustCompile(`(?m)^( *)` + regexp.QuoteMeta(root.Name()) + ` `)
	var rename func(*cobra.Command)
	rename = func(cmd *cobra.Command) {
		cmd.Example = line.ReplaceAllString(cmd.Example, "${1}"+name+" ")
		for _, c := range cmd.Commands() {
			rename(c)
		}
	}
	rename(root)
}
