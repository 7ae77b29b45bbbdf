package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// EtcdSnapshot takes a snapshot of etcd over its API, as 'etcdctl snapshot save' does, and writes it to the file.
func (p *Plane) EtcdSnapshot(ctx context.Context, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	err = p.askEtcd(ctx, "maintenance/snapshot", struct{}{}, func(d *json.Decoder) error {
		for {
			var part struct {
				Result struct{ Blob []byte }
				Error  any
			}
			if err := d.Decode(&part); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if part.Error != nil {
				return fmt.Errorf("%v", part.Error)
			}
			if _, err := f.Write(part.Result.Blob); err != nil {
				return err
			}
		}
	})
	return errors.Join(err, f.Close())
}

// EtcdSnapshotAfter takes a snapshot that tells all of what was before the call: two objects are made after it, by whose times it can be known. Times of objects have
// whole seconds.
func (p *Plane) EtcdSnapshotAfter(ctx context.Context, path string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Second):
	}
	for range 2 {
		o := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "after-" + newUUID()}}
		if err := p.Create(ctx, o); err != nil {
			return err
		}
	}
	return p.EtcdSnapshot(ctx, path)
}

// EtcdRevision is etcd's latest revision.
func (p *Plane) EtcdRevision(ctx context.Context) (revision int64, err error) {
	var status struct {
		Header struct {
			Revision int64 `json:",string"`
		}
	}
	err = p.askEtcd(ctx, "maintenance/status", struct{}{}, func(d *json.Decoder) error { return d.Decode(&status) })
	return status.Header.Revision, err
}

// CompactEtcd forgets what was before a revision, and waits until it is gone.
func (p *Plane) CompactEtcd(ctx context.Context, revision int64) error {
	return p.askEtcd(ctx, "kv/compaction", map[string]any{"revision": revision, "physical": true}, func(*json.Decoder) error { return nil })
}

func (p *Plane) askEtcd(ctx context.Context, method string, body any, read func(*json.Decoder) error) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("asking etcd for %s: %w", method, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.etcd+"/v3/"+method, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("asking etcd for %s: %w", method, err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("asking etcd for %s: %s: %s", method, resp.Status, text)
	}
	if err := read(json.NewDecoder(resp.Body)); err != nil {
		return fmt.Errorf("asking etcd for %s: %w", method, err)
	}
	return nil
}
