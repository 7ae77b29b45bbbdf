package alerts

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// work holds all that the tests start.
var work *plane.Work

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// get asks for JSON.
func get(address, path string, to any) error {
	resp, err := client().Get("http://" + address + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %.200s %w", path, resp.StatusCode, b, err)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(b, to)
}

func client() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

func ready(t *testing.T, p *plane.Process, address, path string) {
	t.Helper()
	work.MustEventually(t, p.Name+" is ready", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return get(address, path, nil)
	})
}
