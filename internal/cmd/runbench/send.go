package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/kafka"
)

// serials numbers the events of all loads of this run of the program.
type serials struct {
	run  uint32
	next atomic.Uint64
}

func (s *serials) renew(b *batch) {
	n := uint64(len(b.lines))
	b.renew(time.Now(), s.run, s.next.Add(n)-n)
}

// outcome is what became of a load.
type outcome struct {
	mu sync.Mutex
	// batches and events were offered; taken, judged and refused count events: those that were acknowledged, those of nodes among these,
	// and those of attempts answered 429 or 503.
	batches, events, taken, judged, refused int64
	// attempts and turned count requests, and those answered 429 or 503; broken those of connections that were closed because there were too many.
	attempts, turned, broken int64
	// unsure counts events of nodes that were not acknowledged and may be stored all the same.
	unsure int64
	// late counts batches that were due when all that there are were still on their way.
	late    int64
	delays  []time.Duration // from before a batch was first sent to its acknowledgement
	elapsed time.Duration
	err     error // the first one
}

func (o *outcome) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

func (o *outcome) done(b *batch, begin time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken += int64(len(b.lines))
	o.judged += int64(b.nodes)
	o.delays = append(o.delays, time.Since(begin))
}

// quantile of the delays, in seconds.
func (o *outcome) quantile(q float64) float64 {
	if len(o.delays) == 0 {
		return 0
	}
	slices.Sort(o.delays)
	return o.delays[int(q*float64(len(o.delays)-1))].Seconds()
}

func (o *outcome) add(more *outcome) {
	o.batches += more.batches
	o.events += more.events
	o.taken += more.taken
	o.judged += more.judged
	o.refused += more.refused
	o.attempts += more.attempts
	o.turned += more.turned
	o.broken += more.broken
	o.unsure += more.unsure
	o.late += more.late
	o.delays = append(o.delays, more.delays...)
	o.elapsed = max(o.elapsed, more.elapsed)
	if o.err == nil {
		o.err = more.err
	}
}

// send delivers one batch and tells the outcome.
type send func(ctx context.Context, b *batch, o *outcome)

// drive offers so many events a second for a while, whatever becomes of them, as a cluster does; with a rate of 0 it sends what comes back at
// once. It returns when the last one has been answered.
func drive(ctx context.Context, ids *serials, batches []*batch, rate float64, d time.Duration, post send) *outcome {
	o := &outcome{}
	free := make(chan *batch, len(batches))
	for _, b := range batches {
		free <- b
	}
	begin := time.Now()
	due := begin
	var wg sync.WaitGroup
	for ctx.Err() == nil && time.Since(begin) < d {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		var b *batch
		select {
		case b = <-free:
		default:
			if rate > 0 {
				o.late++
			}
			select {
			case b = <-free:
			case <-time.After(time.Until(begin.Add(d))):
				continue
			}
		}
		if rate > 0 {
			due = due.Add(time.Duration(float64(len(b.lines)) / rate * float64(time.Second)))
		}
		ids.renew(b)
		o.batches++
		o.events += int64(len(b.lines))
		wg.Go(func() {
			post(ctx, b, o)
			free <- b
		})
	}
	o.elapsed = time.Since(begin)
	wg.Wait()
	if rate == 0 { // what is on its way at the end counts
		o.elapsed = time.Since(begin)
	}
	return o
}

// poster posts batches as an API server does. It sends those that were answered 429 or 503 again, so many times, as late as it is asked to. Without
// retries it is an overload, in which connections may break that were not served yet.
func poster(url string, retries int) send {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: 480, MaxIdleConns: 480, MaxConnsPerHost: 480, WriteBufferSize: 256 << 10, DisableCompression: true,
		IdleConnTimeout: 90 * time.Second, // less than the server's, as in client-go
	}}
	return func(ctx context.Context, b *batch, o *outcome) {
		begin := time.Now()
		for attempt := 0; ; attempt++ {
			code, after, err := postOnce(ctx, client, url, b.body)
			o.mu.Lock()
			o.attempts++
			o.mu.Unlock()
			switch {
			case err != nil:
				o.mu.Lock()
				o.unsure += int64(b.nodes)
				o.broken++
				o.mu.Unlock()
				if retries > 0 || !brokenOff(err) {
					o.fail(err)
				}
				return
			case code == http.StatusOK:
				o.done(b, begin)
				return
			case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
				o.mu.Lock()
				o.turned++
				o.refused += int64(len(b.lines))
				if code == http.StatusServiceUnavailable {
					o.unsure += int64(b.nodes)
				}
				o.mu.Unlock()
				if attempt >= retries {
					return
				}
				time.Sleep(after)
			default:
				o.fail(fmt.Errorf("it answers %d", code))
				return
			}
		}
	}
}

// brokenOff reports whether the other side closed the connection.
func brokenOff(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

func postOnce(ctx context.Context, client *http.Client, url string, body []byte) (code int, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0, fmt.Errorf("posting a batch: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, fmt.Errorf("posting a batch: %w", err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, 0, fmt.Errorf("reading the answer to a batch: %w", err)
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	return resp.StatusCode, time.Duration(seconds) * time.Second, nil
}

// producing writes batches to Kafka as the gateway does: each event a message under its node's name or else its auditID.
func producing(p *kafka.Producer) send {
	return func(ctx context.Context, b *batch, o *outcome) {
		begin := time.Now()
		records := make([]kafka.Record, len(b.lines))
		for i := range b.lines {
			l := &b.lines[i]
			key := []byte(l.key)
			if len(key) == 0 {
				key = b.body[l.id : l.id+idLen]
			}
			records[i] = kafka.Record{Key: key, Value: b.event(i)}
		}
		if err := p.Produce(ctx, records...); err != nil {
			o.fail(err)
			return
		}
		o.done(b, begin)
	}
}
