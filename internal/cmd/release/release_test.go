package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/blakesmith/ar"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sassoftware/go-rpmutils"
	"go.yaml.in/yaml/v3"
)

const (
	root    = "../../.."
	version = "0.0.0-test.1"
)

// made makes a release of linux/amd64 from the sources in a folder.
func made(t *testing.T, sources, version string) string {
	t.Helper()
	out := t.TempDir()
	r := release{Root: sources, Out: out, Version: version, Platforms: []string{"linux/amd64"}, Time: time.Unix(1_700_000_000, 0).UTC(), Log: io.Discard}
	if err := r.Run(); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// copied is the tree in another folder, with other times.
func copied(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), read(t, root, name), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// What is made runs, is complete, and is the same from another folder at another time.
func TestRelease(t *testing.T) {
	out := made(t, root, version)
	sums := read(t, out, "checksums.txt")
	if d := cmp.Diff(string(sums), string(read(t, made(t, copied(t), version), "checksums.txt"))); d != "" {
		t.Errorf("not reproducible:\n%s", d)
	}
	t.Run("checksums", func(t *testing.T) { checksums(t, out, string(sums)) })
	t.Run("archive", func(t *testing.T) { archive(t, out) })
	t.Run("deb", func(t *testing.T) { deb(t, out) })
	t.Run("rpm", func(t *testing.T) { rpm(t, out) })
	t.Run("image", func(t *testing.T) { image(t, out) })
	t.Run("sbom", func(t *testing.T) { sbom(t, out) })
	t.Run("krew", func(t *testing.T) { krew(t, out) })
}

func checksums(t *testing.T, out, sums string) {
	names := []string{"checksums.txt"}
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := digest.FromBytes(read(t, out, name)).Encoded(); got != sum {
			t.Errorf("%s: %s, the list says %s", name, got, sum)
		}
		names = append(names, name)
	}
	files, err := os.ReadDir(out)
	if err != nil || len(files) != len(names) || len(names) != 7 {
		t.Errorf("%d files, the list has %q, %v", len(files), names, err)
	}
}

// runs runs what was unpacked, without any environment.
func runs(t *testing.T, program, want string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + filepath.Dir(program)}
	if got, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(got), want) {
		t.Errorf("%s %q: %v\n%s\nwant %q", filepath.Base(program), args, err, got, want)
	}
}

const says = "nodetrail " + version + "\n"

