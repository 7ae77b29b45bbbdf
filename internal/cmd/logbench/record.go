package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"

	"github.com/nodetrail/nodetrail/app"
)

// recordTo writes a profile of the analysis of the logs, for the compiler (https://go.dev/doc/pgo). The profile names no path of this machine where the
// program was built with -trimpath.
func recordTo(name string, logs []string, state string, rounds int) error {
	var raw bytes.Buffer
	if err := pprof.StartCPUProfile(&raw); err != nil {
		return fmt.Errorf("the profile: %w", err)
	}
	err := func() error {
		defer pprof.StopCPUProfile()
		for range rounds {
			for _, log := range logs {
				if err := analyzeHere(log, state); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	if err != nil {
		return err
	}
	return withoutProgram(name, &raw)
}

// withoutProgram writes a profile in which the path of the running program is unreadable.
func withoutProgram(name string, profile io.Reader) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the program's path: %w", err)
	}
	text, err := unpacked(profile)
	if err != nil {
		return fmt.Errorf("the profile: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(program), bytes.Repeat([]byte("-"), len(program))) // as long, since its length stands before it
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("the profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := gzip.NewWriter(f)
	_, err = w.Write(text)
	return errors.Join(err, w.Close())
}

// analyzeHere analyzes a log in this process.
func analyzeHere(path, state string) error {
	_, err := app.Analyze(context.Background(), app.AnalyzeOptions{
		Authorization: app.Authorization{Skew: app.DefaultSkew}, Input: app.Input{State: []string{state}, Logs: []string{path}},
	})
	return err
}
