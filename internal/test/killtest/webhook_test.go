package killtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// An API server that posts batches at once, each until it was answered 200, and some twice.
func TestWebhookWithRetries(t *testing.T) {
	want, lines := analyze(t), capture(t)
	rnd := rand.New(rand.NewPCG(4, 4))
	addr := freePort(t)
	conf := config(t, fmt.Sprintf("sources: {webhook: {listen: %q}}", addr))
	const times = 30
	sent := background(t, func(ctx context.Context) { post(ctx, t, "http://"+addr+"/audit", lines, 15*time.Second) })
	for range times {
		p := start(t, "run", "--config", conf)
		pause(rnd, 50*time.Millisecond, 900*time.Millisecond)
		p.kill()
	}
	p := start(t, "run", "--config", conf)
	sent()
	waitFor(t, conf, want, p)
	p.stop()
	compare(t, want, report(t, conf), false)
}

// post sends the lines over about so long a time, in batches that overtake each other and of which some come twice.
func post(ctx context.Context, t *testing.T, url string, lines [][]byte, over time.Duration) {
	rnd := rand.New(rand.NewPCG(5, 5))
	var batches [][][]byte
	for at := 0; at < len(lines); {
		n := min(1+rnd.IntN(40), len(lines)-at)
		batches = append(batches, lines[at:at+n])
		at += n
	}
	for range len(batches) / 10 {
		i := rnd.IntN(len(batches))
		batches = slices.Insert(batches, min(i+rnd.IntN(5), len(batches)), batches[i])
	}
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for _, b := range batches {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			body := list(b)
			for ctx.Err() == nil {
				if posted(ctx, client, url, body) {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		time.Sleep(over / time.Duration(len(batches)))
	}
	wg.Wait()
}

func posted(ctx context.Context, client *http.Client, url string, body []byte) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return false // it was killed
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}
