package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
)

// ReloaderOptions set a Reloader up.
type ReloaderOptions struct {
	// Path is the file; with "" the configuration is the default, and reloading does nothing.
	Path string
	// Env looks variables up, os.LookupEnv if nil.
	Env func(string) (string, bool)
	// Adjust changes a configuration that was read, by the command line for instance; nil for nothing. Its error refuses the configuration.
	Adjust func(*Config) error
	// OnChange takes a new configuration over, from which only live keys differ. It does so wholly, or returns an error and changes nothing.
	OnChange func(old, fresh *Config) error
	// Debounce is how long the file must be left alone, and stay the same, before it is taken over, 200 ms by default.
	Debounce time.Duration
	Log      zerolog.Logger
}

// ReloadStats says what became of the versions of the file.
type ReloadStats struct {
	// Hash is of the configuration in force.
	Hash string
	// LastSuccess is when the configuration in force was confirmed last; OK that the latest version of the file is it.
	LastSuccess time.Time
	OK          bool
	// Applied counts versions that were taken over, or asked for again; Refused those with errors; NeedRestart those that change what
	// only a restart can.
	Applied, Refused, NeedRestart int64
}

// NeedsRestartError refuses a configuration that changes what cannot change while the program runs.
type NeedsRestartError struct{ Fields []string }

func (e *NeedsRestartError) Error() string {
	return "nothing of the new configuration is in force: a restart is needed to change " + strings.Join(e.Fields, ", ")
}

// Reloader keeps the last good configuration in force. Its methods may be called concurrently.
type Reloader struct {
	o ReloaderOptions

	reloading sync.Mutex // one reload at a time; guards seen and maybe
	seen      string     // what the file held when it was taken last, or why it could not be read
	maybe     string     // what it held when it was looked at last

	mu    sync.Mutex
	now   *Config
	stats ReloadStats
}

// NewReloader loads the configuration for the first time.
func NewReloader(o ReloaderOptions) (*Reloader, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Debounce <= 0 {
		o.Debounce = 200 * time.Millisecond
	}
	r := &Reloader{o: o}
	data, err := r.read()
	if err != nil {
		return nil, err
	}
	c, err := r.parse(data)
	if err != nil {
		return nil, err
	}
	r.now, r.seen, r.maybe = c, string(data), string(data)
	r.stats = ReloadStats{Hash: c.hash, LastSuccess: time.Now(), OK: true}
	return r, nil
}

func (r *Reloader) read() ([]byte, error) {
	if r.o.Path == "" {
		return nil, nil
	}
	return read(r.o.Path)
}

