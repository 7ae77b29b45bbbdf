package app

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
)

// LogTo is where a service logs, as its configuration says.
type LogTo struct {
	W io.Writer
	// Terminal says that W is a terminal that a person looks at.
	Terminal bool
}

// levelWriter writes the log lines of a level and above, which can change while the service runs.
type levelWriter struct {
	w     io.Writer
	level atomic.Int32
}

func (w *levelWriter) Write(p []byte) (int, error) { return w.w.Write(p) }

// WriteLevel implements zerolog.LevelWriter.
func (w *levelWriter) WriteLevel(l zerolog.Level, p []byte) (int, error) {
	if l < zerolog.Level(w.level.Load()) {
		return len(p), nil
	}
	return w.w.Write(p)
}

// setLevel says how much to log.
func (w *levelWriter) setLevel(c config.Log) error {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	w.level.Store(int32(level))
	return nil
}

// set says how and how much to log, before anybody does.
func (w *levelWriter) set(c config.Log, to LogTo) error {
	if err := w.setLevel(c); err != nil {
		return err
	}
	if c.Format == "console" || c.Format == "auto" && to.Terminal {
		w.w = zerolog.ConsoleWriter{Out: to.W, NoColor: !to.Terminal, TimeFormat: time.RFC3339}
	}
	return nil
}

func (w *levelWriter) logger() zerolog.Logger { return zerolog.New(w).With().Timestamp().Logger() }
