package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// Version asks the API server which version of Kubernetes it acts as, such as "1.36". It asks once, for as long as ctx lasts.
func (l *Live) Version(ctx context.Context) (string, error) {
	raw, err := l.kinds[0].rec.client.raw.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	// A vendor may add "+" to the minor, and one that is emulated is what the authorizer goes by.
	var v version.Info
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", fmt.Errorf("reading the API server's version: %w", err)
	}
	major, minor := v.Major, v.Minor
	if v.EmulationMajor != "" && v.EmulationMinor != "" {
		major, minor = v.EmulationMajor, v.EmulationMinor
	}
	minor = strings.TrimRight(minor, "+")
	if strings.Trim(cmp.Or(major, "-")+cmp.Or(minor, "-"), "0123456789") != "" {
		return "", fmt.Errorf("the API server says that its version is %q, minor %q", major, minor)
	}
	return major + "." + minor, nil
}
