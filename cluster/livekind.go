package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// liveKind applies what a recorder finds out of one kind, and keeps the journal of it.
type liveKind struct {
	live *Live
	id   kindID
	log  zerolog.Logger
	rec  *kindRecorder
	src  *source // the part of a journal's reader that dates and lists
	d    *decoder
	j    *stateJournal // nil: none is kept
	// watched is true once the state has it that all pods are known from the list on.
	watched bool

	mu     sync.Mutex // guards what follows, which others read
	status KindStatus
	phase  phase
	file   string
}

func newLiveKind(l *Live, id kindID, client *client) *liveKind {
	k := &liveKind{live: l, id: id, log: l.log, src: &source{}, d: newDecoder()}
	k.rec = newKindRecorder(&l.cfg.Record, client, id, k, l.log)
	k.status.Kind = kinds[id].Name
	return k
}

// judged reports whether verdicts and rules depend on the kind; of the others objects are only counted.
func (k kindID) judged() bool { return k <= kindRoleBinding }

// begin tells the state how far it is known before the watch is there. The state is locked and has loaded all that it will.
func (k *liveKind) begin() {
	s := k.live.state
	if k.rec.listed {
		// What continues is the watch of the journal that was loaded: its list is over.
		k.src.kinds[k.id] = kindProgress{begun: k.src.start, whole: true}
		k.watch()
	} else {
		k.rec.firstFrom = timeOf(max(s.newest[k.id], never))
	}
	s.lost(k.id, k.known())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note()
}

// known is until when all is known.
func (k *liveKind) known() int64 {
	if k.rec.listed {
		return k.rec.good.UnixNano()
	}
	return k.rec.firstFrom.UnixNano()
}

// note copies what others read from the recorder. The lock is held.
func (k *liveKind) note() {
	k.phase = k.rec.phase
	k.status.Synced = k.status.Synced || k.rec.listed && (k.phase == phaseCatchingUp || k.phase == phaseWatching)
	k.status.Watching = k.phase == phaseWatching
	k.status.Refused = k.phase == phaseRefused
	k.status.Absent = k.phase == phaseAbsent
	k.status.Objects = len(k.rec.known)
	k.status.Known = time.Time{}
	if k.rec.listed {
		k.status.Known = k.rec.good
	}
}

// turned implements recordTo.
func (k *liveKind) turned(r *kindRecorder, err error) {
	k.mu.Lock()
	if err != nil {
		k.status.Errors++
		k.status.LastError = err.Error()
	}
	k.note()
	k.mu.Unlock()
	s := k.live.state
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.phase {
	case phaseWatching, phaseAbsent:
		s.regained(k.id)
	default:
		s.lost(k.id, k.known())
	}
}

// write implements recordTo: the entry goes into the journal and then the same way into the state as it would from there.
func (k *liveKind) write(verb string, o map[string]any, at, notBefore time.Time, was stored) stored {
	raw, err := json.Marshal(o)
	if err != nil {
		k.malformed(err)
		return was
	}
	c := change{at: at.UnixNano(), clocked: true}
	if !notBefore.IsZero() && notBefore.Before(at) {
		c.notBefore = max(notBefore.UnixNano(), never)
	}
	listed := false
	switch verb {
	case "ADDED":
		c.verb = verbAdded
	case "MODIFIED":
		c.verb = verbModified
	case "DELETED":
		c.verb = verbDeleted
	default:
		c.verb, c.kind = verbBookmark, k.id
		if _, listed = annotations(o)[metav1.InitialEventsAnnotationKey]; listed {
			c.verb = verbListed
		}
	}
	is := stored{}
	if c.verb < verbListed {
		if c.object, err = k.d.object(k.id, raw); err != nil {
			k.malformed(err)
			return was
		}
		is.digest = c.digest(k.live.seed)
	}
	if k.j != nil {
		if c.verb == verbModified && is.digest != 0 && is.digest == was.digest && was.size > 0 {
			is.at, is.size = was.at, was.size // nothing that counts: it need not be given again
		} else {
			is.at, is.size = k.j.append(verb, raw, at, notBefore)
		}
		if listed {
			k.j.listed(at)
		}
	}
	s := k.live.state
	s.mu.Lock()
	defer s.mu.Unlock()
	k.src.slow.correct(&c)
	s.behind = max(s.behind, k.src.slow.most)
	if k.src.start == 0 {
		k.src.start = c.at
	}
	s.progress(k.src, &c, &queue{})
	s.apply(&c, k.src.start)
	if listed {
		k.watch()
		s.cover()
	}
	return is
}

