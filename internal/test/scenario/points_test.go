package scenario_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// points are the numbered attacks and false alarms that nodetrail has to stand. The tests of point 4 are named TestAttack04…, those of two
// points TestAttack05And07….
var points = []string{
	1: "padding", 2: "flooding", 3: "starvation without credentials", 4: "hiding in races and in ordinary answers",
	5: "a node's certificate with other groups", 6: "rights by other groups", 7: "exec, proxies and approval", 8: "refused by admission",
	9: "the credential used from elsewhere", 10: "impersonation that is not logged",
	11: "Windows", 12: "kubeadm", 13: "loopback of the control plane", 14: "agents of providers",
	15: "control characters in JSON", 16: "/metrics under a foreign host", 17: "links out of the log's folder", 18: "addresses in the configuration",
	19: "a node that no state knows", 20: "health behind idle connections", 21: "requests dated in the future",
	22: "several analyzers",
}

var pointTest = regexp.MustCompile(`^(?:Test|Fuzz)Attack(\d\d)((?:And\d\d)*)[A-Z]`)

// pointsOf are the numbers in a test's name.
func pointsOf(name string) (all []int) {
	m := pointTest.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	for _, text := range append([]string{m[1]}, strings.Split(m[2], "And")...) {
		if n, err := strconv.Atoi(text); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// testsOf are the tests of a module that are named after points. Tests of modules below it do not run with it, and do not count.
func testsOf(t *testing.T, root string) map[int][]string {
	t.Helper()
	out := map[int][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, is := decl.(*ast.FuncDecl)
			if !is || f.Recv != nil || f.Body == nil || len(f.Body.List) == 0 {
				continue
			}
			for _, n := range pointsOf(f.Name.Name) {
				out[n] = append(out[n], filepath.Base(filepath.Dir(path))+"."+f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Each point has a test that go test ./... runs, named after it.
func TestEachPointHasATest(t *testing.T) {
	found := testsOf(t, "../../..")
	for n := 1; n < len(points); n++ {
		if len(found[n]) == 0 {
			t.Errorf("point %d (%s) has no test TestAttack%02d…", n, points[n], n)
		}
		t.Log(n, points[n], found[n])
		delete(found, n)
	}
	for n, names := range found {
		t.Errorf("there is no point %d, which %v names", n, names)
	}
}

func TestPointsOf(t *testing.T) {
	for name, want := range map[string]int{"TestAttack04Races": 1, "TestAttack05And07Escalation": 2, "TestAttacks": 0, "TestAttack4Races": 0, "TestAttack04": 0} {
		if got := pointsOf(name); len(got) != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
