package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// patience is how long a very slow machine may take for what is waited for.
const patience = 3 * time.Minute

// eventually asks until there is no error.
func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// program builds nodetrail.
func program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nodetrail")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/nodetrail")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// server is a nodetrail that serves pages.
type server struct {
	url string // without a / at its end
	cmd *exec.Cmd
}

// start starts nodetrail, which says on a line where its pages are.
func start(t testing.TB, program string, address func(line string) string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(program, args...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd}
	found, lines := make(chan string, 1), make(chan []string, 1)
	go func() {
		var all []string
		for in := bufio.NewScanner(r); in.Scan(); {
			all = append(all, in.Text())
			if at := address(in.Text()); at != "" && s.url == "" {
				s.url = strings.TrimSuffix(at, "/")
				found <- s.url
			}
		}
		lines <- all
	}()
	t.Cleanup(func() {
		s.stop(t)
		_ = w.Close()
		if all := <-lines; t.Failed() {
			t.Logf("nodetrail %s said:\n%s", args[0], strings.Join(all, "\n"))
		}
	})
	select {
	case <-found:
	case <-time.After(patience):
		t.Fatal("nodetrail does not say where its pages are")
	}
	return s
}

func (s *server) stop(t testing.TB) {
	t.Helper()
	if s.cmd.ProcessState != nil {
		return
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stopping nodetrail: %v", err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("nodetrail ended: %v", err)
	}
}

// serve starts `nodetrail run`.
func serve(t testing.TB, program string, args ...string) *server {
	t.Helper()
	return start(t, program, func(line string) string {
		var log struct{ Message, Pages string }
		if json.Unmarshal([]byte(line), &log) != nil || log.Message != "running" {
			return ""
		}
		return log.Pages
	}, append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
}

// run starts `nodetrail run` and waits until it has read what there is, so many events.
func run(t testing.TB, program string, events int64, args ...string) *server {
	t.Helper()
	s := serve(t, program, args...)
	s.read(t, events)
	return s
}

// read waits until so many events were read and stored.
func (s *server) read(t testing.TB, events int64) {
	t.Helper()
	eventually(t, "reading the log", func() error {
		var o struct{ Events struct{ Read int64 } }
		s.json(t, "/api/v1/overview", &o)
		if o.Events.Read < events {
			return fmt.Errorf("%d of %d events are stored", o.Events.Read, events)
		}
		return nil
	})
}

// json reads an answer of the API.
func (s *server) json(t testing.TB, path string, out any) {
	t.Helper()
	b := s.get(t, path)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// get reads what is at a path.
func (s *server) get(t testing.TB, path string) []byte {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html, application/json;q=0.5")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// journal is the state of the bundled capture.
func journal() string {
	return filepath.Join(root, "internal", "demo", "capture", "journal.jsonl.gz")
}

// capture is `nodetrail run` over the bundled capture.
func capture(t testing.TB, program string) *server {
	t.Helper()
	folder := filepath.Join(root, "internal", "demo", "capture")
	in, err := os.Open(filepath.Join(folder, "audit.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, program, int64(strings.Count(string(log), "\n")), "--data", t.TempDir(), "--state", journal(), path)
}

// Hostile names are as long as a name of the cluster may be: markup that would set window.hostile, and marks that turn the direction.
const (
	attack = `<script>window.hostile=1</script><img src=x onerror="window.hostile=1">`
	turn   = "\u202egnp.\u2066\x1b[31m"
)

func hostileName(kind string, i int) string {
	what := attack
	if kind == "secret" || kind == "namespace" {
		what = strings.ReplaceAll(attack, "</script>", "") // a / would end a segment of the request's path
	}
	name := fmt.Sprintf("%s-%d-%s-%s-", kind, i, what, turn)
	return name + strings.Repeat("x", 253-len(name))
}

// crowdNodes and crowdObjects make more than 10,000 findings.
const crowdNodes, crowdObjects = 101, 100

// crowdEvents are reads of secrets, each an object and a node of its own, that a binding let through. Names are hostile in all places.
func crowdEvents(from time.Time, nodes, objects int) []byte {
	var b strings.Builder
	for n := range nodes {
		for o := range objects {
			at := from.Add(time.Duration(n*objects+o) * 100 * time.Millisecond).Format("2006-01-02T15:04:05.000000Z")
			namespace, name := hostileName("namespace", o%7), hostileName("secret", o)
			line, err := json.Marshal(map[string]any{
				"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": fmt.Sprintf("id-%d-%d-%d-%s", from.Unix(), n, o, attack), "stage": "ResponseComplete",
				"requestURI": "/api/v1/namespaces/" + url.PathEscape(namespace) + "/secrets/" + url.PathEscape(name), "verb": "get",
				"user":      map[string]any{"username": "system:node:" + hostileName("node", n), "groups": []string{"system:nodes", "system:authenticated"}},
				"sourceIPs": []string{"10.0.0.1"}, "userAgent": hostileName("agent", o%5) + "/v1",
				"objectRef":      map[string]any{"resource": "secrets", "namespace": namespace, "name": name, "apiVersion": "v1"},
				"responseStatus": map[string]any{"metadata": map[string]any{}, "code": 200}, "requestReceivedTimestamp": at, "stageTimestamp": at,
				"annotations": map[string]any{
					"authorization.k8s.io/decision": "allow",
					"authorization.k8s.io/reason":   `RBAC: allowed by ClusterRoleBinding "legacy:system:node" of ClusterRole "system:node" to Group "system:nodes"`,
				},
			})
			if err != nil {
				panic(err) // plain values can be encoded
			}
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}

// crowdStart is the time of the crowd's first request. It is one that the state of the bundled capture knows.
func crowdStart() time.Time { return time.Date(2026, 11, 21, 6, 4, 20, 0, time.UTC) }

// crowd is `nodetrail report --serve` over a store with the findings of the crowd.
func crowd(t testing.TB, program string) *server {
	t.Helper()
	path, data := filepath.Join(t.TempDir(), "audit.log"), t.TempDir()
	if err := os.WriteFile(path, crowdEvents(crowdStart(), crowdNodes, crowdObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, program, crowdNodes*crowdObjects, "--data", data, "--state", journal(), path).stop(t)
	return start(t, program, func(line string) string {
		address, ok := strings.CutPrefix(line, "pages at ")
		if !ok {
			return ""
		}
		return address
	}, "report", "--serve", "127.0.0.1:0", "--data", data, "--state", journal())
}
