package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/store"
)

// Health returns nil if a URL, such as that of /readyz, answers 200, and an error that says what it answered if not. Of a path it looks whether a
// file is there that is not empty.
func Health(ctx context.Context, target string) error {
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		info, err := os.Stat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist) && strings.Contains(target, ":"):
			return fmt.Errorf("%s is no file: a URL begins with http:// or https://", target)
		case err != nil:
			return fmt.Errorf("cannot look at %w", PathError(target, err))
		case !info.Mode().IsRegular() || info.Size() == 0:
			return fmt.Errorf("%s is empty, or no file", target)
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return fmt.Errorf("%q is not a URL: %w", target, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%s does not answer: %w", target, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // for the message alone
		return fmt.Errorf("%s answered %s: %s", target, res.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

// ConfigCheck reads a configuration file as Run and Gateway do, environment variables included. Its error names the line and the key of each
// thing that is wrong; otherwise it returns a line that says that the file is good, and whether Run needs Logs with it. Nothing is connected to, and files
// that it names are not opened.
func ConfigCheck(path string) (good string, err error) {
	c, err := config.LoadChecked(path, os.LookupEnv, config.Checks{DSN: store.CheckDSN})
	if err != nil {
		return "", err
	}
	good = path + " is good"
	if c.Gateway == nil && !hasSource(c) {
		good += "; it has no source, so run needs an AUDIT_LOG"
	}
	if assumed := assumedOf(c); assumed != "" {
		good += "; authorization.kubernetesVersion: " + assumed
	}
	return good, nil
}

// assumedOf says what is assumed of the version that is configured, as [Authorization.Assumed] does.
func assumedOf(c *config.Config) string {
	return (&Authorization{KubernetesVersion: c.Authorization.KubernetesVersion}).Assumed()
}

// ConfigDefaults is a configuration file with every key, its default and what it means.
func ConfigDefaults() string { return config.DefaultYAML() }
