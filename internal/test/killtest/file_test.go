package killtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A log that is written and rotated all the while, by renaming and by renaming and compressing.
func TestFileWithRotation(t *testing.T) {
	want, lines := analyze(t), capture(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	conf := config(t, fmt.Sprintf("sources: {files: [{paths: [%q], poll: 50ms}]}", path))
	const times = 30
	written := background(t, func(ctx context.Context) {
		w := &rotated{path: path, rnd: rand.New(rand.NewPCG(2, 2))}
		defer w.close()
		for at := 0; at < len(lines) && ctx.Err() == nil; {
			n := min(1+w.rnd.IntN(2*len(lines)/times/8), len(lines)-at)
			if err := w.write(bytes.Join(lines[at:at+n], []byte("\n"))); err != nil {
				t.Error(err)
				return
			}
			at += n
			time.Sleep(50 * time.Millisecond)
		}
	})
	for range times {
		p := start(t, "run", "--config", conf)
		pause(rnd, 50*time.Millisecond, 900*time.Millisecond)
		p.kill()
	}
	p := start(t, "run", "--config", conf)
	written()
	waitFor(t, conf, want, p)
	p.stop()
	compare(t, want, report(t, conf), true)
}

// rotated is a log that is rotated as it grows.
type rotated struct {
	path string
	f    *os.File
	size int
	n    int
	rnd  *rand.Rand
}

func (w *rotated) write(p []byte) error {
	if w.f == nil {
		f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		w.f = f
	}
	p = append(bytes.Clone(p), '\n')
	// A reader may come between the halves of a line.
	half := w.rnd.IntN(len(p))
	if _, err := w.f.Write(p[:half]); err != nil {
		return err
	}
	if _, err := w.f.Write(p[half:]); err != nil {
		return err
	}
	if w.size += len(p); w.size < 400_000 {
		return nil
	}
	w.close()
	w.size = 0
	w.n++
	old := filepath.Join(filepath.Dir(w.path), fmt.Sprintf("audit-2026-11-21T06-%02d-00.000.log", w.n))
	if err := os.Rename(w.path, old); err != nil || w.n%2 == 0 {
		return err
	}
	return compress(old)
}

func (w *rotated) close() {
	if w.f != nil {
		_ = w.f.Close()
		w.f = nil
	}
}

func compress(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(path+".gz", b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}
