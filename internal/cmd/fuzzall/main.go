// Command fuzzall fuzzes every target of some packages, one after the other.
//
// What goes in: package patterns, how long each target runs and with how many workers. What comes out: go test's own output as it
// comes, then on standard output a table of target, time and executions. It stops at the first target that fails. It imports only
// the standard library; `make fuzz` runs it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// target is one fuzz function of one package.
type target struct {
	pkg, name string
}

// result is how one target went.
type result struct {
	target

	progress

	err error
}

// progress is how far a target came: the time that it was fuzzed, which leaves out what building it took, and its executions.
type progress struct {
	fuzzed time.Duration
	execs  int64
}

// options are what the flags say.
type options struct {
	fuzztime string // as in go test's -fuzztime: a duration, or a count such as 1000x
	workers  int
	targets  *regexp.Regexp
	patterns []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "fuzzall:", err)
		return 1
	}
	targets, err := list(ctx, opts)
	if err != nil {
		fmt.Fprintln(stderr, "fuzzall:", err)
		return 1
	}
	var results []result
	for _, t := range targets {
		r := fuzz(ctx, t, opts, stdout, stderr)
		results = append(results, r)
		if r.err != nil {
			break
		}
	}
	if err := writeTable(stdout, results, len(targets)); err != nil {
		fmt.Fprintln(stderr, "fuzzall:", err)
		return 1
	}
	if last := results[len(results)-1]; last.err != nil {
		fmt.Fprintf(stderr, "fuzzall: %s in %s: %v\n", last.name, last.pkg, last.err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	fs := flag.NewFlagSet("fuzzall", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fuzztime := fs.String("fuzztime", "10m", "how long each target runs: a duration, or a count such as 1000x")
	workers := fs.Int("parallel", 2, "how many workers a target has")
	targets := fs.String("targets", ".", "run the targets whose names match this regular expression")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	re, err := regexp.Compile(*targets)
	if err != nil {
		return options{}, fmt.Errorf("reading -targets: %w", err)
	}
	patterns := fs.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	return options{fuzztime: *fuzztime, workers: *workers, targets: re, patterns: patterns}, nil
}

// list asks go test for the fuzz targets of the packages.
func list(ctx context.Context, opts options) ([]target, error) {
	args := append([]string{"test", "-json", "-list", "^Fuzz"}, opts.patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("listing the targets: %w\n%s%s", err, errOut.String(), plain(out.Bytes()))
	}
	targets, err := parseList(&out, opts.targets)
	if err != nil {
		return nil, fmt.Errorf("listing the targets: %w", err)
	}
	if len(targets) == 0 {
		return nil, errors.New("no fuzz target matches")
	}
	return targets, nil
}

// event is what is used here of a line of go test -json.
type event struct {
	Action, Package, Output string
}

// parseList finds the names of fuzz targets in the output of go test -json -list, in its order.
func parseList(r io.Reader, want *regexp.Regexp) ([]target, error) {
	var targets []target
	for dec := json.NewDecoder(r); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Output, "\n")
		if e.Action == "output" && targetName.MatchString(name) && want.MatchString(name) {
			targets = append(targets, target{e.Package, name})
		}
	}
}

// plain is the text in the output of go test -json, for a message; what is not JSON stays as it is.
func plain(out []byte) string {
	var text strings.Builder
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			text.WriteString(e.Output)
		} else {
			text.Write(line)
		}
	}
	return text.String()
}

// fuzz runs one target. A go test that was stopped by ctx counts as failed.
func fuzz(ctx context.Context, t target, opts options, stdout, stderr io.Writer) result {
	fmt.Fprintf(stderr, "\n%s in %s, %s\n", t.name, t.pkg, opts.fuzztime)
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$",
		"-fuzztime="+opts.fuzztime, "-parallel="+strconv.Itoa(opts.workers), "-fuzzminimizetime=10x", "-timeout=0", t.pkg)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(stdout, &out), stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return result{target: t, progress: lastProgress(out.String()), err: err}
}

var (
	targetName   = regexp.MustCompile(`^Fuzz\w*$`)
	progressLine = regexp.MustCompile(`(?m)^fuzz: elapsed: (\w+), execs: (\d+) `)
)

// lastProgress reads the last line of progress in go test's output; without one it is zero.
func lastProgress(out string) progress {
	all := progressLine.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return progress{}
	}
	last := all[len(all)-1]
	fuzzed, err := time.ParseDuration(last[1])
	if err != nil {
		return progress{}
	}
	execs, err := strconv.ParseInt(last[2], 10, 64)
	if err != nil {
		return progress{}
	}
	return progress{fuzzed, execs}
}

func writeTable(w io.Writer, results []result, total int) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "\ntarget\tpackage\tfuzzed\texecutions\tresult\n")
	for _, r := range results {
		verdict := "nothing found"
		if r.err != nil {
			verdict = "FAILED"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\n", r.name, r.pkg, r.fuzzed, r.execs, verdict)
	}
	if left := total - len(results); left > 0 {
		fmt.Fprintf(tw, "%d more not run\n", left)
	}
	return tw.Flush()
}
