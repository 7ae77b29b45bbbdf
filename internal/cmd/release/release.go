package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// allPlatforms are those of a release.
var allPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// release is what to make.
type release struct {
	Root, Out, Version string
	Platforms          []string
	Time               time.Time
	Log                io.Writer
}

// binary is the program for a platform.
type binary struct {
	OS, Arch, Path string
}

// name is that of the program's file.
func (b binary) name() string {
	if b.OS == "windows" {
		return "nodetrail.exe"
	}
	return "nodetrail"
}

// file is a file in an archive, a package or an image.
type file struct {
	name string
	mode int64
	data []byte
	link string // of a symbolic link
	dir  bool
	user int // who owns it
}

var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// Run makes everything.
func (r *release) Run() error {
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("%q is no version such as 1.2.3 or 1.2.3-rc.1", r.Version)
	}
	if entries, err := os.ReadDir(r.Out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s has files: remove it first", r.Out)
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var linux []binary
	for _, platform := range r.Platforms {
		if !slices.Contains(allPlatforms, platform) {
			return fmt.Errorf("%q is none of %s", platform, strings.Join(allPlatforms, ", "))
		}
		b, err := r.build(work, platform)
		if err != nil {
			return err
		}
		steps := []func(binary) error{r.archive, r.sbom}
		if b.OS == "linux" {
			linux = append(linux, b)
			steps = append(steps, r.packages)
		}
		for _, step := range steps {
			if err := step(b); err != nil {
				return fmt.Errorf("%s: %w", platform, err)
			}
		}
	}
	if len(linux) > 0 {
		if err := r.image(linux); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return errors.Join(r.krew(), r.checksums())
}

// build compiles the program. -trimpath, no version control stamp and no build ID: the folder and the machine leave no trace.
func (r *release) build(work, platform string) (binary, error) {
	start := time.Now()
	system, arch, _ := strings.Cut(platform, "/")
	b := binary{OS: system, Arch: arch}
	b.Path = filepath.Join(work, system+"_"+arch, b.name())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+r.Version, "-o", b.Path, "./cmd/nodetrail")
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return b, fmt.Errorf("building for %s: %w\n%s", platform, err, out)
	}
	fmt.Fprintf(r.Log, "built %s in %s\n", platform, time.Since(start).Round(time.Second))
	return b, nil
}

// name is that of a file of the release.
func (r *release) name(b binary, ending string) string {
	return filepath.Join(r.Out, fmt.Sprintf("nodetrail_%s_%s_%s%s", r.Version, b.OS, b.Arch, ending))
}

// documents are what archives have besides the program.
func (r *release) documents(names ...string) (out []file, err error) {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(r.Root, name))
		if err != nil {
			return nil, err
		}
		f := file{name: filepath.Base(name), mode: 0o644, data: data}
		if bytes.HasPrefix(data, []byte("#!")) {
			f.mode = 0o755
		}
		out = append(out, f)
	}
	return out, nil
}

const completer = "deploy/krew/kubectl_complete-nodetrail"

// archive is what people download, and krew.
func (r *release) archive(b binary) error {
	files, err := r.documents("LICENSE", "README.md", "CHANGELOG.md", completer)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(b.Path)
	if err != nil {
		return err
	}
	files = append([]file{{name: b.name(), mode: 0o755, data: program}}, files...)
	if b.OS == "windows" {
		return writeFile(r.name(b, ".zip"), func(w io.Writer) error { return writeZip(w, files, r.Time) })
	}
	return writeFile(r.name(b, ".tar.gz"), func(w io.Writer) error { return writeTarGz(w, files, r.Time) })
}

// checksums are of all files, in the form that sha256sum -c reads.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.Out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.Out, "checksums.txt"), out.Bytes(), 0o644)
}

func sumOf(name string) (string, error) {
	data, err := os.ReadFile(name)
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
