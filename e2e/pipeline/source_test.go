package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/internal/demo"
	"github.com/nodetrail/nodetrail/internal/demo/play"
)

// source makes requests whose audit events are posted to the gateway and stand in a log.
type source interface {
	name() string
	// start lets events flow to where the kubeconfig for audit webhooks says, and returns the files with the state that they are judged by.
	start(t *testing.T, webhook string) (state []string)
	// probe makes a request by which the node reads a secret that is not its business, and gets it. It returns when the request was made.
	probe(ctx context.Context, node string) (time.Time, error)
	// stop ends the flow. When it returns the gateway has taken all events that were logged until the time that it returns.
	stop(t *testing.T) time.Time
	// log is the audit log's path.
	log() string
	// processes are those that are looked at for what they use.
	processes() map[string]*plane.Process
}

// captured plays the bundled capture of a cluster as if it happened now, again and again.
type captured struct {
	path   string
	player *play.Player
	hook   *play.Webhook
	cancel context.CancelFunc
	ended  chan error
	post   context.Context
	posts  sync.WaitGroup

	mu     sync.Mutex
	file   *os.File
	failed error
}

// rounds are more than a test takes; one lasts 79 s.
const rounds = 8

func (c *captured) name() string { return "The bundled capture, posted as by kube-apiserver" }
func (c *captured) log() string  { return c.path }

func (c *captured) processes() map[string]*plane.Process { return nil }

func (c *captured) start(t *testing.T, webhook string) []string {
	t.Helper()
	dir := t.TempDir()
	c.path = filepath.Join(dir, "audit.log")
	c.file = plane.Must(os.Create(c.path))(t)
	open := func(b []byte) play.Opener {
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
	}
	c.player = plane.Must(play.New(play.Options{
		Log: open(demo.AuditLog()), State: &play.Journal{Open: open(demo.Journal()), Name: "the capture's journal"},
		Start: time.Now(), Rounds: rounds, Clock: play.WallClock{},
	}))(t)
	state := filepath.Join(dir, "journal.jsonl.gz")
	f := plane.Must(os.Create(state))(t)
	z := gzip.NewWriter(f)
	plane.Check(t, errors.Join(c.player.WriteJournal(z), z.Close(), f.Close()))

	var to struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     string `yaml:"certificate-authority"`
			}
		}
		Users []struct {
			User struct {
				Cert string `yaml:"client-certificate"`
				Key  string `yaml:"client-key"`
			}
		}
	}
	plane.Check(t, yaml.Unmarshal(plane.Must(os.ReadFile(webhook))(t), &to))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(plane.Must(os.ReadFile(to.Clusters[0].Cluster.CA))(t))
	pair := plane.Must(tls.LoadX509KeyPair(to.Users[0].User.Cert, to.Users[0].User.Key))(t)
	c.hook = plane.Must(play.NewWebhook(play.WebhookOptions{
		URL: to.Clusters[0].Cluster.Server, Patience: plane.Patience(),
		Client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 4,
		}},
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	posting, give := context.WithCancel(context.Background())
	c.cancel, c.post, c.ended = cancel, posting, make(chan error, 1)
	go func() {
		_, err := c.player.Play(ctx, c)
		c.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		give()
		c.posts.Wait()
		_ = c.file.Close() // it is only read by now
	})
	return []string{state}
}

// Send implements play.Sink. As an API server does, it does not wait for one batch before it posts the next.
func (c *captured) Send(ctx context.Context, events []play.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// All that the log has is posted: so nothing is written when the flow has ended.
	if ctx.Err() != nil || c.failed != nil {
		return errors.Join(ctx.Err(), c.failed)
	}
	if err := (play.Lines{W: c.file}).Send(ctx, events); err != nil {
		return err
	}
	c.posts.Go(func() {
		if err := c.hook.Send(c.post, events); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = errors.Join(c.failed, err)
		}
	})
	return nil
}

func (c *captured) probe(ctx context.Context, node string) (time.Time, error) {
	now := time.Now()
	const format = "2006-01-02T15:04:05.000000Z"
	event, err := json.Marshal(map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "probe-of-" + node, "stage": "ResponseComplete",
		"requestURI": "/api/v1/namespaces/" + probeNamespace + "/secrets/" + probeSecret, "verb": "get",
		"user":      map[string]any{"username": "system:node:" + node, "groups": []string{"system:nodes", "system:authenticated"}},
		"sourceIPs": []string{"127.0.0.1"}, "userAgent": "curl/8.5.0",
		"objectRef":                map[string]any{"resource": "secrets", "namespace": probeNamespace, "name": probeSecret, "apiVersion": "v1"},
		"responseStatus":           map[string]any{"metadata": map[string]any{}, "code": 200},
		"requestReceivedTimestamp": now.UTC().Format(format), "stageTimestamp": now.UTC().Format(format),
		"annotations": map[string]string{"authorization.k8s.io/decision": "allow",
			"authorization.k8s.io/reason": `RBAC: allowed by ClusterRoleBinding "old:nodes" of ClusterRole "reader" to Group "system:nodes"`},
	})
	if err != nil {
		return now, fmt.Errorf("writing the event of a probe: %w", err)
	}
	return now, c.Send(ctx, []play.Event{{Key: node, JSON: event}})
}

func (c *captured) stop(t *testing.T) time.Time {
	t.Helper()
	c.cancel()
	if err := <-c.ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the capture ended before the test: %v", err)
	}
	c.posts.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	plane.Check(t, c.failed)
	return time.Now()
}
