package pipeline

import (
	"os"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// work holds all that the tests start.
var work *plane.Work

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value, or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}
