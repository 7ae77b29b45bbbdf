package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// recordTo takes what a kindRecorder finds out, from its goroutine.
type recordTo interface {
	// write takes in one entry and keeps nothing of the object. notBefore may be zero. was is what the last call for this object returned.
	write(verb string, o map[string]any, at, notBefore time.Time, was stored) stored
	// settled is called when nothing follows at once.
	settled(ctx context.Context, k *kindRecorder)
	// turned is called when the phase has changed, with the error that made it so, if one did.
	turned(k *kindRecorder, err error)
}

// stored says where a journal has an object.
type stored struct {
	digest uint64 // of what counts in it; 0: not known
	at     int64
	size   int32 // 0: not in the journal
}

// phase is how far the watch of a kind is.
type phase uint8

const (
	// phaseLost: nobody watches, and nothing is known of what happened after kindRecorder.good.
	phaseLost phase = iota
	// phaseCatchingUp: what happened since then is being delivered.
	phaseCatchingUp
	// phaseWatching: all is known.
	phaseWatching
	// phaseRefused: the rights are lacking.
	phaseRefused
	// phaseAbsent: the API server does not serve the kind, so there is none of it.
	phaseAbsent
)

// kindRecorder lists and watches one kind.
type kindRecorder struct {
	cfg    *RecordConfig
	client *client
	kind   kindID
	out    recordTo
	log    zerolog.Logger

	version string // of the API that is served
	rv      string // what to watch from
	known   map[nodeauthz.NamespacedName]knownObject
	listed  bool
	phase   phase
	// good is the last moment of which everything is known.
	good time.Time
	// firstFrom is the notBefore of the end of the first list, if not zero: until when others had seen the kind.
	firstFrom time.Time
	// resumes says that the journal is read again: it must show that the resource version is not valid while a list is under way.
	resumes bool
	// witness is for resume; it may be nil.
	witness *witness
	// whole says to write all that is listed, whether known or not.
	whole bool
	// backlog is true while what happened during an outage arrives, with notBefore catchUp, until the version target is reached.
	backlog bool
	catchUp time.Time
	target  uint64
	// bookmarks is true when a watch has brought one. Without any, silence proves nothing, so watches are short then.
	bookmarks, short bool

	backoff time.Duration
	// trouble is the latest cause of a refusal, refusal the latest wait after it; zero once a watch has begun.
	trouble string
	refusal time.Duration
}

type knownObject struct {
	uid, rv string
	stored
}

const (
	// catchUpFor is for how long after a watch was taken up again its events are held for backlog at least (see endsBacklog).
	catchUpFor = time.Second
	// answerWithin is how long the API server may take for a page, or to begin a watch.
	answerWithin = time.Minute
)

func newKindRecorder(cfg *RecordConfig, client *client, id kindID, out recordTo, log zerolog.Logger) *kindRecorder {
	return &kindRecorder{
		cfg: cfg, client: client, kind: id, out: out, log: log.With().Str("kind", kinds[id].Name).Logger(),
		known: map[nodeauthz.NamespacedName]knownObject{},
	}
}

func (k *kindRecorder) run(ctx context.Context) {
	resumed := k.listed && k.resume(ctx)
	for ctx.Err() == nil {
		var err error
		verb := "list"
		if !resumed {
			err = k.list(ctx)
		}
		resumed = false
		if err != nil && !k.listed && k.firstFrom.IsZero() {
			k.firstFrom = k.cfg.Now() // others are recorded since then
		}
		for err == nil && ctx.Err() == nil {
			verb = "watch"
			err = k.watch(ctx)
			if ctx.Err() != nil {
				break
			}
			k.turn(phaseLost, err)
			if err != nil && !expired(err) && !refused(err) && !errors.Is(err, errListAgain) {
				// The connection, not the resource version: what was missed is still to be had.
				k.pause(ctx, "watch interrupted, taking it up again", err)
				err = nil
			}
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errListAgain):
		case expired(err):
			k.log.Info().Msg("the API server does not know any more where the watch was, listing again")
			k.pause(ctx, "", nil)
		case refused(err):
			k.refused(ctx, verb, err)
			// Rights may be back before the API server has forgotten where the watch was.
			resumed = k.listed && apierrors.IsForbidden(err)
		default:
			k.turn(phaseLost, err)
			k.pause(ctx, "cannot list", err)
		}
	}
}

