package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// packed times the log compressed, next to what unpacks it for grep.
func packed(out *bufio.Writer, program, state, path string, rounds int) error {
	for _, p := range []struct {
		ext, unpack string
		writer      func(io.Writer) (io.WriteCloser, error)
	}{
		{".gz", "zcat", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.DefaultCompression) }},
		{".zst", "zstd -dc", func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }},
	} {
		if err := pack(path, path+p.ext, p.writer); err != nil {
			return err
		}
		cmds := []command{
			{"nodetrail", analyze(program, state, path+p.ext)},
			{p.unpack + " | grep", []string{"sh", "-c", p.unpack + ` "$0" | grep -c system:node:`, path + p.ext}},
		}
		if err := compare(out, "dense "+p.ext, cmds, rounds, map[string]float64{p.unpack + " | grep": 1}); err != nil {
			return err
		}
	}
	return nil
}

func analyze(program, state, path string) []string {
	return []string{program, "analyze", "--state", state, "-o", "json", path}
}

func pack(from, to string, writer func(io.Writer) (io.WriteCloser, error)) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	defer func() { _ = in.Close() }()
	f, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("the compressed log: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := writer(f)
	if err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, w.Close())
}

// cores times the log on one core and on all, best of the rounds, and says what the share of the processor time that is spent in order leaves to more
// cores. small is a log of few events: what it takes is the start and the state.
func cores(out *bufio.Writer, program, state, path, small string, rounds int) error {
	with := func(procs int, path string) (time.Duration, error) {
		return best(rounds, command{"nodetrail", append([]string{"env", "GOMAXPROCS=" + strconv.Itoa(procs)}, analyze(program, state, path)...)})
	}
	fmt.Fprintf(out, "\ncores, dense, less the start and the state, best of %d rounds\n", rounds)
	var one time.Duration
	for _, procs := range []int{1, runtime.NumCPU()} {
		all, err := with(procs, path)
		if err != nil {
			return err
		}
		start, err := with(procs, small)
		if err != nil {
			return err
		}
		took := all - start
		if one == 0 {
			one = took
		}
		fmt.Fprintf(out, "%3d: %.3f s, %.2f times as fast as one\n", procs, took.Seconds(), one.Seconds()/took.Seconds())
	}
	if err := apart(out, analyze(program, state, path), rounds); err != nil {
		return err
	}
	inOrder, longest, err := serial(path, state)
	if err != nil {
		return err
	}
	share := inOrder + longest
	fmt.Fprintf(out, "in order by profile: %.3f of the processor time on one goroutine, %.3f in the longest parts in parallel; asked for: at most 0.05\n", inOrder, longest)
	for _, n := range []float64{2, 4, 16, 64} {
		fmt.Fprintf(out, "%3.0f cores: %.1f times as fast as one at most, by Amdahl's law\n", n, amdahl(share, n))
	}
	return out.Flush()
}

// apart times as many runs at once as there are cores, each on one of them, next to a single run. They share nothing but the machine: one program on all
// cores can be no faster than that.
func apart(out *bufio.Writer, args []string, rounds int) error {
	var runs []command
	for core := range runtime.NumCPU() {
		runs = append(runs, command{"nodetrail", append([]string{"taskset", "-c", strconv.Itoa(core), "env", "GOMAXPROCS=1"}, args...)})
	}
	one, err := best(rounds, runs[0])
	if err != nil {
		return err
	}
	all, err := best(rounds, runs...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "limit: %d runs at once, a core each, do %.2f times the work of one\n", len(runs), float64(len(runs))*one.Seconds()/all.Seconds())
	return nil
}

// best is the least time of the rounds in which commands that run at once have all ended.
func best(rounds int, runs ...command) (time.Duration, error) {
	least := time.Duration(0)
	for range rounds {
		var group errgroup.Group
		begin := time.Now()
		for _, c := range runs {
			group.Go(func() error {
				_, err := c.run()
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		if took := time.Since(begin); least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// amdahl is how many times as fast as one n cores are when a share of the work is on one of them.
func amdahl(share, n float64) float64 { return 1 / (share + (1-share)/n) }

// serial analyzes the log under a profile. inOrder is the share of the processor time that one goroutine takes for all events, longest that of the longest
// of the parts that take in a slice, and of those that it is handed out to: each of these is in order, in parallel with the others.
func serial(path, state string) (inOrder, longest float64, err error) {
	name := path + ".prof"
	f, err := os.Create(name)
	if err != nil {
		return 0, 0, fmt.Errorf("the profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return 0, 0, fmt.Errorf("the profile: %w", err)
	}
	err = analyzeHere(path, state)
	pprof.StopCPUProfile()
	if err != nil {
		return 0, 0, err
	}
	if inOrder, err = focused(name, "-focus="+regexp.QuoteMeta("file.(*reader).merge"), "-ignore="+regexp.QuoteMeta("pipeline.(*job).take")); err != nil {
		return 0, 0, err
	}
	for _, stage := range [][]string{{"pipeline.(*Stream).apply", "pipeline.(*Stream).see", "pipeline.(*Stream).takeRun"}, {"app.(*overTime).observe", "report.(*Builder).AddEntry"}} {
		most := 0.0
		for _, part := range stage {
			share, err := focused(name, "-focus="+regexp.QuoteMeta(part))
			if err != nil {
				return 0, 0, err
			}
			most = max(most, share)
		}
		longest += most
	}
	return inOrder, longest, nil
}

var accounted = regexp.MustCompile(`accounting for [^,]*, ([0-9.]+)% of`)

// focused is the share of a profile that pprof shows with some flags.
func focused(profile string, flags ...string) (float64, error) {
	text, err := exec.Command("go", append(append([]string{"tool", "pprof", "-top", "-nodefraction=0"}, flags...), profile)...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("go tool pprof: %w: %s", err, text)
	}
	m := accounted.FindSubmatch(text)
	if m == nil {
		return 0, nil // there is none of it
	}
	percent, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("go tool pprof: %w", err)
	}
	return percent / 100, nil
}
