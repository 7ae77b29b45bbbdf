package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// watch follows the kind from rv until the stream ends. nil means that it ended in good order.
func (k *kindRecorder) watch(ctx context.Context) error {
	timeout := int64(300 + rand.IntN(300))
	if k.short {
		timeout = max(int64(k.cfg.Silence/time.Second/2), 1)
	}
	asked := k.cfg.Now()
	target, err := k.present(ctx)
	if err != nil {
		return err
	}
	if target < revision(k.rv) {
		k.whole = true // the versions are given out again
		k.pause(ctx, "versions went back, as after etcd was restored from a backup: listing again", errListAgain)
		return errListAgain
	}
	k.target = target
	began := k.cfg.Now()
	w, err := k.open(ctx, timeout)
	if err != nil {
		return err
	}
	defer w.Stop()
	k.trouble, k.refusal = "", 0
	k.catchUp, k.backlog = k.good, true
	k.turn(phaseCatchingUp, nil)
	if k.target != 0 && revision(k.rv) >= k.target { // nothing was missed
		k.caughtUp(asked)
		if k.out.settled(ctx, k); k.whole {
			return errListAgain
		}
	}
	pause := endsBacklog(asked.Sub(k.good), k.cfg.catchUp)
	quiet, silence := time.NewTimer(pause), time.NewTimer(k.cfg.Silence)
	defer quiet.Stop()
	defer silence.Stop()
	events := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet.C:
			if k.backlog {
				k.caughtUp(k.cfg.Now())
				if k.out.settled(ctx, k); k.whole {
					return errListAgain
				}
			}
		case <-silence.C:
			k.short = !k.bookmarks
			return fmt.Errorf("%w for %s", errSilent, k.cfg.Silence)
		case e, ok := <-w.ResultChan():
			if !ok {
				return k.ended(began, timeout, events)
			}
			events++
			silence.Reset(k.cfg.Silence)
			if err := k.event(e); err != nil {
				return err
			}
			if k.backlog && k.target != 0 {
				quiet.Reset(pause)
			}
			if k.out.settled(ctx, k); k.whole {
				return errListAgain
			}
		}
	}
}

// endsBacklog is for how long no event may come before all that happened while nobody watched counts as received, if no resource version shows it: for as long as nobody
// watched, but at least short and at most five times short. A busy API server takes its time before it sends the first event.
func endsBacklog(unseen, short time.Duration) time.Duration { return min(max(unseen, short), 5*short) }

// open begins a watch, within a bounded time.
func (k *kindRecorder) open(ctx context.Context, timeout int64) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	patience := time.AfterFunc(k.cfg.answer, cancel)
	w, err := k.resource().Watch(ctx, metav1.ListOptions{
		LabelSelector: kinds[k.kind].Selector, ResourceVersion: k.rv, AllowWatchBookmarks: true, TimeoutSeconds: &timeout,
	})
	if !patience.Stop() {
		if err == nil {
			w.Stop()
		}
		err = errNoAnswer
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &cancelledWatch{w, cancel}, nil
}

// cancelledWatch gives up the request when it is stopped.
type cancelledWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop ends the watch.
func (c *cancelledWatch) Stop() {
	c.cancel()
	c.Interface.Stop()
}

// present asks for the resource version of now. Without it, nobody knows whether the one to watch from is of the future: such a watch begins and says nothing.
func (k *kindRecorder) present(ctx context.Context) (uint64, error) {
	page, err := k.page(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return revision(page.GetResourceVersion()), nil
}

// ended looks at how a watch ended.
func (k *kindRecorder) ended(began time.Time, timeout int64, events int) error {
	now := k.cfg.Now()
	asked := now.Sub(began) >= time.Duration(timeout)*time.Second-time.Second/2
	switch {
	case asked && !k.backlog:
		k.good = now // the API server ended it as it was asked to, so nothing was missed
		if !k.bookmarks {
			k.bookmark(false, time.Time{}) // it sends none
		}
	case events == 0 && !asked:
		return errWatchBroken // at once, and again: not without a pause
	}
	return nil
}

// caughtUp notes that what happened until the given time is known.
func (k *kindRecorder) caughtUp(until time.Time) {
	k.backlog, k.good = false, until
	k.turn(phaseWatching, nil)
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
	notBefore := time.Time{}
	if k.backlog {
		notBefore = k.catchUp
	}
	k.rv, k.backoff = o.GetResourceVersion(), 0
	switch e.Type {
	case watch.Bookmark:
		k.bookmarks, k.short = true, false
		k.bookmark(false, notBefore) // one that ends a silence says so
		if k.backlog && revision(k.rv) >= k.target {
			k.caughtUp(k.cfg.Now())
			return nil
		}
	case watch.Deleted:
		name := nameOf(o)
		was := k.known[name]
		delete(k.known, name)
		k.emit(string(e.Type), o, k.cfg.Now(), notBefore, was.stored)
	default:
		k.write(string(e.Type), o, notBefore)
	}
	switch {
	case !k.backlog:
		k.good = k.cfg.Now()
	case k.target != 0 && revision(k.rv) >= k.target:
		k.caughtUp(k.cfg.Now())
	}
	return nil
}
