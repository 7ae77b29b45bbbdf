package port

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain is a second process of TestNoPortTwice as well.
func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv("NODETRAIL_TEST_PORTS"))
	if err != nil {
		os.Exit(m.Run())
	}
	for range n {
		p, err := Take()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p)
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the claims last until the other process has made its own
}

// TestNoPortTwice has two processes take so many ports that chance alone would give some of them twice.
func TestNoPortTwice(t *testing.T) {
	const each = 400
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "NODETRAIL_TEST_PORTS="+strconv.Itoa(each))
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	note := func(p int) {
		if seen[p] {
			t.Errorf("port %d was given twice", p)
		}
		seen[p] = true
	}
	for range each {
		p, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		note(p)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < each && lines.Scan(); n++ {
		p, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		note(p)
	}
	if len(seen) != 2*each {
		t.Errorf("%d ports, want %d", len(seen), 2*each)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// TestListenedOn claims no port that a program listens on, and gives back the claim.
func TestListenedOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := l.Addr().(*net.TCPAddr).Port
	if claim(n) {
		t.Errorf("port %d is claimed, and something listens there", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !claim(n) {
		t.Errorf("port %d is not claimed, and nothing listens there", n)
	}
	if claim(n) {
		t.Errorf("port %d is claimed twice", n)
	}
}
