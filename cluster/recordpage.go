package cluster

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// client reaches one cluster: its watches and small requests by the dynamic client, and lists, which may be long, as they come over the wire.
type client struct {
	dynamic.Interface
	raw rest.Interface
}

func newClient(config *rest.Config) (*client, error) {
	rc := dynamic.ConfigFor(config) // a copy
	rc.QPS, rc.Burst = 50, 100
	rc.GroupVersion, rc.APIPath = &schema.GroupVersion{}, "/"
	raw, err := rest.RESTClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &client{dynamic.New(raw), raw}, nil
}

// list asks for a page of the objects of a kind that are read.
func (c *client) list(ctx context.Context, of *kind, version string, limit int64, from string) (listPage, error) {
	path := []string{"api", version}
	if of.Group != "" {
		path = []string{"apis", of.Group, version}
	}
	if of.Namespace != "" {
		path = append(path, "namespaces", of.Namespace)
	}
	r := c.raw.Get().AbsPath(append(path, of.Resource)...).Param("limit", strconv.FormatInt(limit, 10))
	if of.Selector != "" {
		r = r.Param("labelSelector", of.Selector)
	}
	if from != "" {
		r = r.Param("continue", from)
	}
	res := r.Do(ctx)
	if err := res.Error(); err != nil {
		return listPage{}, err
	}
	raw, err := res.Raw()
	if err != nil {
		return listPage{}, err
	}
	return readPage(raw)
}

// listPage is a page of a list. The items are parts of the bytes that came.
type listPage struct {
	version, next string
	items         [][]byte
}

func readPage(raw []byte) (listPage, error) {
	var p listPage
	var s jscan.Scanner
	var key string
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		switch {
		case key == "metadata" && s.Peek() == jscan.Object:
			for s.Object(); s.Key(&key); {
				switch {
				case s.Peek() != jscan.String:
					s.Skip()
				case key == "resourceVersion":
					p.version = string([]byte(s.String()))
				case key == "continue":
					p.next = string([]byte(s.String()))
				default:
					s.Skip()
				}
			}
		case key == "items" && s.Peek() == jscan.Array:
			for s.Array(); s.More(); {
				p.items = append(p.items, s.Raw())
			}
		default:
			s.Skip()
		}
	}
	if s.End(); s.Err() != nil {
		return listPage{}, fmt.Errorf("reading a list: %w", s.Err())
	}
	return p, nil
}

// item decodes an item.
func item(raw []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		return nil, fmt.Errorf("reading an item of a list: %w", err)
	}
	if o.Object == nil {
		return nil, fmt.Errorf("reading an item of a list: %w", errNotAnObject)
	}
	return o, nil
}
