package cli

import (
	"bytes"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodetrail/nodetrail/wording"
)

// The bounds of the width of help texts.
const minHelp, maxHelp = 80, 120

// wrapHelp wraps the help of a program and its commands to the terminal. It wraps what cobra wrote: cobra's templates take functions only from a map of
// the whole process, which two programs at once in one test would write and read.
func wrapHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		var b bytes.Buffer // cobra prints an error of the writer, which [Writer] keeps
		cmd.SetOut(&b)
		help(cmd, args)
		cmd.SetOut(out)
		description, usage, found := strings.Cut(b.String(), "Usage:\n")
		columns := helpColumns(out)
		description = wrapText(description, columns)
		if found {
			usage = "Usage:\n" + wrapUsage(usage, columns)
		}
		_, _ = io.WriteString(out, description+usage)
	})
}

// wrapUsage wraps the flags of what cobra says of a command's usage.
func wrapUsage(usage string, columns int) string {
	sections := strings.Split(strings.TrimSuffix(usage, "\n"), "\n\n")
	for i, s := range sections {
		for _, title := range []string{"Flags:\n", "Global Flags:\n"} {
			if flags, found := strings.CutPrefix(s, title); found {
				sections[i] = title + strings.TrimSuffix(wrapFlags(flags, columns), "\n")
			}
		}
	}
	return strings.Join(sections, "\n\n") + "\n"
}

func helpColumns(w io.Writer) int {
	if c, ok := w.(*Writer); ok {
		w = c.W
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(n, minHelp), maxHelp)
		}
	}
	return minHelp
}

// wrapFlags writes what a flag means under it.
func wrapFlags(usages string, columns int) string {
	const indent = "          "
	var b strings.Builder
	for line := range strings.Lines(usages) {
		line = strings.TrimSuffix(line, "\n")
		end := len(line) - len(strings.TrimLeft(line, " "))
		flag, text, found := strings.Cut(line[end:], "  ")
		b.WriteString(line[:end] + flag + "\n")
		if !found {
			continue
		}
		for _, part := range wording.Wrap(text, columns-len(indent), 0) {
			b.WriteString(indent + part + "\n")
		}
	}
	return b.String()
}

// wrapText joins the lines of each paragraph and breaks them anew. A paragraph with an indented line stays as it is.
func wrapText(s string, columns int) string {
	paragraphs := strings.Split(s, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			paragraphs[i] = strings.Join(wording.Wrap(strings.Join(strings.Fields(p), " "), columns, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
