// Command e2e runs the end-to-end tests and writes the page that tells what they measured.
//
//	e2e [-page FILE] [-run REGEXP] [PACKAGE...]
//
// With NODETRAIL_E2E_KUBERNETES, which names an older minor, only that minor's row of the page is written. The packages are scenarios, confined, scale and pipeline, all
// by default; of their tests those that match REGEXP are run. It is run by make e2e, at the top of the module e2e. When it must stop it stops the tests, which end what they have started.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("e2e", flag.ContinueOnError)
	fs.SetOutput(stderr)
	page := fs.String("page", "", "write the page to this `FILE`")
	tests := fs.String("run", "", "run the tests that match this `REGEXP`, not all")
	if err := fs.Parse(args); err != nil {
		return 1
	}
	packages := fs.Args()
	if len(packages) == 0 {
		packages = allPackages()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if err := all(signals, packages, *tests, *page, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "e2e:", err)
		return 1
	}
	return 0
}

func allPackages() []string { return []string{"scenarios", "confined", "scale", "pipeline"} }

var errStopped = errors.New("stopped")

func all(signals <-chan os.Signal, packages []string, tests, page string, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "nodetrail-e2e-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	fmt.Fprintln(stdout, "building the control plane, unless it is there")
	built := make(chan error, 1)
	go func() {
		_, err := plane.Build(ctx)
		built <- err
	}()
	select {
	case s := <-signals:
		cancel()
		<-built
		return fmt.Errorf("%w: %s", errStopped, s)
	case err := <-built:
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "built in %s\n", time.Since(began).Round(time.Second))
	for _, p := range packages {
		if err := test(signals, dir, p, tests, stdout, stderr); err != nil {
			if errors.Is(err, errStopped) {
				return err
			}
			if text, perr := pageOf(dir, time.Since(began)); perr == nil {
				_, _ = io.WriteString(stdout, text) // what there is helps to see why
			}
			return err
		}
	}
	text, err := pageOf(dir, time.Since(began))
	if err != nil {
		return err
	}
	if page == "" {
		_, err = io.WriteString(stdout, text)
		return err
	}
	older := os.Getenv(plane.MinorEnv) != ""
	if older || tests == "" && slices.Equal(packages, allPackages()) {
		return writePage(page, dir, text, older)
	}
	return fmt.Errorf("%s is written when all tests of all packages have run", page)
}

// test runs the tests of a package. They are built first: the go command would not hand signals on.
func test(signals <-chan os.Signal, dir, name, tests string, stdout, stderr io.Writer) error {
	program := filepath.Join(dir, name+".test")
	build := exec.Command("go", "test", "-c", "-o", program, "./"+name)
	build.Stderr = stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the tests of %s: %w", name, err)
	}
	began := time.Now()
	cmd := exec.Command(program, "-test.v", "-test.count=1", "-test.timeout=60m", "-test.run="+tests)
	cmd.Dir, cmd.Env = name, append(os.Environ(), result.Env+"="+dir)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// A terminal's interrupt must not come twice.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the tests of %s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case s := <-signals:
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		return fmt.Errorf("%w: %s", errStopped, s)
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Fprintf(stdout, "%s: passed in %s\n", name, time.Since(began).Round(time.Second))
	return nil
}
