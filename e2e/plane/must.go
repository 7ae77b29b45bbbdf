package plane

import (
	"os/exec"
	"testing"
)

// Check ends the test if there is an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns a function that returns the value, or ends the test if there is an error: Must(f())(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// MustStart starts a program that ends with the test, or ends the test.
func (w *Work) MustStart(t testing.TB, name, path string, args ...string) *Process {
	t.Helper()
	p, err := w.Start(name, path, args)
	Check(t, err)
	t.Cleanup(p.Kill)
	return p
}

// MustEventually asks until there is no error, or ends the test.
func (w *Work) MustEventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	Check(t, Eventually(w.ctx, what, ok))
}

// MustAddress is [FreeAddress], or ends the test.
func MustAddress(t testing.TB) string {
	t.Helper()
	return Must(FreeAddress())(t)
}

// MustFind finds a program that e2e/install.sh installs, or ends the test.
func MustFind(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: run e2e/install.sh", err)
	}
	return path
}
