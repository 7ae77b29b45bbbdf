package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// writeModFiles makes a module file for each minor: one that is newer than all others becomes go.mod and pushes the old newest into
// a file of its own.
func writeModFiles(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("give the patch versions of Kubernetes to hold against, such as 1.37.0; those of other minors stay")
	}
	versions, err := pinned(ctx)
	if err != nil {
		return err
	}
	for _, v := range args {
		m, err := minorOf(v)
		if err != nil {
			return err
		}
		versions[m] = strings.TrimPrefix(v, "v")
	}
	minors := make([]int, 0, len(versions))
	for m := range versions {
		minors = append(minors, m)
	}
	sort.Ints(minors)
	newest := minors[len(minors)-1]
	for _, m := range minors {
		file := modFileOf(m, newest)
		if err := write(ctx, file, versions[m], m == newest); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		fmt.Fprintf(stdout, "%s: Kubernetes %s\n", file, versions[m])
	}
	return nil
}

func modFileOf(minor, newest int) string {
	if minor == newest {
		return "go.mod"
	}
	return fmt.Sprintf("go.1.%d.mod", minor)
}

// minorOf returns the minor of a version of Kubernetes, which may be a pre-release, such as 1.38.0-alpha.0.
func minorOf(text string) (int, error) {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() != 1 {
		return 0, fmt.Errorf("%q is not a patch version such as 1.37.0", text)
	}
	return int(v.Minor()), nil
}

// pinned reads the versions that the module files hold now.
func pinned(ctx context.Context) (map[int]string, error) {
	out := map[int]string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("looking for module files: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, "go.") || !strings.HasSuffix(name, ".mod") {
			continue
		}
		f, err := parse(ctx, e.Name())
		if err != nil {
			return nil, err
		}
		for _, r := range f.Require {
			if r.Path == "k8s.io/kubernetes" {
				m, err := minorOf(r.Version)
				if err != nil {
					return nil, err
				}
				out[m] = strings.TrimPrefix(r.Version, "v")
			}
		}
	}
	return out, nil
}

type modFile struct {
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func parse(ctx context.Context, file string) (*modFile, error) {
	out, err := command(ctx, "go", "mod", "edit", "-json", file)
	if err != nil {
		return nil, err
	}
	var f modFile
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return &f, nil
}

// write makes one module file. k8s.io/kubernetes replaces its staging modules by folders, which a module that requires it cannot
// see: they become replacements by the published modules of the same version. nodetrail itself requires the newest of them, with
// modules to go along: for an older minor those are held at what that minor was built with.
func write(ctx context.Context, file, version string, newest bool) error {
	out, err := command(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@v"+version)
	if err != nil {
		return err
	}
	var got struct{ GoMod, Error string }
	if err := json.Unmarshal(out, &got); err != nil {
		return fmt.Errorf("downloading k8s.io/kubernetes: %w", err)
	}
	up, err := parse(ctx, got.GoMod)
	if err != nil {
		return err
	}
	if newest {
		_, err := tidy(ctx, file, moduleFile(up, version, nil), newest)
		return err
	}
	wants := map[string]string{}
	for _, r := range up.Require {
		wants[r.Path] = r.Version
	}
	held := map[string]string{}
	for {
		f, err := tidy(ctx, file, moduleFile(up, version, held), newest)
		if err != nil {
			return err
		}
		before := len(held)
		for _, r := range f.Require {
			if v := wants[r.Path]; v != "" && v != r.Version && !strings.HasPrefix(r.Path, "k8s.io/kubernetes") {
				held[r.Path] = v
			}
		}
		for _, r := range f.Replace { // a staging module is required at one version and replaced by another
			if isStaging(up, r.Old.Path) {
				delete(held, r.Old.Path)
			}
		}
		if len(held) == before {
			return nil
		}
	}
}

func isStaging(up *modFile, path string) bool {
	for _, r := range up.Replace {
		if r.Old.Path == path {
			return strings.HasPrefix(filepath.ToSlash(r.New.Path), "./staging/")
		}
	}
	return false
}

// stagingVersion is the version of a staging module to build with. The checksum database has no record of some patches: instead of one that is
// imported the newest that has one, whose packages that we import are the same.
func stagingVersion(path, version string) string {
	if path == "k8s.io/dynamic-resource-allocation" && version == "1.31.14" {
		return "1.31.4"
	}
	return version
}

func moduleFile(up *modFile, version string, held map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "module github.com/nodetrail/nodetrail/conformance\n\ngo 1.26.0\n\n")
	fmt.Fprintf(&b, "require (\n\tgithub.com/nodetrail/nodetrail v0.0.0\n\tk8s.io/kubernetes v%s\n)\n\n", version)
	fmt.Fprintf(&b, "replace github.com/nodetrail/nodetrail => ../\n\nreplace (\n")
	for _, r := range up.Replace {
		if isStaging(up, r.Old.Path) {
			fmt.Fprintf(&b, "\t%s => %s v0%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(stagingVersion(r.Old.Path, version), "1"))
		}
	}
	fmt.Fprintf(&b, ")\n")
	paths := make([]string, 0, len(held))
	for p := range held {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	if len(paths) > 0 {
		fmt.Fprintf(&b, "\nreplace (\n")
		for _, p := range paths {
			fmt.Fprintf(&b, "\t%s => %s %s\n", p, p, held[p])
		}
		fmt.Fprintf(&b, ")\n")
	}
	return b.String()
}

// tidy completes a module file. Files for other minors import what this one does not have: tidy says so and continues.
func tidy(ctx context.Context, file, content string, newest bool) (*modFile, error) {
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		return nil, err
	}
	args := []string{"mod", "tidy", "-e"}
	if !newest {
		args = append(args, "-modfile="+file)
	}
	if _, err := command(ctx, "go", args...); err != nil {
		return nil, err
	}
	return parse(ctx, file)
}

func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}
