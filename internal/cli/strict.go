package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// Strict makes what cobra adds to a program refuse arguments that mean nothing: the commands help and completion.
//
// The help is as wide as the terminal, of 80 columns or more, or 80 columns wide where there is none.
func Strict(root *cobra.Command) {
	root.SetHelpCommand(help(root))
	wrapHelp(root)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error { return Subcommand(cmd, "shell", args) }
		for _, shell := range c.Commands() {
			shell.Args = NoArgs
		}
	}
}

// help is cobra's help command, but that an unknown topic is an error.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil {
				return Usage(root, err)
			}
			if len(rest) > 0 {
				return Subcommand(cmd, "command", rest)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// Writer keeps the first error of a writer for those who do not look at it: cobra, when it prints help.
type Writer struct {
	W   io.Writer
	Err error
}

func (c *Writer) Write(p []byte) (int, error) {
	n, err := c.W.Write(p)
	if c.Err == nil {
		c.Err = err
	}
	return n, err
}
