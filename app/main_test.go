package app

import (
	"os"
	"testing"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// TestMain makes whatever keeps an alias to an event after its turn hold nonsense, so that a test of what it keeps fails.
func TestMain(m *testing.M) {
	source.Overwriting = true
	os.Exit(m.Run())
}
