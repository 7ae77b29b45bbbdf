package app

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// What the program uses next is advised, and nothing of it is used before.
func TestUseHugePages(t *testing.T) {
	const child = "NODETRAIL_TEST_HUGE_PAGES"
	if os.Getenv(child) == "" { // what other tests have used is cleared first
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUseHugePages$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestUseHugePages")) {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	const n = 64 << 20
	want := n * 9 / 10
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		want = 0 // the kernel was built without them
	}
	advised, resident := advisedMemory(t)
	useHugePages(n)
	advisedSince, residentSince := advisedMemory(t)
	if got := advisedSince - advised; got < want {
		t.Errorf("%d bytes are advised, want at least %d", got, want)
	}
	if got := residentSince - resident; got > n/4 {
		t.Errorf("%d bytes were used for the advice", got)
	}
}

// advisedMemory is how many bytes of this process have the advice for huge pages (VmFlags hg, proc_pid_smaps(5)), and how many of these are in memory.
func advisedMemory(t *testing.T) (size, resident int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	kB := func(part []byte, key string) int {
		m := regexp.MustCompile(`(?m)^` + key + `:\s+(\d+) kB$`).FindSubmatch(part)
		if m == nil {
			t.Fatalf("no %s in:\n%s", key, part)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n << 10
	}
	for _, end := range regexp.MustCompile(`(?m)^VmFlags:.*\n`).FindAllIndex(text, -1) {
		part := text[:end[1]]
		if i := bytes.LastIndex(text[:end[0]], []byte("VmFlags:")); i >= 0 {
			part = part[i+bytes.IndexByte(part[i:], '\n'):]
		}
		if bytes.Contains(text[end[0]:end[1]], []byte(" hg")) {
			size += kB(part, "Size")
			resident += kB(part, "Rss")
		}
	}
	return size, resident
}
