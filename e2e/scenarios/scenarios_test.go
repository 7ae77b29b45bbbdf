package scenarios

import "testing"

// TestScenarios plays scenes on one control plane, one after the other.
func TestScenarios(t *testing.T) {
	w := newWorld(t, "scenes", "Node,RBAC", "node-1", "node-2", "node-3")
	for _, scene := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"blog experiment", testBlog},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.play(t, w) })
	}
}
