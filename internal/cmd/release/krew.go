package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// krew fills the manifest of the plugin for krew with the archives' checksums.
func (r *release) krew() error {
	text, err := os.ReadFile(filepath.Join(r.Root, "deploy", "krew", "nodetrail.yaml.tmpl"))
	if err != nil {
		return err
	}
	t, err := template.New("krew").Option("missingkey=error").Parse(string(text))
	if err != nil {
		return err
	}
	type platform struct{ OS, Arch, Archive, SHA256, Program string }
	data := struct {
		Version   string
		Platforms []platform
	}{Version: r.Version}
	for _, p := range r.Platforms {
		system, arch, _ := strings.Cut(p, "/")
		b := binary{OS: system, Arch: arch}
		archive := r.name(b, ".tar.gz")
		if system == "windows" {
			archive = r.name(b, ".zip")
		}
		sum, err := sumOf(archive)
		if err != nil {
			return fmt.Errorf("krew: %w", err)
		}
		data.Platforms = append(data.Platforms, platform{system, arch, filepath.Base(archive), sum, b.name()})
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "nodetrail.krew.yaml"), out.Bytes(), 0o644)
}
