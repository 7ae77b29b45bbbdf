package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// room is a folder of the main module with errors for it, and the tests that find them.
type room struct {
	folder, mutations string
	tests             []string // arguments of go test: the package, and what follows it
}

var (
	authorizerRoom = room{"nodeauthz", "testdata/mutations.txt", []string{
		"-run", "^(TestGates|TestTables|TestRegressions|TestFields|TestSweep|TestDifferential)$", ".", "-args", "-histories=600",
	}}
	pluginRoom = room{"nodeadmission", "testdata/admission-mutations.txt", []string{"./admission", "-args", "-writes=200000"}}
)

// planted is one error for a room: a piece of text that is there once, and what it becomes.
type planted struct {
	room       room
	name, file string
	minor      int // the minor that finds it; 0 is the newest
	old, new   string
}

// caught is what came of the planted errors.
type caught struct{ found, tried, all int }

// planted reads blocks of
//
//	== name | file | minor
//	old text
//	--
//	new text
func (r room) planted() ([]planted, error) {
	data, err := os.ReadFile(r.mutations)
	if err != nil {
		return nil, err
	}
	var out []planted
	for _, block := range strings.Split("\n"+string(data), "\n== ")[1:] {
		head, body, _ := strings.Cut(block, "\n")
		parts := strings.Split(head, " | ")
		old, changed, ok := strings.Cut(body, "\n--\n")
		if len(parts) < 2 || !ok {
			return nil, fmt.Errorf("%s: %q has no old and new text", r.mutations, head)
		}
		p := planted{room: r, name: parts[0], file: parts[1], old: old, new: strings.TrimRight(changed, "\n")}
		if len(parts) > 2 {
			if p.minor, err = strconv.Atoi(parts[2]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", r.mutations, head, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// check sees that every planted error still has its place.
func (r room) check() error {
	list, err := r.planted()
	if err != nil {
		return err
	}
	for _, p := range list {
		if _, err := p.apply(); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) mutation(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	targets, err := c.targets(ctx, dir)
	if err != nil {
		return err
	}
	got, err := c.mutate(ctx, authorizerRoom, targets)
	if err == nil {
		fmt.Fprintf(c.stdout, "%d of %d planted errors found\n", got.found, got.tried)
	}
	return err
}

// mutate plants errors one by one. That one is not found, or has nowhere to go any more, is an error.
func (c *comparison) mutate(ctx context.Context, r room, targets []target) (got caught, err error) {
	list, err := r.planted()
	if err != nil {
		return got, err
	}
	if err := r.check(); err != nil { // all must fit, whichever are tried
		return got, err
	}
	got.all = len(list)
	var missed []string
	for i, p := range list {
		// A bounded run tries some, spread over the list, others with another seed.
		if n := c.mutations; n >= 0 && (i+int(c.seed))%max(1, len(list)/max(1, n)) != 0 || got.tried == n {
			continue
		}
		t, ok := p.target(targets)
		if !ok {
			continue
		}
		got.tried++
		by, err := p.plant(ctx, t)
		switch {
		case err != nil:
			return got, err
		case by == "":
			missed = append(missed, p.name)
			fmt.Fprintf(c.stdout, "NOT FOUND  %s (%s)\n", p.name, p.file)
		default:
			got.found++
			fmt.Fprintf(c.stdout, "found      %s, by %s\n", p.name, by)
		}
	}
	if len(missed) > 0 {
		return got, fmt.Errorf("%d of %d planted errors were not found: %s", len(missed), got.tried, strings.Join(missed, "; "))
	}
	return got, nil
}

func (p planted) target(targets []target) (target, bool) {
	for _, t := range targets {
		if t.minor == p.minor || p.minor == 0 && t.newest {
			return t, true
		}
	}
	return target{}, false
}

// apply returns the file with the error.
func (p planted) apply() (string, error) {
	data, err := os.ReadFile(filepath.Join("..", p.room.folder, p.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(data), p.old); n != 1 {
		return "", fmt.Errorf("%s: the text of %q is %d times in %s/%s instead of once: bring it up to date", p.room.mutations, p.name, n, p.room.folder, p.file)
	}
	return strings.Replace(string(data), p.old, p.new, 1), nil
}

// plant runs the tests with the error in place of the file, and returns the test that failed.
func (p planted) plant(ctx context.Context, t target) (by string, err error) {
	content, err := p.apply()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "planted")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, p.file)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		return "", err
	}
	real, err := filepath.Abs(filepath.Join("..", p.room.folder, p.file))
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{real: file}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		return "", err
	}
	args := append([]string{"test", "-count=1", "-failfast", "-timeout=10m", "-vet=off", "-overlay=" + overlayFile}, t.flags()...)
	args = append(args, p.room.tests...)
	if p.room.folder == pluginRoom.folder {
		args = append(args, "-kubernetes="+t.version)
	}
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err == nil {
		return "", nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil {
		return "", fmt.Errorf("planting %q: %w", p.name, err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name, nil
		}
		if strings.HasPrefix(line, "panic: ") {
			return line, nil
		}
	}
	return "", fmt.Errorf("planting %q: the tests did not run: %s", p.name, firstLines(string(out), 12))
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(s, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
