package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// root is the repository, seen from here.
const root = "../.."

// program is nodetrail, built once for all tests.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "nodetrail-compose")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		program = filepath.Join(dir, "nodetrail")
		build := exec.Command("go", "build", "-o", program, "./cmd/nodetrail")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building nodetrail: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// load reads docker-compose.yml as docker compose does, with the variables of an empty environment.
func load(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithWorkingDirectory(root), cli.WithEnv(nil), cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestServices(t *testing.T) {
	p := load(t)
	if got, want := slices.Sorted(mapsKeys(p.Services)), []string{"alertmanager", "grafana", "kafka", "nodetrail", "player", "prometheus", "topic"}; !slices.Equal(got, want) {
		t.Fatalf("services %q, want %q", got, want)
	}
	pinned := regexp.MustCompile(`^[a-z0-9./-]+:v?[0-9]+\.[0-9]+\.[0-9]+$`)
	for name, s := range p.Services {
		switch {
		case s.Build != nil:
			if strings.HasSuffix(s.Image, ":latest") || !strings.Contains(s.Image, ":") {
				t.Errorf("%s: the image that is built is called %q", name, s.Image)
			}
		case !pinned.MatchString(s.Image):
			t.Errorf("%s: the image %q is not pinned to a version", name, s.Image)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published on %q", name, port.Published, port.HostIP)
			}
		}
		if s.MemLimit <= 0 || s.Privileged || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || !slices.Contains(s.CapDrop, "ALL") || s.User == "root" {
			t.Errorf("%s: memory %d, privileged %t, security %q, capabilities dropped %q, user %q", name, s.MemLimit, s.Privileged, s.SecurityOpt, s.CapDrop, s.User)
		}
		if !s.ReadOnly && name != "kafka" { // its start writes a configuration
			t.Errorf("%s: its root file system can be written to", name)
		}
		for variable := range s.Environment {
			if regexp.MustCompile(`PASSWORD|TOKEN|SECRET_`).MatchString(variable) {
				t.Errorf("%s: a secret in %s", name, variable)
			}
		}
		checked := s.HealthCheck != nil && !s.HealthCheck.Disable && len(s.HealthCheck.Test) > 0
		if name == "topic" { // it ends, and others wait for that
			if checked || p.Services["player"].DependsOn["topic"].Condition != types.ServiceConditionCompletedSuccessfully {
				t.Errorf("topic: a health check %t, or nobody waits for its end", checked)
			}
		} else if !checked {
			t.Errorf("%s: no health check", name)
		}
	}
	for variable, want := range map[string]string{
		"GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer", "GF_AUTH_BASIC_ENABLED": "false", "GF_AUTH_DISABLE_LOGIN_FORM": "true",
		"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
	} {
		if got := p.Services["grafana"].Environment[variable]; got == nil || *got != want {
			t.Errorf("grafana: %s is %v, want %q: nobody may log in with a password that all know", variable, got, want)
		}
	}
}

func mapsKeys(m types.Services) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

// TestMounts: what is mounted from the repository is in it, and cannot be written to.
func TestMounts(t *testing.T) {
	p := load(t)
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeVolume:
				if _, ok := p.Volumes[v.Source]; !ok || v.Source == "" {
					t.Errorf("%s: the volume %q has no name", name, v.Source)
				}
			case types.VolumeTypeBind:
				n++
				rel, err := filepath.Rel(abs, v.Source)
				if err != nil || !filepath.IsLocal(rel) {
					t.Errorf("%s: %s is not in the repository", name, v.Source)
				}
				if !v.ReadOnly {
					t.Errorf("%s: %s can be written to", name, rel)
				}
				info, err := os.Stat(v.Source)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if entries, err := os.ReadDir(v.Source); info.IsDir() && (err != nil || len(entries) == 0) {
					t.Errorf("%s: the folder %s is empty: %v", name, rel, err)
				}
			default:
				t.Errorf("%s: a mount of type %s", name, v.Type)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d mounts of files", n)
	}
}

// inRepository is the file of the repository that a container sees at path.
func inRepository(t *testing.T, s types.ServiceConfig, path string) string {
	t.Helper()
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if rel, err := filepath.Rel(v.Target, path); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(v.Source, rel)
		}
	}
	t.Fatalf("%s: %s is not mounted", s.Name, path)
	return ""
}

// nodetrail runs the program, which must succeed.
func nodetrail(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("nodetrail %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestCommands: the program takes the flags and the configuration that its containers give it.
func TestCommands(t *testing.T) {
	p := load(t)
	for _, name := range []string{"player", "nodetrail"} {
		s := p.Services[name]
		nodetrail(t, append(slices.Clone(s.Command), "--help")...) // --help is looked at when all else is understood
		if s.HealthCheck.Test[0] != "CMD" || s.HealthCheck.Test[1] != "/nodetrail" {
			t.Errorf("%s: the image has no program for %q", name, s.HealthCheck.Test)
			continue
		}
		nodetrail(t, append(slices.Clone(s.HealthCheck.Test[2:]), "--help")...)
	}
	run := p.Services["nodetrail"]
	nodetrail(t, "config", "check", "--config", inRepository(t, run, flag(t, run.Command, "--config")))
	play := p.Services["player"]
	if journal := flag(t, play.Command, "--journal"); play.HealthCheck.Test[3] != journal {
		t.Errorf("the journal is %s, and the health check looks for %s", journal, play.HealthCheck.Test[3])
	}
}

// flag is the value of a flag in a command.
func flag(t *testing.T, command []string, name string) string {
	t.Helper()
	for i, arg := range command {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
		if arg == name && i+1 < len(command) {
			return command[i+1]
		}
	}
	t.Fatalf("no %s in %q", name, command)
	return ""
}

// TestDockerfile: pinned, static, without a root user, and with all that the program is made of.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1]
	if !bytes.Contains(text, append([]byte("FROM golang:"), language...)) {
		t.Errorf("it is not built with Go %s, which go.mod asks for", language)
	}
	for _, want := range []string{`CGO_ENABLED=0`, `(?m)^FROM gcr\.io/distroless/static-[a-z0-9]+:nonroot$`, `(?m)^USER [1-9]\d*:[1-9]\d*$`, `(?m)^ENTRYPOINT \["/nodetrail"\]$`} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("no %s in it", want)
		}
	}
	p := load(t)
	for _, name := range []string{"player", "nodetrail"} {
		for _, v := range p.Services[name].Volumes {
			// A folder that is not there would be made for root.
			if v.Type == types.VolumeTypeVolume && !bytes.Contains(text, []byte("--chown=65532:65532 /out/"+map[string]string{"play": "play ", "nodetrail": "data "}[v.Source]+v.Target)) {
				t.Errorf("%s: the image has no folder %s of its user's", name, v.Target)
			}
		}
	}

	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}", "./cmd/nodetrail")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(abs, strings.TrimSpace(dir))
		if err != nil {
			t.Fatal(err)
		}
		for pattern := range strings.Lines(string(ignored)) {
			pattern = strings.TrimSpace(pattern)
			if pattern != "" && !strings.HasPrefix(pattern, "#") && (rel == pattern || strings.HasPrefix(rel, pattern+"/")) {
				t.Errorf(".dockerignore leaves out %s, which the program is made of", rel)
			}
		}
	}
}

// exists is whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// until waits for what must come, however slow the machine is.
func until(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	for !done() {
		if err := waitABit(ctx); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}