// watch tells the state, once, that all pods are known from the beginning of the watch on: interruptions are holes. The state is locked.
func (k *liveKind) watch() {
	if k.id == kindPod && !k.watched {
		k.watched = true
		k.live.state.watch(k.src, math.MaxInt64)
	}
}

func annotations(o map[string]any) map[string]any {
	meta, _ := o["metadata"].(map[string]any)
	a, _ := meta["annotations"].(map[string]any)
	return a
}

func (k *liveKind) malformed(err error) {
	k.log.Error().Err(err).Str("kind", k.id.String()).Msg("an object of the cluster cannot be read")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Errors++
	k.status.LastError = err.Error()
}

// settled implements recordTo.
func (k *liveKind) settled(ctx context.Context, r *kindRecorder) {
	k.mu.Lock()
	k.note()
	k.status.LastEvent = r.cfg.Now()
	k.mu.Unlock()
	if k.j == nil {
		return
	}
	k.j.flush(r.cfg.Now())
	if r.phase == phaseWatching && k.j.full() {
		k.j.rotate(r)
	}
	if k.j.lost(r.cfg.Now()) {
		r.whole = k.j.begin(r.cfg.Now())
	}
	k.mu.Lock()
	rotated := k.file != k.j.path
	k.file = k.j.path
	k.mu.Unlock()
	if rotated {
		select {
		case k.live.tidy <- struct{}{}:
		default:
		}
	}
}

func (k *liveKind) currentFile() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file
}

// restore finds out from the last of the files where the watch was. It takes a file away that is of no use.
func (k *liveKind) restore(files []journalPath) ([]journalPath, error) {
	k.j = newStateJournal(k.live.cfg.Dir, kinds[k.id].Resource, k.live.cfg.MaxFile, k.log)
	k.rec.resumes = true
	if len(files) == 0 || strings.HasSuffix(files[len(files)-1].path, packedSuffix) {
		k.rec.whole = k.j.begin(k.live.clock.read())
		return files, nil
	}
	last := files[len(files)-1]
	scan, torn, err := scanJournalFile(last.path, k.id)
	if err != nil {
		return nil, err
	}
	if torn > 0 {
		k.log.Warn().Str("file", last.path).Int64("bytes", torn).Msg("the journal of the state ends in what is no entry: that is cut off")
	}
	if !scan.listed {
		if err := os.Rename(last.path, last.path+".damaged"); err != nil {
			return nil, fmt.Errorf("setting a damaged file aside: %w", err)
		}
		return k.restore(files[:len(files)-1])
	}
	if err := k.j.reopen(last.path, scan.size); err != nil {
		return nil, fmt.Errorf("continuing with the state's journal: %w", err)
	}
	k.file = last.path
	k.src.start = scan.begins.UnixNano()
	k.rec.version, k.rec.rv, k.rec.known, k.rec.listed, k.rec.good = scan.version, scan.rv, scan.known, true, scan.good
	return files, nil
}

// stopped closes the journal.
func (k *liveKind) stopped() {
	if k.j != nil {
		k.j.close()
	}
}

// digest is a hash of what counts in an object, but for the version; 0 for roles, in which all counts.
func (o *object) digest(seed maphash.Seed) uint64 {
	if o.role != nil {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(seed)
	text := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	number := func(n int64) {
		for range 8 {
			_ = h.WriteByte(byte(n))
			n >>= 8
		}
	}
	list := func(l []string) {
		number(int64(len(l)))
		for _, s := range l {
			text(s)
		}
	}
	flag := func(b bool) {
		if b {
			number(1)
		} else {
			number(0)
		}
	}
	text(o.uid)
	text(o.node)
	number(o.ready.since)
	flag(o.ready.ready)
	list(o.addresses)
	flag(o.virtual)
	text(o.holder)
	number(o.renewed)
	number(o.created)
	number(o.granted)
	number(o.deletion)
	flag(o.graceless)
	flag(o.finalizers)
	if p := o.pod; p != nil {
		text(p.NodeName)
		text(p.ServiceAccountName)
		flag(p.Mirror)
		number(int64(p.EphemeralContainers))
		text(p.ClaimStatuses)
		list(p.Secrets)
		list(p.NoSecrets)
		list(p.ConfigMaps)
		list(p.PersistentVolumeClaims)
		list(p.ResourceClaims)
	}
	o.admitted.digest(text)
	if v := o.volume; v != nil {
		if v.Claim != nil {
			text(v.Claim.Namespace)
			text(v.Claim.Name)
		}
		for _, s := range v.Secrets {
			text(s.Namespace)
			text(s.Name)
		}
	}
	return max(h.Sum64(), 1)
}
