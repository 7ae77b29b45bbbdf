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
