// Package receiver runs a real Alertmanager that tells a webhook of every alert at once, and keeps what it was given.
//
// The program is Debian's: e2e/install.sh.
package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// Receiver is what an Alertmanager notifies.
type Receiver struct {
	// Manager is the Alertmanager's address.
	Manager string
	// Process is the Alertmanager's.
	Process *plane.Process
	server  *http.Server

	mu  sync.Mutex
	got []Alert
}

// Alert is one as Alertmanager's webhook has it.
type Alert struct {
	Status              string
	Labels, Annotations map[string]string
	StartsAt            time.Time
	// At is when it came.
	At time.Time `json:"-"`
}

// New starts both. The Alertmanager ends with the Work, the webhook by [Receiver.Close].
func New(ctx context.Context, w *plane.Work, name string) (*Receiver, error) {
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		return nil, fmt.Errorf("%w: run e2e/install.sh", err)
	}
	r := &Receiver{}
	if r.Manager, err = plane.FreeAddress(); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for alerts: %w", err)
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(l) }() // until Close
	config := filepath.Join(w.Dir, name+"-alertmanager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: "http://%s/"}]}]
`, l.Addr()), 0o600); err != nil {
		return nil, fmt.Errorf("writing Alertmanager's configuration: %w", err)
	}
	p, err := w.Start("alertmanager-"+name, program, []string{
		"--config.file=" + config, "--storage.path=" + filepath.Join(w.Dir, name+"-alertmanager"), "--web.listen-address=" + r.Manager, "--cluster.listen-address=",
	})
	if err != nil {
		return nil, err
	}
	r.Process = p
	return r, plane.Eventually(ctx, "Alertmanager is ready", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + r.Manager + "/-/ready")
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Close ends the webhook.
func (r *Receiver) Close() error { return r.server.Close() }

func (r *Receiver) take(_ http.ResponseWriter, req *http.Request) {
	now := time.Now()
	var body struct{ Alerts []Alert }
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return // not Alertmanager's
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range body.Alerts {
		a.At = now
		r.got = append(r.got, a)
	}
}

// All returns all that has come so far, in order.
func (r *Receiver) All() []Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// Find returns the first alert that fires with these labels, nil if none has come.
func (r *Receiver) Find(labels map[string]string) *Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
alerts:
	for i := range r.got {
		for k, v := range labels {
			if r.got[i].Labels[k] != v {
				continue alerts
			}
		}
		if r.got[i].Status == "firing" {
			a := r.got[i]
			return &a
		}
	}
	return nil
}

// Await waits for an alert with these labels.
func (r *Receiver) Await(ctx context.Context, labels map[string]string) (*Alert, error) {
	var a *Alert
	err := plane.Eventually(ctx, fmt.Sprintf("the alert %v fires", labels), func() error {
		if a = r.Find(labels); a == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			return fmt.Errorf("%d others have come", len(r.got))
		}
		return nil
	})
	return a, err
}
