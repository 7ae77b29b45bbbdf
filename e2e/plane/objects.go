package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Apply creates objects from YAML documents.
func (p *Plane) Apply(ctx context.Context, documents []byte) error {
	all, err := Documents(documents)
	for _, o := range all {
		if err == nil {
			err = p.Create(ctx, o)
		}
	}
	return err
}

// Documents reads YAML documents, but for empty ones.
func Documents(documents []byte) (all []map[string]any, err error) {
	d := yaml.NewDecoder(bytes.NewReader(documents))
	for {
		var o map[string]any
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
}

// ApplyDry applies an object by a dry run on the server, as kubectl apply --server-side --dry-run=server does, with strict fields. Refusals are no errors.
func (p *Plane) ApplyDry(ctx context.Context, o map[string]any) (*Reply, error) {
	path, err := collection(o)
	if err != nil {
		return nil, err
	}
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return p.Admin().send(ctx, http.MethodPatch, path+"/"+name+"?dryRun=All&fieldManager=e2e&fieldValidation=Strict", "application/apply-patch+yaml", o)
}

// Create creates an object of which apiVersion, kind and metadata say where it belongs.
func (p *Plane) Create(ctx context.Context, o map[string]any) error {
	path, err := collection(o)
	if err != nil {
		return err
	}
	_, err = p.Admin().Must(ctx, http.MethodPost, path, o)
	return err
}

func collection(o map[string]any) (string, error) {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	if version == "" || kind == "" || meta == nil {
		return "", fmt.Errorf("an object without apiVersion, kind or metadata: %v", o)
	}
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	if ns, _ := meta["namespace"].(string); ns != "" {
		path += "/namespaces/" + ns
	}
	plural := strings.ToLower(kind) + "s"
	switch {
	case strings.HasSuffix(kind, "ss"):
		plural = strings.ToLower(kind) + "es"
	case strings.HasSuffix(kind, "y"): // NetworkPolicy
		plural = strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
	}
	return path + "/" + plural, nil
}

// ServiceAccountToken asks for a token that is valid for two hours.
func (p *Plane) ServiceAccountToken(ctx context.Context, namespace, name string) (string, error) {
	var got struct{ Status struct{ Token string } }
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	err := p.Admin().Post(ctx, path, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 7200}}, &got)
	return got.Status.Token, err
}
