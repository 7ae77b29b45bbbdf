// Command treecheck checks what no linter of Go looks at.
//
//	treecheck files      no file of the tree names a machine's paths or a package registry's host, or marks unfinished work; no test
//	                     is skipped but for want of Kafka or PostgreSQL; no Go file is far too long; the main module has no replace
//	                     lines and does not need k8s.io/kubernetes
//	treecheck generated  go generate changes no file
//
// What goes in: the files that git tracks, and those it would if they were added. What comes out: a line for each thing that is wrong,
// on standard output, and exit status 1. It imports only the standard library; `make check` runs it at the top of the repository.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var problems []string
	var err error
	switch {
	case slices.Equal(args, []string{"files"}):
		problems, err = checkFiles(ctx)
	case slices.Equal(args, []string{"generated"}):
		problems, err = checkGenerated(ctx, stdout, stderr)
	default:
		err = errors.New("want one argument: files or generated")
	}
	if err != nil {
		fmt.Fprintln(stderr, "treecheck:", err)
		return 1
	}
	if len(problems) == 0 {
		return 0
	}
	if _, err := fmt.Fprintln(stdout, strings.Join(problems, "\n")); err != nil {
		fmt.Fprintln(stderr, "treecheck:", err)
	}
	return 1
}

func checkFiles(ctx context.Context) ([]string, error) {
	names, err := treeFiles(ctx)
	if err != nil {
		return nil, err
	}
	proxies, err := output(ctx, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	c := checker{hosts: hosts(string(proxies))}
	var problems []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // tracked, and removed in the work tree
		}
		if err != nil {
			return nil, err
		}
		problems = append(problems, c.check(name, content)...)
	}
	return problems, nil
}

// hosts is the hosts in a value of GOPROXY: URLs between commas or bars, and words that are no URLs.
func hosts(goproxy string) []string {
	var all []string
	for _, part := range strings.FieldsFunc(goproxy, func(r rune) bool { return strings.ContainsRune(",| \n", r) }) {
		if u, err := url.Parse(part); err == nil && u.Host != "" {
			all = append(all, u.Host)
		}
	}
	return all
}

// checkGenerated runs go generate and names the files that differ afterwards. They are left as generated.
func checkGenerated(ctx context.Context, stdout, stderr io.Writer) ([]string, error) {
	before, err := sums(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "generate", "./...")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go generate: %w", err)
	}
	after, err := sums(ctx)
	if err != nil {
		return nil, err
	}
	var problems []string
	for name, sum := range after {
		if before[name] != sum {
			problems = append(problems, name+": was stale, go generate has written it anew")
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			problems = append(problems, name+": was stale, go generate has removed it")
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// sums is the checksum of each file of the tree that exists.
func sums(ctx context.Context) (map[string][sha256.Size]byte, error) {
	names, err := treeFiles(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string][sha256.Size]byte, len(names))
	for _, name := range names {
		content, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = sha256.Sum256(content)
	}
	return all, nil
}

// treeFiles is the files that git tracks and those that are new and not ignored, below the working directory.
func treeFiles(ctx context.Context) ([]string, error) {
	out, err := output(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(names)
	return slices.Compact(names), nil
}

// output runs a program and returns its standard output; the error of one that fails holds its standard error.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(errOut.Bytes()))
	}
	return out, nil
}
