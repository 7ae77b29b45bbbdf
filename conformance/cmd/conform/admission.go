package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// admission holds nodeadmission against the plugin of each target, and plants errors in it. With patches the targets are those versions,
// and no error is planted.
func (c *comparison) admission(ctx context.Context, patches string) error {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if patches != "" {
		for _, v := range strings.Split(patches, ",") {
			t, err := patchTarget(ctx, dir, v)
			if err == nil {
				err = c.testAdmission(ctx, t)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	targets, err := c.targets(ctx, dir)
	if err != nil {
		return err
	}
	if err := pluginRoom.check(); err != nil { // before the long part
		return err
	}
	if c.writes > 0 {
		for _, t := range targets {
			if err := c.testAdmission(ctx, t); err != nil {
				return err
			}
		}
	}
	got, err := c.mutate(ctx, pluginRoom, targets)
	if err == nil {
		fmt.Fprintf(c.stdout, "%d of %d planted errors found\n", got.found, got.tried)
	}
	return err
}

// patchTarget writes the module file of one version.
func patchTarget(ctx context.Context, dir, version string) (target, error) {
	m, err := minorOf(version)
	if err != nil {
		return target{}, err
	}
	t := target{minor: m, version: version, modFile: filepath.Join(dir, "go."+version+".mod")}
	return t, write(ctx, t.modFile, version, false)
}

func (c *comparison) testAdmission(ctx context.Context, t target) error {
	args := append([]string{"test", "-v", "-count=1", "-vet=off", "-timeout=24h"}, t.flags()...)
	args = append(args, "./admission", "-args", "-kubernetes="+t.version, "-writes="+strconv.Itoa(c.writes), "-seed="+strconv.FormatUint(c.seed, 10))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the plugin of Kubernetes %s: %w", t.version, err)
	}
	return nil
}
