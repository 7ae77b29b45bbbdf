package dashboards

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// work holds all that the tests start.
var work *plane.Work

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
