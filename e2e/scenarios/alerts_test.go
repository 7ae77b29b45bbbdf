package scenarios

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// receiver is what an Alertmanager notifies.
type receiver struct {
	// manager is the Alertmanager's address.
	manager string
	mu      sync.Mutex
	got     []alert
}

// alert is one as Alertmanager's webhook has it, and when it came.
type alert struct {
	Status              string
	Labels, Annotations map[string]string
	StartsAt            time.Time
	at                  time.Time
}

// newReceiver starts an Alertmanager that tells it of everything at once.
func newReceiver(t *testing.T, name string) *receiver {
	t.Helper()
	r := &receiver{manager: must(plane.FreeAddress())(t)}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with the process at the latest
	t.Cleanup(func() { _ = server.Close() })
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Fatalf("%v: run e2e/install.sh", err)
	}
	config := filepath.Join(work.Dir, "alertmanager-"+name+".yaml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, `route: {receiver: test, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: "http://%s/"}]}]
`, l.Addr()), 0o600))
	p := must(work.Start("alertmanager-"+name, program, []string{"--config.file=" + config, "--storage.path=" + filepath.Join(work.Dir, "alertmanager-"+name),
		"--web.listen-address=" + r.manager, "--cluster.listen-address="}))(t)
	check(t, plane.Eventually(t.Context(), "Alertmanager is ready", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: 10 * time.Second}).Get("http://" + r.manager + "/-/ready")
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}))
	return r
}

func (r *receiver) take(_ http.ResponseWriter, req *http.Request) {
	now := time.Now()
	var body struct{ Alerts []alert }
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return // not Alertmanager's
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range body.Alerts {
		a.at = now
		r.got = append(r.got, a)
	}
}

// find returns the first alert that fires with these labels, nil if none has come.
func (r *receiver) find(labels map[string]string) *alert {
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

// alerted waits for an alert with these labels.
func (w *world) alerted(t *testing.T, labels map[string]string) *alert {
	t.Helper()
	var a *alert
	w.eventually(t, fmt.Sprintf("the alert %v fires", labels), func() error {
		if a = w.alerts.find(labels); a == nil {
			return fmt.Errorf("%d others have come", len(w.alerts.got))
		}
		return nil
	})
	return a
}
