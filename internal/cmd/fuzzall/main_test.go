package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseList(t *testing.T) {
	const out = `{"Action":"start","Package":"example.com/a"}
{"Action":"output","Package":"example.com/a","Output":"FuzzDecode\n"}
{"Action":"output","Package":"example.com/a","Output":"FuzzSkip\n"}
{"Action":"output","Package":"example.com/a","Output":"ok  \texample.com/a\t0.004s\n"}
{"Action":"output","Package":"example.com/b","Output":"?   \texample.com/b\t[no test files]\n"}
{"Action":"skip","Package":"example.com/b"}
`
	f := func(pattern string, want []target) {
		t.Helper()
		got, err := parseList(strings.NewReader(out), regexp.MustCompile(pattern))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
			t.Errorf("targets (-want +got):\n%s", diff)
		}
	}
	f(".", []target{{"example.com/a", "FuzzDecode"}, {"example.com/a", "FuzzSkip"}})
	f("Skip$", []target{{"example.com/a", "FuzzSkip"}})
	f("Other", nil)

	if _, err := parseList(strings.NewReader("not JSON"), regexp.MustCompile(".")); err == nil {
		t.Error("no error for output that is not JSON")
	}
}

func TestLastProgress(t *testing.T) {
	f := func(out string, want progress) {
		t.Helper()
		if got := lastProgress(out); got != want {
			t.Errorf("progress = %v, want %v", got, want)
		}
	}
	f("", progress{})
	f("fuzz: elapsed: 0s, gathering baseline coverage: 0/1 completed\n", progress{})
	f("fuzz: elapsed: 3s, execs: 102 (34/sec), new interesting: 0 (total: 1)\n"+
		"fuzz: elapsed: 10m0s, execs: 5120 (80/sec), new interesting: 2 (total: 3)\nPASS\n", progress{10 * time.Minute, 5120})
	f("fuzz: elapsed: 3s, execs: 99999999999999999999 (34/sec), new interesting: 0 (total: 1)\n", progress{})
}

func TestWriteTable(t *testing.T) {
	var out strings.Builder
	results := []result{
		{target: target{"example.com/a", "FuzzDecode"}, progress: progress{61 * time.Second, 5}},
		{target: target{"example.com/a", "FuzzSkip"}, progress: progress{time.Second, 1}, err: errors.New("exit status 1")},
	}
	if err := writeTable(&out, results, 4); err != nil {
		t.Fatal(err)
	}
	const want = `
target      package        fuzzed  executions  result
FuzzDecode  example.com/a  1m1s    5           nothing found
FuzzSkip    example.com/a  1s      1           FAILED
2 more not run
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
