package confined

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// work holds all that the tests start.
var work *plane.Work

// The nodes' addresses, and those of others.
const (
	thiefAddress    = "10.80.0.99"
	strangerAddress = "10.80.0.66"
)

func addresses() map[string]string {
	return map[string]string{
		"node-1": "10.80.0.11", "node-2": "10.80.0.12", "node-3": "10.80.0.13",
		"thief": thiefAddress, "stranger": strangerAddress,
	}
}

func TestMain(m *testing.M) {
	if err := enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

// enter builds what needs a network to be built, and continues in one that leads nowhere.
func enter() error {
	if _, err := plane.Build(context.Background()); err != nil {
		return err
	}
	root, err := plane.Root()
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", os.DevNull, "./cmd/nodetrail")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building nodetrail: %w\n%s", err, out)
	}
	return plane.OwnNetwork(addresses())
}
