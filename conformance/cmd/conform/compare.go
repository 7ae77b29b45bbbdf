package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// comparison is one run of the command.
type comparison struct {
	stdout, stderr      io.Writer
	histories, requests int
	between             int // histories for all but the newest two minors and the oldest; 0 is as many as for these
	seed                uint64
	page, minors        string
	mutations, writes   int
}

// result is conformance.Result; this command does not import the package, whose build takes minutes.
type result struct {
	Kubernetes string         `json:"kubernetes"`
	FirstSeed  uint64         `json:"firstSeed"`
	Settings   int            `json:"settings"`
	Histories  int            `json:"histories"`
	Steps      int            `json:"steps"`
	Requests   int            `json:"requests"`
	Later      int            `json:"later"`
	Known      map[string]int `json:"known"`
	Sweep      int            `json:"sweep"`
	Table      int            `json:"table"`
	Fields     int            `json:"fields"`
	RBAC       int            `json:"rbac"`
	Speed      []speedCase    `json:"speed"`
}

type speedCase struct {
	Name         string
	Theirs, Ours float64
}

// target is one minor to be held against: its module file in a folder of its own, so that the run changes none of ours.
type target struct {
	minor   int
	version string
	modFile string
	newest  bool
	between bool // neither one of the newest two nor the oldest
}

// historiesOf is how many histories are played for a target.
func (c *comparison) historiesOf(t target) int {
	if t.between && c.between > 0 {
		return c.between
	}
	return c.histories
}

// flags are those that make the go command build for the target.
func (t target) flags() []string {
	// What nodetrail itself requires may have moved since the module files were written; that is no reason to fail.
	return []string{"-mod=mod", "-modfile=" + t.modFile, "-tags=" + tags(t.minor, t.newest)}
}

// tags are the build tags of a minor. The tag k8s1_33 means "1.33 or older", so that a file says from when or until when it holds, and those of a
// minor to come need none.
func tags(minor int, newest bool) string {
	var list []string
	for m := minor; m <= lastTag && !newest; m++ {
		list = append(list, fmt.Sprintf("k8s1_%d", m))
	}
	return strings.Join(list, ",")
}

// lastTag is the newest minor that a build tag names.
const lastTag = 36

// targets copies the module files into dir.
func (c *comparison) targets(ctx context.Context, dir string) ([]target, error) {
	versions, err := pinned(ctx)
	if err != nil {
		return nil, err
	}
	minors := slices.Sorted(maps.Keys(versions))
	var out []target
	for i, m := range minors {
		if c.minors != "" && !slices.Contains(strings.Split(c.minors, ","), strconv.Itoa(m)) {
			continue
		}
		newest := m == minors[len(minors)-1]
		from := modFileOf(m, minors[len(minors)-1])
		to := filepath.Join(dir, fmt.Sprintf("go.1.%d.mod", m))
		for _, ext := range []string{".mod", ".sum"} {
			data, err := os.ReadFile(strings.TrimSuffix(from, ".mod") + ext)
			if err != nil {
				return nil, fmt.Errorf("reading the module file of 1.%d: %w", m, err)
			}
			if err := os.WriteFile(strings.TrimSuffix(to, ".mod")+ext, data, 0o644); err != nil {
				return nil, err
			}
		}
		out = append(out, target{minor: m, version: versions[m], modFile: to, newest: newest, between: i > 0 && i < len(minors)-2})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no module file for the minors %q", c.minors)
	}
	return out, nil
}

// test runs the tests for one target.
func (c *comparison) test(ctx context.Context, t target, more ...string) (*result, error) {
	dir := filepath.Dir(t.modFile)
	file := filepath.Join(dir, fmt.Sprintf("result-%d.json", t.minor))
	args := append([]string{"test", "-count=1", "-timeout=3h"}, t.flags()...)
	if !t.newest {
		args = append(args, "-vet=off") // once is enough: it looks at all that Kubernetes imports
	}
	args = append(args, ".", "-args", "-result="+file, "-histories="+strconv.Itoa(c.historiesOf(t)), "-rbac-histories="+strconv.Itoa(c.historiesOf(t)/4),
		"-requests="+strconv.Itoa(c.requests), "-seed="+strconv.FormatUint(c.seed, 10))
	args = append(args, more...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kubernetes %s: %w", t.version, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading the result for Kubernetes %s: %w", t.version, err)
	}
	r.Kubernetes = t.version
	return r, nil
}

func (c *comparison) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	targets, err := c.targets(ctx, dir)
	if err != nil {
		return err
	}
	if err := authorizerRoom.check(); err != nil { // before the long part
		return err
	}
	var results []*result
	for i, t := range targets {
		fmt.Fprintf(c.stdout, "Kubernetes %s\n", t.version)
		var more []string
		if c.page != "" && i >= len(targets)-2 {
			more = append(more, "-speed")
		}
		r, err := c.test(ctx, t, more...)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	caught, err := c.mutate(ctx, authorizerRoom, targets)
	if err != nil {
		return err
	}
	if c.page == "" {
		return nil
	}
	return writePage(c.page, results, caught)
}

// latest holds against the newest patch of each minor. A test that fails shows, as a scenario, the decision that changed.
func (c *comparison) latest(ctx context.Context) error {
	out, err := command(ctx, "go", "list", "-m", "-versions", "-json", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	var list struct{ Versions []string }
	if err := json.Unmarshal(out, &list); err != nil {
		return fmt.Errorf("listing the versions of Kubernetes: %w", err)
	}
	versions, err := pinned(ctx)
	if err != nil {
		return err
	}
	newest := newestPatches(list.Versions, slices.Min(slices.Collect(maps.Keys(versions))))
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var changed []string
	for _, m := range slices.Sorted(maps.Keys(newest)) {
		v := newest[m]
		switch versions[m] {
		case v:
			fmt.Fprintf(c.stdout, "1.%d: %s is still the newest\n", m, v)
			continue
		case "":
			fmt.Fprintf(c.stdout, "1.%d: not held against yet; the newest is %s (conform modfiles %s)\n", m, v, v)
		default:
			fmt.Fprintf(c.stdout, "1.%d: %s after %s\n", m, v, versions[m])
		}
		t := target{minor: m, version: v, modFile: filepath.Join(dir, fmt.Sprintf("go.1.%d.mod", m))}
		if err := write(ctx, t.modFile, v, false); err != nil {
			return err
		}
		if _, err := c.test(ctx, t); err != nil {
			changed = append(changed, v)
		} else {
			fmt.Fprintf(c.stdout, "1.%d: no decision changed\n", m)
		}
	}
	if len(changed) > 0 {
		return fmt.Errorf("decisions changed, as shown above, in Kubernetes %s", strings.Join(changed, ", "))
	}
	return nil
}

// newestPatches picks the newest release of each minor from the oldest on.
func newestPatches(versions []string, oldest int) map[int]string {
	out := map[int]string{}
	newest := map[int]*version.Version{}
	for _, text := range versions {
		v, err := version.ParseSemantic(text)
		if err != nil || v.PreRelease() != "" || v.Major() != 1 || int(v.Minor()) < oldest {
			continue
		}
		if m := int(v.Minor()); newest[m] == nil || newest[m].LessThan(v) {
			out[m], newest[m] = strings.TrimPrefix(text, "v"), v
		}
	}
	return out
}
