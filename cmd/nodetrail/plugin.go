package main

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// plugin is the program's name where kubectl finds it as a plugin.
const plugin = "kubectl-nodetrail"

var exampleLine = regexp.MustCompile(`(?m)^( *)nodetrail `)

// isPlugin says whether a program of this name is kubectl's plugin.
func isPlugin(program string) bool {
	base := filepath.Base(strings.ReplaceAll(program, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(base), ".exe") == plugin
}

// asPlugin makes help, examples and messages of a command, and of those below it, name them as they are typed: "kubectl nodetrail".
func asPlugin(cmd *cobra.Command) {
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nodetrail"}
	}
	cmd.Example = exampleLine.ReplaceAllString(cmd.Example, "${1}kubectl nodetrail ")
	for _, c := range cmd.Commands() {
		asPlugin(c)
	}
}
