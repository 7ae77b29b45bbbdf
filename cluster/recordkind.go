package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// kindRecorder lists and watches one kind.
type kindRecorder struct {
	cfg    *RecordConfig
	client dynamic.Interface
	kind   kindID
	out    *journalWriter
	log    zerolog.Logger

	version string // of the API that is served
	rv      string // what to watch from
	known   map[nodeauthz.NamespacedName]knownObject
	listed  bool
	// good is the last moment of which everything is known.
	good time.Time
	// catchUp, until resumedUntil, is the notBefore of what arrives: the backlog of an outage.
	catchUp      time.Time
	resumedUntil time.Time

	warned  bool
	backoff time.Duration
}

type knownObject struct{ uid, rv string }

// catchUpFor is how long after a watch was taken up again its events are held for backlog.
const catchUpFor = time.Second

func (k *kindRecorder) run(ctx context.Context) {
	k.known = map[nodeauthz.NamespacedName]knownObject{}
	for ctx.Err() == nil {
		err := k.list(ctx)
		for err == nil && ctx.Err() == nil {
			err = k.watch(ctx)
			if err != nil && !expired(err) && !refused(err) && ctx.Err() == nil {
				// The connection, not the resource version: what was missed is still to be had.
				k.pause(ctx, "watch interrupted, taking it up again", err)
				err = nil
			}
		}
		switch {
		case ctx.Err() != nil:
		case expired(err):
			k.log.Info().Msg("the apiserver does not know any more where the watch was, listing again")
			k.pause(ctx, "", nil)
		case refused(err):
			if !k.warned {
				k.warned = true
				k.log.Warn().Err(err).Dur("retry", k.cfg.RetryRefused).Msg("cannot be recorded, going on without")
			}
			sleep(ctx, k.cfg.RetryRefused)
		default:
			k.pause(ctx, "cannot list", err)
		}
	}
}

// pause waits before the next attempt, longer each time until something works.
func (k *kindRecorder) pause(ctx context.Context, msg string, err error) {
	k.backoff = min(max(2*k.backoff, k.cfg.MinBackoff), k.cfg.MaxBackoff)
	if err != nil {
		k.log.Warn().Err(err).Dur("wait", k.backoff).Msg(msg)
	}
	sleep(ctx, k.backoff/2+rand.N(k.backoff/2+1))
}

func (k *kindRecorder) resource() dynamic.ResourceInterface {
	return k.client.Resource(schema.GroupVersionResource{Group: kinds[k.kind].Group, Version: k.version, Resource: kinds[k.kind].Resource})
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
	opts := metav1.ListOptions{Limit: k.cfg.PageSize}
	for {
		page, err := k.resource().List(ctx, opts)
		if err != nil {
			if apierrors.IsNotFound(err) {
				k.version = "" // another one may be served meanwhile
			}
			return err
		}
		for i := range page.Items {
			o := &page.Items[i]
			seen[nameOf(o)] = true
			k.observe(o, notBefore)
		}
		opts.Continue = page.GetContinue()
		k.rv = page.GetResourceVersion()
		if opts.Continue == "" {
			break
		}
	}
	for name, was := range k.known {
		if !seen[name] {
			k.vanished(name, was, notBefore)
		}
	}
	if !k.listed {
		k.listed = true
		k.bookmark(true)
	}
	k.good, k.backoff, k.warned = began, 0, false
	return nil
}

func nameOf(o *unstructured.Unstructured) nodeauthz.NamespacedName {
	return nodeauthz.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// observe writes an object that was listed, if it is other than was known.
func (k *kindRecorder) observe(o *unstructured.Unstructured, notBefore time.Time) {
	name := nameOf(o)
	is := knownObject{uid: string(o.GetUID()), rv: o.GetResourceVersion()}
	was, known := k.known[name]
	verb := "MODIFIED"
	switch {
	case known && was == is:
		return
	case known && was.uid != is.uid:
		k.vanished(name, was, notBefore)
		verb = "ADDED"
	case !known:
		verb = "ADDED"
	}
	k.known[name] = is
	k.write(verb, o, notBefore)
}

// vanished writes a deletion that nobody saw. The last state is not at hand, only what names the object.
func (k *kindRecorder) vanished(name nodeauthz.NamespacedName, was knownObject, notBefore time.Time) {
	delete(k.known, name)
	o := k.bare(name.Name, was.rv)
	o.SetNamespace(name.Namespace)
	_ = unstructured.SetNestedField(o.Object, was.uid, "metadata", "uid")
	k.out.write("DELETED", o.Object, k.cfg.Now(), notBefore)
}

func (k *kindRecorder) bare(name, rv string) *unstructured.Unstructured {
	meta := map[string]any{"resourceVersion": rv}
	if name != "" {
		meta["name"] = name
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: kinds[k.kind].Group, Version: k.version, Kind: kinds[k.kind].Name})
	return o
}

// bookmark writes a sign of life, or the end of the initial list.
func (k *kindRecorder) bookmark(listed bool) {
	o := k.bare("", k.rv)
	if listed {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	k.out.write("BOOKMARK", o.Object, k.cfg.Now(), time.Time{})
}

func (k *kindRecorder) write(verb string, o *unstructured.Unstructured, notBefore time.Time) {
	at := k.cfg.Now()
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: kinds[k.kind].Group, Version: k.version, Kind: kinds[k.kind].Name})
	trim(k.kind, o.Object, k.cfg)
	k.out.write(verb, o.Object, at, notBefore)
}

// watch follows the kind from rv until the stream ends. nil means that it ended in good order.
func (k *kindRecorder) watch(ctx context.Context) error {
	timeout := int64(300 + rand.IntN(300))
	began := k.cfg.Now()
	w, err := k.resource().Watch(ctx, metav1.ListOptions{ResourceVersion: k.rv, AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
	if err != nil {
		return err
	}
	defer w.Stop()
	k.catchUp, k.resumedUntil = k.good, k.cfg.Now().Add(catchUpFor)
	events := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if ok {
				events++
				if err := k.event(e); err != nil {
					return err
				}
				continue
			}
			if now := k.cfg.Now(); now.Sub(began) >= time.Duration(timeout-1)*time.Second {
				k.good = now // the apiserver ended it as it was asked to, so nothing was missed
			} else if events == 0 {
				return errWatchBroken // at once, and again: not without a pause
			}
			return nil
		}
	}
}

// event takes in one event of a watch.
func (k *kindRecorder) event(e watch.Event) error {
	if e.Type == watch.Error {
		err := apierrors.FromObject(e.Object)
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return fmt.Errorf("%w: %w", errWatchBroken, err)
		}
		return err
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%w: an event of type %T", errWatchBroken, e.Object)
	}
	now := k.cfg.Now()
	notBefore := time.Time{}
	if now.Before(k.resumedUntil) {
		notBefore = k.catchUp
	}
	k.rv, k.good, k.backoff = o.GetResourceVersion(), now, 0
	name := nameOf(o)
	switch e.Type {
	case watch.Bookmark:
		k.resumedUntil = time.Time{} // the backlog is through
		k.bookmark(false)
		return nil
	case watch.Deleted:
		delete(k.known, name)
	default:
		k.known[name] = knownObject{uid: string(o.GetUID()), rv: o.GetResourceVersion()}
	}
	k.write(string(e.Type), o, notBefore)
	return nil
}
