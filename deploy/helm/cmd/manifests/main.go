// Command manifests writes the plain manifests of deploy/: the chart, rendered with its values sets. Before that it copies the dashboards and the Prometheus
// rules of the repository into the chart, which can hold no files from elsewhere.
//
//	go run ./cmd/manifests FOLDER
package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/deploy/helm"
)

// heads come before what the chart renders: how to apply the file, and the Namespace, which Helm makes itself.
//
//go:embed *.head.yaml
var heads embed.FS

// order is that in which a reader, and an API server, need the objects.
var order = []string{"rbac", "configmap", "service", "networkpolicy", "poddisruptionbudget", "workloads"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests FOLDER")
		os.Exit(2)
	}
	if err := helm.CopyFiles(); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
	for name, values := range map[string]string{"nodetrail": "single", "scale-out": "scale-out", "fleet": "fleet"} {
		text, err := manifest(name, values)
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name+".yaml"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "manifests: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func manifest(name, values string) ([]byte, error) {
	head, err := heads.ReadFile(name + ".head.yaml")
	if err != nil {
		return nil, err
	}
	set, err := helm.Values(values)
	if err != nil {
		return nil, err
	}
	// Whoever edits a plain manifest has no use for a checksum of the text before.
	set["pod"] = map[string]any{"restartOnConfigChange": false}
	rendered, err := helm.Render(set)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(head)
	for _, template := range order {
		if text := strings.TrimPrefix(strings.TrimSpace(rendered[template]), "---\n"); text != "" {
			fmt.Fprintf(out, "---\n%s\n", text)
		}
	}
	for template, text := range rendered {
		if strings.TrimSpace(text) != "" && !slices.Contains(order, template) {
			return nil, fmt.Errorf("the template %s has no place in the manifest", template)
		}
	}
	return out.Bytes(), nil
}
