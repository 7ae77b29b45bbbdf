package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The help of a command has no line over 80 columns where there is no terminal, but for what is indented.
func TestHelpIsWrapped(t *testing.T) {
	root := &cobra.Command{Use: "program"}
	sub := &cobra.Command{
		Use: "sub", Short: "s", Long: strings.Repeat("word ", 40) + "\n" + strings.Repeat("more ", 40) + "\n\n  an indented line stays",
		Run: func(*cobra.Command, []string) {},
	}
	sub.Flags().StringP("out", "o", "x", strings.Repeat("what it is ", 30))
	root.AddCommand(sub)
	Strict(root)
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetArgs([]string{"sub", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	if !strings.HasSuffix(b.String(), "\n") || strings.HasSuffix(b.String(), "\n\n") {
		t.Errorf("it ends with %q", b.String()[b.Len()-10:])
	}
	for _, want := range []string{"\n  an indented line stays\n", "\n  -o, --out string\n          what it is ", `(default "x")`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Programs of one process share nothing that one of them writes: the race detector sees it otherwise.
func TestProgramsAtOnce(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			root := &cobra.Command{Use: "program", Run: func(*cobra.Command, []string) {}}
			Strict(root)
			root.SetOut(&bytes.Buffer{})
			root.SetArgs([]string{"--help"})
			if err := root.Execute(); err != nil {
				t.Error(err)
			}
		})
	}
}
