package app

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/pgtest"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// postgres is the server that tests share, each with a schema of its own.
var postgres pgtest.Holder

// TestMain makes whatever keeps an alias to an event after its turn hold nonsense, so that a test of what it keeps fails. No test waits long
// for the next look at the checks.
func TestMain(m *testing.M) {
	source.Overwriting = true
	proveEvery, freshProofs, keepProofs, stateShare = 200*time.Millisecond, 200*time.Millisecond, 4, 10
	code := m.Run()
	if err := postgres.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
