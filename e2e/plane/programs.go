package plane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Programs are the paths of the programs of a control plane.
type Programs struct {
	dir string
	// Kubernetes and Etcd are their versions, such as v1.36.3.
	Kubernetes, Etcd string
}

// Minor is the 36 of Kubernetes 1.36.
func (p *Programs) Minor() int {
	_, rest, _ := strings.Cut(p.Kubernetes, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(minor) // the version is a module's
	return n
}

func (p *Programs) path(name string) string { return filepath.Join(p.dir, name) }

// Help is what a program prints with --help.
func (p *Programs) Help(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, p.path(name), "--help").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its help: %w", name, err)
	}
	return string(out), nil
}

// MinorEnv names the variable with the minor of Kubernetes that [Build] builds, such as 1.35; without it that is the newest. Those that there are have
// module files e2e/kube/go.MINOR.mod.
const MinorEnv = "NODETRAIL_E2E_KUBERNETES"

// Root is the folder of the repository, found from the working folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "kube", "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("looking for the repository: the working folder is not in it")
}

// Build builds the programs, unless they are there already: in .cache/e2e, a folder for each set of sources and compiler.
func Build(ctx context.Context) (*Programs, error) {
	return build(ctx, os.Getenv(MinorEnv), "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kube-scheduler", "./hollow", etcd)
}

// BuildAPIServer builds kube-apiserver of a minor, such as 1.36, and nothing else.
func BuildAPIServer(ctx context.Context, minor string) (*Programs, error) {
	return build(ctx, minor, "k8s.io/kubernetes/cmd/kube-apiserver")
}

// etcd is the only program that is not of Kubernetes' module.
const etcd = "go.etcd.io/etcd/server/v3"

func build(ctx context.Context, minor string, packages ...string) (*Programs, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	etcdDir := filepath.Join(root, "e2e", "etcd")
	kube, err := kubeOf(filepath.Join(root, "e2e", "kube"), minor)
	if err != nil {
		return nil, err
	}
	p := &Programs{}
	if p.Kubernetes, err = versionOf(ctx, kube.dir, "k8s.io/kubernetes", "-modfile="+kube.modFile); err != nil {
		return nil, err
	}
	if p.Etcd, err = versionOf(ctx, etcdDir, etcd); err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join(kube.dir, "hollow", "*.go"))
	if err != nil {
		return nil, fmt.Errorf("looking for sources: %w", err)
	}
	h := sha256.New()
	for _, file := range append(sources, kube.modFile, strings.TrimSuffix(kube.modFile, ".mod")+".sum", etcdDir+"/go.mod", etcdDir+"/go.sum") {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("looking for sources: %w", err)
		}
		h.Write(b)
	}
	h.Write([]byte(strings.Join(slices.Concat(stamps(), packages, []string{runtime.Version()}), " ")))
	cache := filepath.Join(root, ".cache", "e2e")
	p.dir = filepath.Join(cache, hex.EncodeToString(h.Sum(nil)[:8]))
	if _, err := os.Stat(p.dir); err == nil { // whatever else is being built
		return p, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of programs: %w", err)
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(p.dir); err == nil {
		return p, nil
	}
	fresh, err := os.MkdirTemp(cache, "fresh.")
	if err != nil {
		return nil, fmt.Errorf("making the folder of programs: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := p.build(ctx, kube, etcdDir, fresh, packages); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, p.dir); err != nil {
		return nil, fmt.Errorf("keeping the programs: %w", err)
	}
	return p, nil
}

// kubeModule is that of Kubernetes' programs, in one of its versions.
type kubeModule struct {
	dir, modFile string
	// tag says to hollow which minor it is built with.
	tag string
}

func kubeOf(dir, minor string) (kubeModule, error) {
	if minor == "" {
		return kubeModule{dir: dir, modFile: filepath.Join(dir, "go.mod")}, nil
	}
	k := kubeModule{dir: dir, modFile: filepath.Join(dir, "go."+minor+".mod"), tag: "k8s" + strings.Replace(minor, ".", "_", 1)}
	if _, err := os.Stat(k.modFile); err != nil {
		return kubeModule{}, fmt.Errorf("looking for the module file of %s=%s: %w", MinorEnv, minor, err)
	}
	return k, nil
}

// stamps are the packages whose version Kubernetes' own build sets: what programs say of themselves, and their user agents.
func stamps() []string {
	return []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"}
}

// withoutDebug has the compiler leave out what only a debugger reads, as -s and -w have the linker do. That is a tenth of the time.
const withoutDebug = "-gcflags=all=-dwarf=false"

func (p *Programs) build(ctx context.Context, kube kubeModule, etcdDir, to string, packages []string) error {
	parts := strings.Split(strings.TrimPrefix(p.Kubernetes, "v"), ".")
	ldflags := "-s -w"
	for _, stamped := range stamps() {
		stamp := "-X " + stamped + "."
		ldflags += fmt.Sprintf(" %sgitVersion=%s %sgitMajor=%s %sgitMinor=%s", stamp, p.Kubernetes, stamp, parts[0], stamp, parts[1])
	}
	if n := len(packages) - 1; packages[n] == etcd {
		if _, err := command(ctx, etcdDir, "go", "build", "-trimpath", withoutDebug, "-ldflags", "-s -w", "-o", filepath.Join(to, "etcd"), etcd); err != nil {
			return err
		}
		packages = packages[:n]
	}
	_, err := command(ctx, kube.dir, "go", append([]string{"build", "-modfile=" + kube.modFile, "-tags=" + kube.tag, "-trimpath", withoutDebug, "-ldflags", ldflags, "-o", to + "/"}, packages...)...)
	return err
}

func versionOf(ctx context.Context, dir, module string, flags ...string) (string, error) {
	out, err := command(ctx, dir, "go", append(append([]string{"list", "-m", "-f", "{{.Version}}"}, flags...), module)...)
	return strings.TrimSpace(string(out)), err
}

// command runs a program of the Go distribution in a folder.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), nil
}

// lock waits until no other process builds.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the folder of programs: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the folder of programs: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
