package plane

import (
	"os/exec"
	"testing"
)

// MustStart starts a program that ends with the test, or ends the test.
func (w *Work) MustStart(t testing.TB, name, path string, args ...string) *Process {
	t.Helper()
	p, err := w.Start(name, path, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// MustEventually asks until there is no error, or ends the test.
func (w *Work) MustEventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	if err := Eventually(w.ctx, what, ok); err != nil {
		t.Fatal(err)
	}
}

// MustAddress is [FreeAddress], or ends the test.
func MustAddress(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
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
