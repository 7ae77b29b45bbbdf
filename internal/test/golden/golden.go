// Package golden holds what tests make against files that were looked at once. UPDATE_GOLDEN=1 writes the files anew: review the difference.
//
// What goes in: a path and bytes. What comes out: an error of the test where they differ. It imports none of ours, and is imported by tests alone.
package golden

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Writing reports whether files are to be written anew.
func Writing() bool { return os.Getenv("UPDATE_GOLDEN") != "" }

// Check compares text with what the file holds, or writes it.
func Check(t testing.TB, path, text string) {
	t.Helper()
	if Writing() {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got, UPDATE_GOLDEN=1 writes it anew):\n%s", path, diff)
	}
}
