package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// RecordConfig says what Record records, and how. Only Config is needed.
type RecordConfig struct {
	// Config leads to the API server. Its rate limits are replaced.
	Config *rest.Config
	// KeepManagedFields keeps metadata.managedFields whole. Otherwise only the times of those of RBAC objects are kept, which say
	// since when a role is as it is.
	KeepManagedFields bool
	// KeepValues keeps what may hold secrets and is not needed: values of environment variables, commands and arguments, annotations,
	// attributes and options of volumes, messages in statuses, and the bulk of resource slices. Secrets themselves are never read.
	KeepValues bool

	// PageSize is how many objects are listed at once, 500 if zero.
	PageSize int64
	// MinBackoff and MaxBackoff bound the waits between attempts after an error, 500 ms and 30 s if zero.
	MinBackoff, MaxBackoff time.Duration
	// RetryRefused is how long at most after a refusal (no rights, or a kind that is not served) a kind is tried again, 5 min if zero.
	RetryRefused time.Duration
	// Silence is how long a watch may be without any sign of life before it is given up, 90 s if zero. The API server sends a bookmark
	// each minute.
	Silence time.Duration
	// Now is the clock, time.Now if nil.
	Now func() time.Time

	// Past is what w continues, as ReadPast has read it; nil if w begins a journal, or nobody knows.
	Past *Past

	catchUp time.Duration // see catchUpFor
	answer  time.Duration // see answerWithin
}

func (c RecordConfig) withDefaults() RecordConfig {
	setDefault := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	if c.PageSize <= 0 {
		c.PageSize = 500
	}
	setDefault(&c.MinBackoff, 500*time.Millisecond)
	setDefault(&c.MaxBackoff, 30*time.Second)
	setDefault(&c.RetryRefused, 5*time.Minute)
	setDefault(&c.Silence, 90*time.Second)
	setDefault(&c.catchUp, catchUpFor)
	setDefault(&c.answer, answerWithin)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Record writes a journal of a live cluster to w until ctx is done, which is no error: for each kind that matters a BOOKMARK without a resource version, the
// objects there are as ADDED, a BOOKMARK with the annotation k8s.io/initial-events-end, then what changes. So w may continue the journal of another process: it has all
// that happened in between if cfg.Past says where that ended and the API server still knows. Each entry has the observedAt of this machine's
// clock in UTC. After an outage the kind is watched on from where it was. If the API server does not know that any
// more, or not yet (etcd was restored from a backup), it is listed again and compared with what was known; entries of changes that happened while
// nobody looked carry notBefore, the last moment of which all is known.
// Such a list ends with a further BOOKMARK of that annotation, which carries it too: what was made and deleted in between is not in the journal.
//
// A kind that is not served or may not be listed or watched is logged once, with the right that is missing, and tried again later. It is an error if the cluster cannot be reached at
// the beginning, and if w fails. Everything has been written to w, and flushed if w has a Flush method, when Record returns.
func Record(ctx context.Context, cfg RecordConfig, w io.Writer, log zerolog.Logger) error {
	cfg = cfg.withDefaults()
	client, err := newClient(cfg.Config)
	if err != nil {
		return err
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if _, err := client.Resource(pods).List(ctx, metav1.ListOptions{Limit: 1}); err != nil && ctx.Err() == nil && !refused(err) {
		return fmt.Errorf("reaching the cluster at %s: %w", cfg.Config.Host, err)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := newJournalWriter(w, cancel)
	recorders := make([]*kindRecorder, numKinds)
	for id := range kinds {
		recorders[id] = newKindRecorder(&cfg, client, kindID(id), out, log)
	}
	if cfg.Past != nil {
		cfg.Past.take(recorders)
	}
	var running sync.WaitGroup
	for _, k := range recorders {
		running.Go(func() { k.run(ctx) })
	}
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		out.flushEvery(ctx, time.Second)
	}()
	running.Wait()
	<-flushed
	return out.flush()
}

// refused reports whether the API server answered and said no, to this kind or to this user's rights.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// expired reports whether a resource version is too old to resume from.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

const journalTime = "2006-01-02T15:04:05.000000000Z07:00"

// journalWriter writes entries of several kinds into one stream. Its first error ends the recording.
type journalWriter struct {
	mu    sync.Mutex
	w     *bufio.Writer
	under io.Writer
	seed  maphash.Seed
	err   error
	fail  context.CancelCauseFunc
}

func newJournalWriter(w io.Writer, fail context.CancelCauseFunc) *journalWriter {
	return &journalWriter{w: bufio.NewWriterSize(w, 64<<10), under: w, seed: maphash.MakeSeed(), fail: fail}
}

// write writes one entry, but for a Lease that is as it was when it was written last.
func (j *journalWriter) write(verb string, o map[string]any, at, notBefore time.Time, was stored) stored {
	is := stored{}
	if spec, ok := o["spec"].(map[string]any); ok && o["kind"] == kinds[kindLease].Name {
		is.digest = maphash.String(j.seed, fmt.Sprint(spec["holderIdentity"], spec["renewTime"]))
		if verb == "MODIFIED" && is == was {
			return is
		}
	}
	raw, err := json.Marshal(o)
	line, _ := appendEntry(nil, verb, raw, at, notBefore)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return stored{}
	}
	if err == nil {
		_, err = j.w.Write(line)
	}
	j.failed(err)
	return is
}

func (j *journalWriter) settled(context.Context, *kindRecorder) {}
func (j *journalWriter) turned(*kindRecorder, error)            {}

// appendEntry appends one line of a journal to buf and returns where the object begins in it. notBefore is left out when it is zero.
func appendEntry(buf []byte, verb string, object []byte, at, notBefore time.Time) (line []byte, begin int) {
	buf = append(buf, entryBegin...)
	buf = at.UTC().AppendFormat(buf, journalTime)
	if !notBefore.IsZero() && notBefore.Before(at) {
		buf = append(buf, `","notBefore":"`...)
		buf = notBefore.UTC().AppendFormat(buf, journalTime)
	}
	buf = append(append(append(buf, `","type":"`...), verb...), `","object":`...)
	begin = len(buf)
	return append(append(buf, object...), "}\n"...), begin
}

// failed keeps the first error. The lock is held.
func (j *journalWriter) failed(err error) {
	if err == nil || j.err != nil {
		return
	}
	j.err = fmt.Errorf("writing the journal: %w", err)
	j.fail(j.err)
}

func (j *journalWriter) flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.failed(j.w.Flush())
	}
	if f, ok := j.under.(interface{ Flush() error }); ok && j.err == nil {
		j.failed(f.Flush())
	}
	return j.err
}

func (j *journalWriter) flushEvery(ctx context.Context, period time.Duration) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_ = j.flush() // kept, and returned in the end
		}
	}
}

// sleep waits and reports whether the time passed before ctx was done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

var errWatchBroken = errors.New("the watch ended with an error")
