// Command conform runs conformance/ over several minors of Kubernetes and writes what came of it.
//
//	conform run        the whole comparison for every minor that has a module file; writes docs/conformance.md
//	conform mutation   plants each error of testdata/mutations.txt in nodeauthz and sees that the comparison finds it
//	conform admission  nodeadmission against the NodeRestriction plugin, for every minor or for given patches, and its planted errors
//	conform latest     the comparison with the newest patch of each minor, and what changed in a decision
//	conform modfiles   writes the module files for given versions, such as 1.37.0
//
// It runs in the folder conformance/, needs the go command, and imports the standard library alone, so that it is built at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("say run, mutation, admission, latest or modfiles")
	}
	c := &comparison{stdout: stdout, stderr: stderr}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.histories, "histories", 20000, "random histories for each minor")
	flags.IntVar(&c.between, "between", 0, "random histories for each minor but the newest two and the oldest; 0 is as -histories")
	flags.IntVar(&c.requests, "requests", 3, "random requests after each step of a history")
	flags.Uint64Var(&c.seed, "seed", 1, "seed of the first history")
	flags.StringVar(&c.page, "page", "../docs/conformance.md", "the page to write, with a table of the speed; empty for none")
	flags.StringVar(&c.minors, "minors", "", "minors such as 33,36; all that have a module file without")
	flags.IntVar(&c.mutations, "mutations", 8, "planted errors to try; -1 for all")
	flags.IntVar(&c.writes, "writes", 2_000_000, "random writes for each minor and setting of the gates (admission)")
	patches := flags.String("patches", "", "versions such as 1.33.0,1.33.2 instead of those of the module files (admission)")
	switch args[0] {
	case "run", "mutation", "latest", "admission":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
	}
	switch args[0] {
	case "run":
		return c.run(ctx)
	case "mutation":
		return c.mutation(ctx)
	case "admission":
		return c.admission(ctx, *patches)
	case "latest":
		return c.latest(ctx)
	case "modfiles":
		return writeModFiles(ctx, args[1:], stdout)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