// unpack writes the entries of a tar file, and returns them by name.
func unpack(t *testing.T, r io.Reader, to string) map[string]*tar.Header {
	t.Helper()
	out := map[string]*tar.Header{}
	for entries := tar.NewReader(r); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(h.Name)
		if !filepath.IsLocal(name) || out[name] != nil {
			t.Fatalf("the entry %s", h.Name)
		}
		out[name] = h
		if !h.ModTime.Equal(time.Unix(1_700_000_000, 0)) || h.Uname != "" && h.Uname != "root" {
			t.Errorf("%s: of %s, %q", h.Name, h.ModTime, h.Uname)
		}
		path := filepath.Join(to, name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			err = os.MkdirAll(filepath.Dir(path), 0o755)
			data, readErr := io.ReadAll(entries)
			err = errors.Join(err, readErr, os.WriteFile(path, data, h.FileInfo().Mode().Perm()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func archive(t *testing.T, out string) {
	to := t.TempDir()
	files := unpack(t, bytes.NewReader(gunzip(t, read(t, out, "nodetrail_"+version+"_linux_amd64.tar.gz"))), to)
	if len(files) != 5 || files["LICENSE"] == nil {
		t.Errorf("%d files", len(files))
	}
	runs(t, filepath.Join(to, "nodetrail"), says, "version")
	if err := os.Symlink("nodetrail", filepath.Join(to, "kubectl-nodetrail")); err != nil {
		t.Fatal(err)
	}
	runs(t, filepath.Join(to, "kubectl_complete-nodetrail"), "analyze\t", "anal")
}

// installed checks what a package puts into a system.
func installed(t *testing.T, to string) {
	bin := filepath.Join(to, "usr", "bin")
	runs(t, filepath.Join(bin, "nodetrail"), says, "version")
	runs(t, filepath.Join(bin, "kubectl-nodetrail"), "kubectl nodetrail [command]", "--help")
	runs(t, filepath.Join(bin, "kubectl_complete-nodetrail"), "analyze\t", "anal")
	if !bytes.Equal(read(t, to, "usr", "share", "doc", "nodetrail", "copyright"), read(t, root, "LICENSE")) {
		t.Error("the licence is another one")
	}
}

func deb(t *testing.T, out string) {
	var control, to = t.TempDir(), t.TempDir()
	for entries := ar.NewReader(bytes.NewReader(read(t, out, "nodetrail_"+version+"_linux_amd64.deb"))); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		switch strings.TrimSuffix(h.Name, "/") {
		case "control.tar.gz":
			unpack(t, bytes.NewReader(gunzip(t, data)), control)
		case "data.tar.gz":
			unpack(t, bytes.NewReader(gunzip(t, data)), to)
		}
	}
	text := string(read(t, control, "control"))
	for _, line := range []string{"Package: nodetrail\n", "Version: 0.0.0~test.1\n", "Architecture: amd64\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	installed(t, to)
}

func rpm(t *testing.T, out string) {
	p, err := rpmutils.ReadRpm(bytes.NewReader(read(t, out, "nodetrail_"+version+"_linux_amd64.rpm")))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Header.GetNEVRA(); err != nil || n.Name != "nodetrail" || n.Version != "0.0.0~test.1" || n.Arch != "x86_64" {
		t.Errorf("%v, %v", n, err)
	}
	to := t.TempDir()
	if err := p.ExpandPayload(to); err != nil {
		t.Fatal(err)
	}
	files, err := p.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // the library writes files without their modes
		if f.Linkname() != "" {
			continue
		}
		if err := os.Chmod(filepath.Join(to, f.Name()), fs.FileMode(f.Mode())&fs.ModePerm); err != nil {
			t.Error(err)
		}
	}
	installed(t, to)
}

func image(t *testing.T, out string) {
	layout := t.TempDir()
	for name := range unpack(t, bytes.NewReader(read(t, out, "nodetrail_"+version+"_image.tar")), layout) {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest.FromBytes(read(t, layout, name)).Encoded() != sum {
			t.Errorf("%s has another digest", name)
		}
	}
	blob := func(d v1.Descriptor, mediaType string) []byte {
		data := read(t, layout, "blobs", "sha256", d.Digest.Encoded())
		if d.MediaType != mediaType || d.Size != int64(len(data)) {
			t.Errorf("%v: %d bytes, want %s", d, len(data), mediaType)
		}
		return data
	}
	parse := func(data []byte, into any) {
		t.Helper()
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var version v1.ImageLayout
	var top, index v1.Index
	var manifest v1.Manifest
	var config v1.Image
	parse(read(t, layout, "oci-layout"), &version)
	parse(read(t, layout, "index.json"), &top)
	parse(blob(top.Manifests[0], v1.MediaTypeImageIndex), &index)
	parse(blob(index.Manifests[0], v1.MediaTypeImageManifest), &manifest)
	parse(blob(manifest.Config, v1.MediaTypeImageConfig), &config)
	plain := gunzip(t, blob(manifest.Layers[0], v1.MediaTypeImageLayerGzip))
	if version.Version != "1.0.0" || len(top.Manifests) != 1 || len(index.Manifests) != 1 || len(manifest.Layers) != 1 || config.RootFS.DiffIDs[0] != digest.FromBytes(plain) {
		t.Errorf("%v, %v, %v, %v", version, top, index, manifest)
	}
	if p := index.Manifests[0].Platform; p.OS != "linux" || p.Architecture != "amd64" || config.Architecture != "amd64" {
		t.Errorf("%v, %v", p, config.Platform)
	}
	// The manifests run it as this user, with the configuration's data folder there.
	if config.Config.User != "65532:65532" || !cmp.Equal(config.Config.Entrypoint, []string{"/nodetrail"}) {
		t.Errorf("%v", config.Config)
	}
	to := t.TempDir()
	files := unpack(t, bytes.NewReader(plain), to)
	if d := files["var/lib/nodetrail"]; d == nil || d.Uid != user || d.Gid != user {
		t.Errorf("%v", d)
	}
	if n := bytes.Count(read(t, to, "etc/ssl/certs/ca-certificates.crt"), []byte("BEGIN CERTIFICATE")); n < 80 {
		t.Errorf("%d certificate authorities", n)
	}
	runs(t, filepath.Join(to, "nodetrail"), says, "version")
	// Nothing else is in the image: the program must need no loader and no library.
	program, err := elf.Open(filepath.Join(to, "nodetrail"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader")
		}
	}
}

// The SBOM has each module that a package of the program is from.
func sbom(t *testing.T, out string) {
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, out, "nodetrail_"+version+"_linux_amd64.sbom.json")), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}pkg:golang/{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/nodetrail")
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]bool{}, map[string]bool{}
	for line := range strings.FieldsSeq(string(text)) {
		want[line] = true
	}
	for _, c := range *bom.Components {
		if c.Name != "std" {
			got[c.PackageURL] = true
		}
	}
	if d := cmp.Diff(want, got); d != "" || len(want) < 30 {
		t.Errorf("(-modules +SBOM):\n%s", d)
	}
	if c := bom.Metadata.Component; c.Version != "v"+version {
		t.Errorf("%v", c)
	}
}

func krew(t *testing.T, out string) {
	var plugin struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name string }
		Spec       struct {
			Version, Homepage, ShortDescription, Description, Caveats string `yaml:",omitempty"`
			Platforms                                                 []struct {
				Selector struct {
					MatchLabels map[string]string `yaml:"matchLabels"`
				}
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(bytes.ReplaceAll(read(t, out, "nodetrail.krew.yaml"), []byte("shortDescription:"), []byte("shortdescription:"))))
	d.KnownFields(true)
	if err := d.Decode(&plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.Kind != "Plugin" || plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Metadata.Name != "nodetrail" || plugin.Spec.Version != "v"+version ||
		len(plugin.Spec.Platforms) != 1 || len(plugin.Spec.ShortDescription) > 50 {
		t.Fatalf("%+v", plugin)
	}
	p := plugin.Spec.Platforms[0]
	data := read(t, out, filepath.Base(p.URI))
	if p.SHA256 != digest.FromBytes(data).Encoded() || !cmp.Equal(p.Selector.MatchLabels, map[string]string{"os": "linux", "arch": "amd64"}) ||
		p.URI != fmt.Sprintf("https://github.com/nodetrail/nodetrail/releases/download/v%s/%s", version, filepath.Base(p.URI)) {
		t.Errorf("%+v", p)
	}
	files, bin := unpack(t, bytes.NewReader(gunzip(t, data)), t.TempDir()), false
	for _, f := range p.Files {
		if files[f.From] == nil {
			t.Errorf("%s is not in the archive", f.From)
		}
		bin = bin || f.From == p.Bin
	}
	if !bin {
		t.Errorf("%s is not installed", p.Bin)
	}
}

// Another version is in the program, so that its checksum is another one: the comparison above can fail.
func TestVersionIsInTheProgram(t *testing.T) {
	out := t.TempDir()
	r := release{Root: root, Version: "9.9.9", Log: io.Discard}
	b, err := r.build(out, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	runs(t, b.Path, "nodetrail 9.9.9\n", "version")
}

func TestZip(t *testing.T) {
	var b bytes.Buffer
	if err := writeZip(&b, []file{{name: "nodetrail.exe", mode: 0o755, data: []byte("program")}, {name: "LICENSE", mode: 0o644, data: []byte("text")}}, time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(z.File) != 2 {
		t.Fatalf("%v, %v", z, err)
	}
	f, err := z.Open("nodetrail.exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != "program" || z.File[0].Mode().Perm() != 0o755 || !z.File[0].Modified.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("%q, %v, %v", data, err, z.File[0])
	}
}

func TestRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "nodetrail_1.0.0_linux_amd64.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		r    release
		want string
	}{
		{release{Out: t.TempDir(), Version: "v1.0.0"}, `"v1.0.0" is no version such as 1.2.3 or 1.2.3-rc.1`},
		{release{Out: t.TempDir(), Version: "1.0.0 -X main.version=2"}, `is no version`},
		{release{Out: full, Version: "1.0.0"}, `has files: remove it first`},
		{release{Out: t.TempDir(), Version: "1.0.0", Platforms: []string{"plan9/amd64"}}, `"plan9/amd64" is none of linux/amd64, `},
	} {
		test.r.Root, test.r.Log = root, io.Discard
		if err := test.r.Run(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v", test.r.Version, err)
		}
	}
}
