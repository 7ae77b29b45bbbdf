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