func (r *Reloader) parse(data []byte) (*Config, error) {
	c := Default()
	if r.o.Path != "" {
		var err error
		if c, err = Parse(r.o.Path, data, r.o.Env); err != nil {
			return nil, err
		}
	}
	if r.o.Adjust != nil {
		if err := r.o.Adjust(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Current is the configuration in force. It must not be changed.
func (r *Reloader) Current() *Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Stats returns the figures of now.
func (r *Reloader) Stats() ReloadStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Reload reads the file now, for SIGHUP and POST /-/reload. What is wrong is counted and logged, and returned for an answer to whoever asked;
// the configuration in force then stays.
func (r *Reloader) Reload() error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	data, err := r.read()
	return r.take(data, err)
}

// look reads the file and takes it over if it changed, but only if it was the same at the look before: one who writes in place empties it
// first. again says that it should be looked at once more soon.
func (r *Reloader) look() (again bool) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	data, err := r.read()
	now := seenAs(data, err)
	if now == r.seen {
		r.maybe = now
		return false
	}
	if now != r.maybe {
		r.maybe = now
		return true
	}
	_ = r.take(data, err) // is counted and logged, and nobody asked
	return false
}

func seenAs(data []byte, err error) string {
	if err != nil {
		return "\x00" + err.Error() // no file that loads begins so
	}
	return string(data)
}

func (r *Reloader) take(data []byte, err error) error {
	r.seen = seenAs(data, err)
	var fresh *Config
	if err == nil {
		fresh, err = r.parse(data)
	}
	if err == nil {
		err = r.apply(fresh)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var restart *NeedsRestartError
	switch {
	case errors.As(err, &restart):
		r.stats.NeedRestart++
		r.stats.OK = false
		r.o.Log.Warn().Str("file", r.o.Path).Strs("fields", restart.Fields).Msg("the new configuration needs a restart; the old one stays in force")
		return err
	case err != nil:
		r.stats.Refused++
		r.stats.OK = false
		r.o.Log.Error().Err(err).Str("file", r.o.Path).Msg("the new configuration is refused; the old one stays in force")
		return err
	}
	r.now = fresh
	r.stats.Applied++
	r.stats.Hash, r.stats.LastSuccess, r.stats.OK = fresh.hash, time.Now(), true
	r.o.Log.Info().Str("file", r.o.Path).Str("hash", fresh.hash).Msg("the configuration is in force")
	return nil
}

func (r *Reloader) apply(fresh *Config) error {
	old := r.Current()
	changes := Changed(old, fresh)
	if fields := Restart(changes); len(fields) > 0 {
		return &NeedsRestartError{Fields: fields}
	}
	if len(changes) == 0 || r.o.OnChange == nil {
		return nil
	}
	if err := r.o.OnChange(old, fresh); err != nil {
		return fmt.Errorf("taking the configuration over: %w", err)
	}
	return nil
}

// Watch takes changes of the file over until ctx ends. Without notifications of the system it looks at the file every now and then.
func (r *Reloader) Watch(ctx context.Context) {
	rel := r.Current().Reload
	if r.o.Path == "" || !rel.Watch {
		return
	}
	w := newFolders(r.o.Path, r.o.Log)
	defer w.close()
	poll := time.NewTicker(rel.Poll.D())
	defer poll.Stop()
	settled := time.After(0) // what changed before the folders were watched
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.events:
			settled = time.After(r.o.Debounce)
			continue
		case err := <-w.errors:
			// An overflow of the system's queue, for instance: something changed.
			r.o.Log.Debug().Err(err).Msg("watching the configuration")
			settled = time.After(r.o.Debounce)
			continue
		case <-settled:
			settled = nil
		case <-poll.C:
		}
		w.follow()
		if r.look() {
			settled = time.After(r.o.Debounce)
		}
	}
}

// folders watches the folders that a path leads through, its symbolic links included: editors rename a new file over the old, and a
// ConfigMap's volume renames the link ..data.
type folders struct {
	path   string
	log    zerolog.Logger
	w      *fsnotify.Watcher
	events chan fsnotify.Event
	errors chan error
}

func newFolders(path string, log zerolog.Logger) *folders {
	f := &folders{path: path, log: log}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn().Err(err).Str("file", path).Msg("the system does not say when the configuration changes; looking at it every now and then")
		return f // its channels stay nil: nothing ever comes
	}
	f.w, f.events, f.errors = w, w.Events, w.Errors
	f.follow()
	return f
}

func (f *folders) close() {
	if f.w != nil {
		_ = f.w.Close() // nothing is lost
	}
}

// follow watches the folders that the path leads through by now.
func (f *folders) follow() {
	if f.w == nil {
		return
	}
	want := map[string]bool{}
	path := f.path
	for range 40 { // the system follows as many links
		want[filepath.Dir(path)] = true
		if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			want[folder] = true
		}
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	for _, old := range f.w.WatchList() {
		if !want[old] {
			_ = f.w.Remove(old) // it may be gone, which is why
		}
	}
	for folder := range want {
		if err := f.w.Add(folder); err != nil {
			f.log.Debug().Err(err).Str("folder", folder).Msg("watching the configuration's folder")
		}
	}
}
