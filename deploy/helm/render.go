// Package helm renders the chart in nodetrail/, for the plain manifests of deploy/ and for its own tests. It is a module of its own because Helm's
// library has more dependencies than the rest of nodetrail.
package helm

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Chart is the folder of the chart, below this module's.
const Chart = "nodetrail"

// The release and the namespace that the chart is rendered for.
const (
	Release   = "nodetrail"
	Namespace = "nodetrail"
)

// copied are the files of the chart that are copies, by folder of the chart: patterns below this module's folder.
var copied = map[string]string{
	"files/dashboards": "../../dashboards/grafana/*.json",
	"files/prometheus": "../../dashboards/prometheus/*.yaml",
}

// Copies are the files that belong into the chart's folder files, by path in the chart.
func Copies() (map[string][]byte, error) {
	out := map[string][]byte{}
	for folder, pattern := range copied {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if out[path.Join(folder, filepath.Base(name))], err = os.ReadFile(name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// CopyFiles makes the chart's folder files anew.
func CopyFiles() error {
	all, err := Copies()
	if err == nil {
		err = os.RemoveAll(filepath.Join(Chart, "files"))
	}
	for name, text := range all {
		to := filepath.Join(Chart, filepath.FromSlash(name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, 0o644)
		}
	}
	return err
}

// Values reads a values set of the chart: ci/SET-values.yaml.
func Values(set string) (map[string]any, error) {
	f, err := os.Open(filepath.Join(Chart, "ci", set+"-values.yaml"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return loader.LoadValues(f)
}

// Render does what helm template does: it returns what each template of the chart gives, by the template's name without folder and extension.
func Render(values map[string]any) (map[string]string, error) {
	chart, err := loader.LoadDir(Chart)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: Release, Namespace: Namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	out := map[string]string{}
	for name, text := range rendered {
		if base, ok := strings.CutSuffix(path.Base(name), ".yaml"); ok {
			out[base] = text
		}
	}
	return out, nil
}