// refused deals with a kind that is not served or may not be read. An API server that has just started refuses nearly everybody until it has read its
// RBAC objects, so the next attempt comes soon, and only what stays refused is left for RetryRefused.
func (k *kindRecorder) refused(ctx context.Context, verb string, err error) {
	p, trouble, msg := phaseAbsent, "not served", "cannot be recorded, continuing without"
	if apierrors.IsForbidden(err) {
		p, trouble = phaseRefused, "no right to "+verb+" "+kinds[k.kind].Resource
		if verb == "watch" {
			msg = "was listed and cannot be watched, continuing without its changes"
		}
	}
	k.turn(p, err)
	if p == phaseAbsent {
		k.firstFrom = k.cfg.Now() // there was none until now
	}
	if k.trouble != trouble {
		k.trouble, k.refusal = trouble, 0 // it was otherwise until now, and may soon be again
		k.log.Warn().Err(err).Str("trouble", trouble).Msg(msg)
	}
	k.refusal = min(max(2*k.refusal, k.cfg.MinBackoff), k.cfg.RetryRefused)
	sleep(ctx, k.refusal)
}

// turn notes in which phase the watch is.
func (k *kindRecorder) turn(p phase, err error) {
	if k.phase != p || err != nil {
		k.phase = p
		k.out.turned(k, err)
	}
}

// pause waits before the next attempt, longer each time until something works.
func (k *kindRecorder) pause(ctx context.Context, msg string, err error) {
	k.backoff = min(max(2*k.backoff, k.cfg.MinBackoff), k.cfg.MaxBackoff)
	if err != nil {
		k.log.Warn().Err(err).Stringer("wait", k.backoff).Msg(msg)
	}
	sleep(ctx, k.backoff/2+rand.N(k.backoff/2+1))
}

func (k *kindRecorder) resource() dynamic.ResourceInterface {
	of := &kinds[k.kind]
	r := k.client.Resource(schema.GroupVersionResource{Group: of.Group, Version: k.version, Resource: of.Resource})
	if of.Namespace != "" {
		return r.Namespace(of.Namespace)
	}
	return r
}

// page lists some objects, within a bounded time.
func (k *kindRecorder) page(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.answer)
	defer cancel()
	opts.LabelSelector = kinds[k.kind].Selector
	return k.resource().List(ctx, opts)
}

// witness is what tells whether a cluster is the one that a journal is of: objects of a kind that seldom changes.
type witness struct {
	kind    kindID
	version string
	uids    map[nodeauthz.NamespacedName]string
}

// items lists a page of them, within a bounded time.
func (k *kindRecorder) items(ctx context.Context, from string) (listPage, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.answer)
	defer cancel()
	return k.client.list(ctx, &kinds[k.kind], k.version, k.cfg.PageSize, from)
}

// resume reports whether the watch can resume from where a former process was. The first object of the witness must be one that was known: the address may lead
// to another cluster by now.
func (k *kindRecorder) resume(ctx context.Context) bool {
	for k.rv != "" && ctx.Err() == nil {
		page, err := k.page(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			var same bool
			if same, err = k.sameCluster(ctx, page); err == nil {
				k.backoff = 0
				return same
			}
		}
		switch {
		case ctx.Err() != nil:
		case expired(err), refused(err):
			return false
		default:
			k.turn(phaseLost, err)
			k.pause(ctx, "cannot reach the cluster", err)
		}
	}
	return false
}

// sameCluster asks the witness or, if there is none, the first object of the kind itself.
func (k *kindRecorder) sameCluster(ctx context.Context, own *unstructured.UnstructuredList) (bool, error) {
	if k.witness == nil {
		if len(own.Items) == 0 {
			return false, nil
		}
		was, known := k.known[nameOf(&own.Items[0])]
		return known && was.uid == string(own.Items[0].GetUID()), nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.answer)
	defer cancel()
	of := &kinds[k.witness.kind]
	page, err := k.client.Resource(schema.GroupVersionResource{Group: of.Group, Version: k.witness.version, Resource: of.Resource}).
		List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return false, err
	}
	uid, known := k.witness.uids[nameOf(&page.Items[0])]
	return known && uid == string(page.Items[0].GetUID()), nil
}

// revision is a resource version as a number, 0 if it is none.
func revision(rv string) uint64 {
	n, _ := strconv.ParseUint(rv, 10, 64)
	return n
}

// list reads all objects and writes what is other than was known.
func (k *kindRecorder) list(ctx context.Context) error {
	if k.version != "" {
		return k.listVersion(ctx)
	}
	var err error
	for _, k.version = range kinds[k.kind].Versions {
		if err = k.listVersion(ctx); err == nil || !apierrors.IsNotFound(err) {
			return err
		}
	}
	k.version = ""
	return err
}

