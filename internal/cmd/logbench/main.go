// Command logbench times nodetrail analyze next to jq and grep on one large audit log, in turns in the same run, and prints ratios: the
// machines it runs on are shared and noisy, so seconds alone say nothing.
//
// The logs are the bundled capture's events repeated to a size, each copy with audit IDs of its own so that none is a duplicate: once as
// they are ("dense"), once with one node's event among twenty ("sparse"). The dense log is read compressed, too, and on one core.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "logbench:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) (err error) {
	fs := flag.NewFlagSet("logbench", flag.ContinueOnError)
	program := fs.String("nodetrail", "bin/nodetrail", "the program to time")
	before := fs.String("before", "", "nodetrail of another commit, to be timed in the same turns")
	capture := fs.String("capture", "internal/demo/capture", "folder of audit.log.gz and journal.jsonl.gz")
	size := fs.Int("mb", 200, "size of each log in MB")
	rounds := fs.Int("rounds", 5, "rounds of all commands in turn")
	record := fs.String("record", "", "time nothing, and write a profile of the rounds to this file, for the compiler")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	lines, err := readLines(filepath.Join(*capture, "audit.log.gz"))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "logbench")
	if err != nil {
		return fmt.Errorf("a folder for the logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	state := filepath.Join(*capture, "journal.jsonl.gz")
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	var logs []string
	for _, l := range []struct {
		name   string
		sparse bool
		asked  map[string]float64 // nodetrail's time as a share of another's that the project asks for
	}{{"dense", false, map[string]float64{"jq": 1.0 / 10, "grep": 5}}, {"sparse", true, map[string]float64{"grep": 1.7}}} {
		path := filepath.Join(dir, l.name+".log")
		if err := write(path, lines, *size*1_000_000, l.sparse); err != nil {
			return err
		}
		if logs = append(logs, path); *record != "" {
			continue
		}
		cmds := []command{
			{"nodetrail", analyze(*program, state, path)},
			{"jq", []string{"jq", "-c", `select(.user.username | startswith("system:node:"))`, path}},
			{"grep", []string{"grep", "-c", "system:node:", path}},
		}
		if *before != "" {
			args := slices.Clone(cmds[0].args)
			args[0] = *before
			cmds = append(cmds, command{"before", args})
		}
		if err := compare(out, l.name, cmds, *rounds, l.asked); err != nil {
			return err
		}
	}
	if *record != "" {
		return recordTo(*record, logs, state, *rounds)
	}
	dense, small := filepath.Join(dir, "dense.log"), filepath.Join(dir, "small.log")
	if err := packed(out, *program, state, dense, *rounds); err != nil {
		return err
	}
	if err := write(small, lines[:100], 1, false); err != nil {
		return err
	}
	if err := cores(out, *program, state, dense, small, *rounds); err != nil {
		return err
	}
	return memory(out, *program, state, dense, lines, *size)
}

func readLines(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the capture: %w", err)
	}
	defer func() { _ = f.Close() }()
	all, err := unpacked(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bytes.Split(bytes.TrimSpace(all), []byte{'\n'}), nil
}

// unpacked is all of what gzip has packed.
func unpacked(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

var auditIDKey = []byte(`"auditID":"`)

// write makes a log of at least size bytes.
func write(path string, lines [][]byte, size int, sparse bool) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	var nodes, others [][]byte
	for _, l := range lines {
		if bytes.Contains(l, []byte(`"username":"system:node:`)) {
			nodes = append(nodes, l)
		} else {
			others = append(others, l)
		}
	}
	emit := func(l []byte) int {
		i := bytes.Index(l, auditIDKey) + len(auditIDKey)
		id := fmt.Sprintf("%016x-%016x000", rng.Uint64(), rng.Uint64())[:36]
		n := 0
		for _, part := range [][]byte{l[:i], []byte(id), l[i+36:], {'\n'}} {
			k, _ := w.Write(part) // Flush tells
			n += k
		}
		return n
	}
	for written := 0; written < size; {
		if !sparse {
			for _, l := range lines {
				written += emit(l)
			}
			continue
		}
		for i, l := range others {
			if i%19 == 0 {
				written += emit(nodes[rng.IntN(len(nodes))])
			}
			written += emit(l)
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

type command struct {
	name string
	args []string
}

type usage struct {
	wall, cpu time.Duration
	rss       int64 // kB
}

func (c command) run() (usage, error) {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, fmt.Errorf("%s: %w", c.name, err)
	}
	u := usage{wall: time.Since(begin), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.rss = r.Maxrss
	}
	return u, nil
}

func compare(out *bufio.Writer, name string, cmds []command, rounds int, asked map[string]float64) error {
	times := make([][]usage, len(cmds))
	have := make([]bool, len(cmds))
	for i, c := range cmds {
		_, err := exec.LookPath(c.args[0])
		if have[i] = err == nil; !have[i] {
			fmt.Fprintf(out, "%s is not on this machine: not compared\n", c.args[0])
		}
	}
	for range rounds {
		for i, c := range cmds {
			if !have[i] {
				continue
			}
			u, err := c.run()
			if err != nil {
				return err
			}
			times[i] = append(times[i], u)
		}
	}
	info, err := os.Stat(cmds[0].args[len(cmds[0].args)-1])
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	fmt.Fprintf(out, "\n%s log, %d MB, medians of %d rounds in turn, %d processors\n", name, info.Size()/1e6, rounds, runtime.NumCPU())
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "command\twall s\tcpu s\tMB/s\tpeak MB\tnodetrail takes\tasked for")
	for i, c := range cmds {
		if !have[i] {
			continue
		}
		wall := median(times[i], func(u usage) float64 { return u.wall.Seconds() })
		text, limit := "", ""
		if i > 0 {
			text = fmt.Sprintf("%.3f of its time, %.3f of its cpu", ratio(times[0], times[i], func(u usage) time.Duration { return u.wall }),
				ratio(times[0], times[i], func(u usage) time.Duration { return u.cpu }))
			if most := asked[c.name]; most > 0 {
				limit = fmt.Sprintf("at most %.3f", most)
			}
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.0f\t%.0f\t%s\t%s\n", c.name, wall, median(times[i], func(u usage) float64 { return u.cpu.Seconds() }),
			float64(info.Size())/1e6/wall, median(times[i], func(u usage) float64 { return float64(u.rss) / 1000 }), text, limit)
	}
	return errors.Join(w.Flush(), out.Flush())
}

// ratio is the median of a's share of b, by turns.
func ratio(a, b []usage, f func(usage) time.Duration) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = f(a[i]).Seconds() / f(b[i]).Seconds()
	}
	return median(all, func(f float64) float64 { return f })
}

func median[T any](all []T, f func(T) float64) float64 {
	v := make([]float64, len(all))
	for i := range all {
		v[i] = f(all[i])
	}
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}

// memory compares the peak on the log with that on one four times as long.
func memory(out *bufio.Writer, program, state, path string, lines [][]byte, size int) error {
	longer := path + ".4"
	if err := write(longer, lines, 4*size*1_000_000, false); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nmemory, dense\n")
	for _, p := range []string{path, longer} {
		u, err := command{"nodetrail", analyze(program, state, p)}.run()
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("the log: %w", err)
		}
		fmt.Fprintf(out, "%5d MB of log: %d MB at the peak\n", info.Size()/1e6, u.rss/1000)
	}
	return nil
}
