package pgtest

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no PostgreSQL is started")
	}
	s, err := Start(Set("work_mem", "7MB"))
	if errors.Is(err, ErrMissing) && os.Getenv(RequireEnv) != "1" {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := s.dir
	ask := func() string {
		out, err := exec.Command(filepath.Join(s.bin, "psql"), "-Atc", "SHOW work_mem", s.DSN()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := ask(); got != "7MB" {
		t.Errorf("work_mem is %s", got)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "7MB" {
		t.Errorf("after a restart work_mem is %s", got)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.port)); err == nil {
		_ = c.Close()
		t.Error("the server still listens")
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestSharedServerThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	h := &Holder{err: ErrMissing}
	h.once.Do(func() {})
	t.Setenv(RequireEnv, "0")
	t.Run("skip", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("it was not skipped")
			}
		}()
		h.Shared(t)
	})
	if err := h.Stop(); err != nil {
		t.Error(err)
	}
}