func (k *kindRecorder) listVersion(ctx context.Context) error {
	began := k.cfg.Now()
	notBefore := k.good
	seen := make(map[nodeauthz.NamespacedName]bool, len(k.known))
	next := ""
	if k.listed && k.resumes {
		k.out.write("BOOKMARK", k.bare("", "").Object, began, justBefore(notBefore, began), stored{})
	}
	for {
		page, err := k.items(ctx, next)
		if err != nil {
			if apierrors.IsNotFound(err) {
				k.version = "" // another one may be served meanwhile
			}
			return err
		}
		if !k.listed && next == "" {
			k.whole = k.whole || len(k.known) > 0                                              // an attempt before has no end
			k.out.write("BOOKMARK", k.bare("", "").Object, k.cfg.Now(), time.Time{}, stored{}) // whoever wrote before into the same journal knew no more
		}
		for _, raw := range page.items {
			o, err := item(raw)
			if err != nil {
				return err
			}
			seen[nameOf(o)] = true
			k.observe(o, notBefore)
		}
		k.rv = page.version
		if next = page.next; next == "" {
			break
		}
	}
	for name, was := range k.known {
		if !seen[name] {
			k.vanished(name, was, notBefore)
		}
	}
	if !k.listed {
		notBefore = k.firstFrom
	}
	k.bookmark(true, notBefore)
	k.listed, k.whole = true, false
	k.good, k.backoff = began, 0
	k.phase = phaseLost
	k.out.turned(k, nil)
	k.out.settled(ctx, k)
	return nil
}

func nameOf(o *unstructured.Unstructured) nodeauthz.NamespacedName {
	return nodeauthz.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// observe writes an object that was listed, if it is other than was known.
func (k *kindRecorder) observe(o *unstructured.Unstructured, notBefore time.Time) {
	name := nameOf(o)
	uid, rv := string(o.GetUID()), o.GetResourceVersion()
	was, known := k.known[name]
	same := known && was.uid == uid
	switch {
	case same && was.rv == rv && !k.whole:
	case same && was.rv == rv:
		k.write("ADDED", o, time.Time{})
	case same && !k.whole:
		k.write("MODIFIED", o, notBefore)
	case known && !same:
		k.vanished(name, was, notBefore)
		fallthrough
	default:
		k.write("ADDED", o, notBefore)
	}
}

// vanished writes a deletion that nobody saw. The last state is not at hand, only what names the object.
func (k *kindRecorder) vanished(name nodeauthz.NamespacedName, was knownObject, notBefore time.Time) {
	delete(k.known, name)
	o := k.bare(name.Name, was.rv)
	if name.Namespace != "" {
		o.SetNamespace(name.Namespace)
	}
	_ = unstructured.SetNestedField(o.Object, was.uid, "metadata", "uid")
	k.out.write("DELETED", o.Object, k.cfg.Now(), notBefore, was.stored)
}

func (k *kindRecorder) bare(name, rv string) *unstructured.Unstructured {
	meta := map[string]any{"resourceVersion": rv}
	if name != "" {
		meta["name"] = name
	}
	if label, value, ok := strings.Cut(kinds[k.kind].Selector, "="); ok {
		meta["labels"] = map[string]any{label: value} // by which a reader of the journal knows it
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: kinds[k.kind].Group, Version: k.version, Kind: kinds[k.kind].Name})
	return o
}

// bookmark writes a sign of life, or the end of a list; notBefore is then the last moment before it of which all is known.
func (k *kindRecorder) bookmark(listed bool, notBefore time.Time) {
	o, now := k.bare("", k.rv), k.cfg.Now()
	if listed {
		o = k.listEnd()
	}
	k.out.write("BOOKMARK", o.Object, now, justBefore(notBefore, now), stored{})
}

// justBefore is notBefore, or just before now where the clock was set back meanwhile. The zero time stays as it is.
func justBefore(notBefore, now time.Time) time.Time {
	if !notBefore.IsZero() && !notBefore.Before(now) {
		return now.Add(-time.Nanosecond)
	}
	return notBefore
}

// listEnd is the bookmark that ends a list.
func (k *kindRecorder) listEnd() *unstructured.Unstructured {
	o := k.bare("", k.rv)
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o
}

// write writes what an object is, and remembers it.
func (k *kindRecorder) write(verb string, o *unstructured.Unstructured, notBefore time.Time) {
	at := k.cfg.Now()
	name := nameOf(o)
	is := knownObject{uid: string(o.GetUID()), rv: o.GetResourceVersion()}
	is.stored = k.emit(verb, o, at, notBefore, k.known[name].stored)
	k.known[name] = is
}

// emit trims an object and writes it.
func (k *kindRecorder) emit(verb string, o *unstructured.Unstructured, at, notBefore time.Time, was stored) stored {
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: kinds[k.kind].Group, Version: k.version, Kind: kinds[k.kind].Name})
	renewed, _, _ := unstructured.NestedString(o.Object, "spec", "renewTime")
	trim(k.kind, o.Object, k.cfg)
	if k.kind == kindLease && verb == "DELETED" && renewed != "" { // when the API server ended
		_ = unstructured.SetNestedField(o.Object, renewed, "spec", "renewTime")
	}
	return k.out.write(verb, o.Object, at, notBefore, was)
}

var (
	errListAgain = errors.New("to be listed again")
	errSilent    = errors.New("the watch gave no sign of life")
	errNoAnswer  = errors.New("the API server does not answer")
)
