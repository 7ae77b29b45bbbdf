package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// Commands of the scripts for programs that continue. Their waiting has a bound that is for what hangs, and not for what is slow.
//
//	serve NAME ARG…        starts nodetrail with the arguments; NAME.log is its standard error
//	await NAME REGEXP      waits until its standard error has a match
//	hangup NAME            sends it SIGHUP
//	finish NAME STATUS     sends it SIGTERM and waits until it ends, with the status; STATUS of -N is for one that ends by itself
//	get NAME CODE PATH DST gets a path of its operations, which answers with the code
//	post NAME CODE SRC     posts a file to its webhook, which answers with the code
//	reported N ARG…        waits until nodetrail report -o json ARG… has read N events, and leaves it in report.json
//	hold DB                holds the store so that nothing can be written to it, as a program that looks into it may; ! hold DB ends that
//	samejson KEYS A B      compares members of two JSON files; of findings all but the examples in them, the auditIDs and the words
type services map[string]*service

type holdKey struct{}

type servicesKey struct{}

type service struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// patience is how long a script waits for what does not come.
const patience = 3 * time.Minute

func (s services) stop() {
	for _, one := range s {
		select {
		case <-one.done:
		default:
			_ = one.cmd.Process.Kill()
			<-one.done
		}
	}
}

func serviceOf(ts *testscript.TestScript, name string) *service {
	s := ts.Value(servicesKey{}).(services)[name]
	if s == nil {
		ts.Fatalf("%s was not started", name)
	}
	return s
}

// until waits for f to be true, and asks it every so often.
func until(ts *testscript.TestScript, what string, every time.Duration, f func() bool) {
	for end := time.Now().Add(patience); !f(); time.Sleep(every) {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	s := &service{log: ts.MkAbs(name + ".log"), done: make(chan struct{})}
	f, err := os.Create(s.log)
	ts.Check(err)
	s.cmd = exec.Command("nodetrail", args[1:]...)
	s.cmd.Dir, s.cmd.Stderr = ts.MkAbs("."), f
	s.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "JOURNAL="+ts.Getenv("JOURNAL"))
	ts.Check(s.cmd.Start())
	ts.Check(f.Close())
	ts.Value(servicesKey{}).(services)[name] = s
	go func() {
		_ = s.cmd.Wait() // its status is looked at
		close(s.done)
	}()
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	s, re := serviceOf(ts, args[0]), regexp.MustCompile(args[1])
	until(ts, args[1], 10*time.Millisecond, func() bool {
		select {
		case <-s.done:
			if text := ts.ReadFile(s.log); !re.MatchString(text) {
				ts.Fatalf("%s has ended:\n%s", args[0], text)
			}
		default:
		}
		return re.MatchString(ts.ReadFile(s.log))
	})
}

func hangup(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(serviceOf(ts, args[0]).cmd.Process.Signal(syscall.SIGHUP))
}

func finish(ts *testscript.TestScript, _ bool, args []string) {
	s := serviceOf(ts, args[0])
	want, byItself := strings.CutPrefix(args[1], "-")
	if !byItself {
		ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended within %s:\n%s", args[0], patience, ts.ReadFile(s.log))
	}
	if got := strconv.Itoa(s.cmd.ProcessState.ExitCode()); got != want {
		ts.Fatalf("%s ended with status %s, want %s:\n%s", args[0], got, want, ts.ReadFile(s.log))
	}
}

// address is where a service listens, as it said itself.
func address(ts *testscript.TestScript, name, pattern string) string {
	await(ts, false, []string{name, pattern})
	return regexp.MustCompile(pattern).FindStringSubmatch(ts.ReadFile(serviceOf(ts, name).log))[1]
}

func get(ts *testscript.TestScript, _ bool, args []string) {
	r, err := http.Get("http://" + address(ts, args[0], `"listen":"([^"]+)"`) + args[2])
	answered(ts, r, err, args[1], args[3])
}

func post(ts *testscript.TestScript, _ bool, args []string) {
	r, err := http.Post("http://"+address(ts, args[0], `"address":"([^"]+)"`)+"/audit", "application/json", strings.NewReader(ts.ReadFile(args[2])))
	answered(ts, r, err, args[1], "answer")
	if again := args[1] == "429" || args[1] == "503"; again != (r.Header.Get("Retry-After") != "") {
		ts.Fatalf("answered %s with Retry-After %q", args[1], r.Header.Get("Retry-After"))
	}
}

func answered(ts *testscript.TestScript, r *http.Response, err error, code, dst string) {
	ts.Check(err)
	b, err := io.ReadAll(r.Body)
	ts.Check(errors.Join(err, r.Body.Close(), os.WriteFile(ts.MkAbs(dst), b, 0o600)))
	if got := strconv.Itoa(r.StatusCode); got != code {
		ts.Fatalf("answered %s, want %s: %s", got, code, b)
	}
}

func reported(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	var last []byte
	until(ts, "report of "+args[0]+" events", 200*time.Millisecond, func() bool { // each time is a process
		cmd := exec.Command("nodetrail", append([]string{"report", "-o", "json"}, args[1:]...)...)
		cmd.Dir = ts.MkAbs(".")
		last, err = cmd.Output()
		if err != nil {
			return false // nothing is stored yet
		}
		var r struct {
			Events struct{ Read int64 }
		}
		ts.Check(json.Unmarshal(last, &r))
		if r.Events.Read > want {
			ts.Fatalf("%d events read, want %d", r.Events.Read, want)
		}
		return r.Events.Read == want
	})
	ts.Check(os.WriteFile(ts.MkAbs("report.json"), last, 0o600))
}

// hold takes the lock that SQLite takes to write, in the file that those who use a database share (WAL_WRITE_LOCK of its file format).
func hold(ts *testscript.TestScript, end bool, args []string) {
	held := ts.Value(holdKey{}).(*[]*os.File)
	if end {
		for _, f := range *held {
			ts.Check(f.Close())
		}
		*held = nil
		return
	}
	f, err := os.OpenFile(ts.MkAbs(args[0])+"-shm", os.O_RDWR, 0)
	ts.Check(err)
	*held = append(*held, f)
	until(ts, "the lock of "+args[0], 10*time.Millisecond, func() bool {
		return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 120, Len: 1}) == nil
	})
}

func sameJSON(ts *testscript.TestScript, _ bool, args []string) {
	var a, b map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &a))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &b))
	for key := range strings.SplitSeq(args[0], ",") {
		for _, of := range []any{a[key], b[key]} {
			list, _ := of.([]any)
			for _, item := range list {
				if one, _ := item.(map[string]any); one != nil {
					delete(one, "auditIDs")
					delete(one, "message")
				}
			}
		}
		if a[key] == nil {
			ts.Fatalf("there is no %s in %s", key, filepath.Base(args[1]))
		}
		if d := cmp.Diff(a[key], b[key]); d != "" {
			ts.Fatalf("%s (-%s +%s):\n%s", key, filepath.Base(args[1]), filepath.Base(args[2]), d)
		}
	}
}
