package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// journalPath is a file of a journal.
type journalPath struct {
	path   string
	begins time.Time
}

// cleanJournals deletes what a crash has left over: files that were begun, and files that were packed already.
func cleanJournals(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder of the state's journal: %w", err)
	}
	packed := map[string]bool{}
	for _, e := range entries {
		if stem, ok := strings.CutSuffix(e.Name(), packedSuffix); ok {
			packed[stem] = true
		}
	}
	for _, e := range entries {
		stem, plain := strings.CutSuffix(e.Name(), journalSuffix)
		if hidden := strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), hiddenSuffix); !hidden && !(plain && packed[stem]) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("tidying up the state's journal: %w", err)
		}
	}
	return nil
}

// listJournals finds the files of each kind, the oldest first.
func listJournals(dir string) (files [numKinds][]journalPath, err error) {
	entries, err := os.ReadDir(dir) // sorted, and so names of one kind are in order of time
	if err != nil {
		return files, fmt.Errorf("reading the folder of the state's journal: %w", err)
	}
	for _, e := range entries {
		if id, begins, ok := parseJournalName(e.Name()); ok && e.Type().IsRegular() {
			files[id] = append(files[id], journalPath{filepath.Join(dir, e.Name()), begins})
		}
	}
	return files, nil
}

func parseJournalName(name string) (id kindID, begins time.Time, ok bool) {
	stem, ok := strings.CutSuffix(name, packedSuffix)
	if !ok {
		if stem, ok = strings.CutSuffix(name, journalSuffix); !ok {
			return 0, time.Time{}, false
		}
	}
	resource, when, _ := strings.Cut(stem, "-")
	begins, err := time.Parse(fileTime, when)
	if err != nil {
		return 0, time.Time{}, false
	}
	for id := range kinds {
		if kinds[id].Resource == resource {
			return kindID(id), begins, true
		}
	}
	return 0, time.Time{}, false
}

// setAside renames the file that an error names and those of its kind before it, and reports whether it could. The last one of a kind is
// not touched: it is being written.
func setAside(files *[numKinds][]journalPath, err error) bool {
	var in *InputError
	if !errors.As(err, &in) {
		return false
	}
	for id, of := range files {
		for i, f := range of {
			if f.path != in.Path || i == len(of)-1 {
				continue
			}
			for _, f := range of[:i+1] {
				if os.Rename(f.path, f.path+".damaged") != nil {
					return false
				}
			}
			files[id] = of[i+1:]
			return true
		}
	}
	return false
}

// tidyJournals packs the files that are not current, and deletes those whose successor begins before the given time.
func tidyJournals(ctx context.Context, dir string, current map[string]bool, before time.Time) error {
	files, err := listJournals(dir)
	if err != nil {
		return err
	}
	for _, of := range files {
		for i, f := range of {
			if current[f.path] || i == len(of)-1 {
				continue // the last one may be about to be current
			}
			if of[i+1].begins.Before(before) {
				if err := os.Remove(f.path); err != nil {
					return err
				}
				continue
			}
			if err := packJournal(ctx, f.path); err != nil {
				return fmt.Errorf("packing %s: %w", f.path, err)
			}
		}
	}
	return nil
}

// packJournal compresses a file. It replaces it by the packed one only when that is on disk.
func packJournal(ctx context.Context, path string) error {
	stem, plain := strings.CutSuffix(path, journalSuffix)
	if !plain {
		return nil
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(path), ".packing-*"+hiddenSuffix)
	if err != nil {
		return err
	}
	defer func() {
		_ = out.Close()
		_ = os.Remove(out.Name()) // gone if all went well
	}()
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, untilDone{ctx, in}); err != nil {
		_ = z.Close()
		return err
	}
	if err := errors.Join(z.Close(), out.Sync()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), stem+packedSuffix); err != nil {
		return err
	}
	return os.Remove(path)
}

// untilDone reads until a context is done.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

// Read reads.
func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
