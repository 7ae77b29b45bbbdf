package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

const (
	namespaces = 4
	secrets    = 6
	sets       = 3
)

// churn makes pods come and go.
type churn struct {
	plane *plane.Plane
	nodes []string
	rnd   *rand.Rand
	// refused counts what the API server did not take, which may be: two changes of one object at once.
	refused int
}

type object = map[string]any

func meta(namespace, name string) object { return object{"namespace": namespace, "name": name} }

// template is what pods are made from: each uses secrets and config maps of its namespace, and a token.
func template(app string, secret, config int) object {
	return object{
		"metadata": object{"labels": object{"app": app}},
		"spec": object{
			"terminationGracePeriodSeconds": 1,
			"containers": []any{object{
				"name": "main", "image": "registry.example/main",
				"envFrom": []any{object{"secretRef": object{"name": fmt.Sprint("secret-", secret)}}},
			}},
			"volumes": []any{
				object{"name": "config", "configMap": object{"name": fmt.Sprint("config-", config)}},
				object{"name": "key", "secret": object{"secretName": fmt.Sprint("secret-", (secret+1)%secrets)}},
			},
		},
	}
}

// setUp makes the objects: deployments, stateful sets, whose pods have the same names wherever they are, and a cron job a namespace.
func (c *churn) setUp(ctx context.Context) error {
	for n := range namespaces {
		ns := fmt.Sprint("churn-", n)
		all := []object{{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": ns}}}
		for i := range secrets {
			all = append(all,
				object{"apiVersion": "v1", "kind": "Secret", "metadata": meta(ns, fmt.Sprint("secret-", i)), "stringData": object{"key": "value"}},
				object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(ns, fmt.Sprint("config-", i)), "data": object{"key": "value"}})
		}
		for i := range sets {
			for _, kind := range []string{"Deployment", "StatefulSet"} {
				app := fmt.Sprintf("%s-%d", map[string]string{"Deployment": "web", "StatefulSet": "db"}[kind], i)
				spec := object{"replicas": 1, "selector": object{"matchLabels": object{"app": app}}, "template": template(app, i, i)}
				if kind == "StatefulSet" {
					spec["serviceName"], spec["podManagementPolicy"] = app, "Parallel"
				}
				all = append(all, object{"apiVersion": "apps/v1", "kind": kind, "metadata": meta(ns, app), "spec": spec})
			}
		}
		job := template("job", 3, 3)
		job["spec"].(object)["restartPolicy"] = "Never"
		all = append(all, object{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta(ns, "cron"), "spec": object{
			"schedule": "* * * * *", "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
			// The runtime never ends a container: the deadline does.
			"jobTemplate": object{"spec": object{"parallelism": 2, "completions": 2, "backoffLimit": 0, "activeDeadlineSeconds": 20, "template": job}},
		}})
		for _, o := range all {
			if err := c.plane.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// run changes something every 5 s, and lets a node ask for something thirty times a second, until the time is over. It calls between all the time.
func (c *churn) run(ctx context.Context, d time.Duration, between func(context.Context) error) error {
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	end := time.Now().Add(d)
	for n := 0; time.Now().Before(end); n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if n%150 == 0 {
			if err := c.change(ctx); err != nil {
				return err
			}
		}
		if err := errors.Join(c.probe(ctx), between(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// change scales or rolls a set, or deletes one of its pods.
func (c *churn) change(ctx context.Context) error {
	ns, i := fmt.Sprint("churn-", c.rnd.IntN(namespaces)), c.rnd.IntN(sets)
	kind, app := "deployments", fmt.Sprint("web-", i)
	if c.rnd.IntN(2) == 0 {
		kind, app = "statefulsets", fmt.Sprint("db-", i)
	}
	method, path, body := http.MethodPatch, "/apis/apps/v1/namespaces/"+ns+"/"+kind+"/"+app, object{"spec": object{"replicas": c.rnd.IntN(6)}}
	switch c.rnd.IntN(6) {
	case 0:
		body = object{"spec": object{"template": template(app, c.rnd.IntN(secrets), c.rnd.IntN(secrets))}}
	case 1, 2:
		method, path, body = http.MethodDelete, fmt.Sprintf("/api/v1/namespaces/%s/pods/db-%d-%d?gracePeriodSeconds=%d", ns, i, c.rnd.IntN(4), c.rnd.IntN(2)), nil
	}
	var r *plane.Reply
	var err error
	if body == nil {
		r, err = c.plane.Admin().Do(ctx, method, path, nil)
	} else {
		r, err = c.plane.Admin().Do(ctx, method, path, body)
	}
	if err != nil {
		return err
	}
	if r.Code >= http.StatusInternalServerError {
		return fmt.Errorf("%s %s: %d %.300s", method, path, r.Code, r.Body)
	}
	if r.Code >= http.StatusBadRequest {
		c.refused++
	}
	return nil
}

// probe lets a node ask for a secret, a config map or a pod that it may or may not have.
func (c *churn) probe(ctx context.Context) error {
	ns := fmt.Sprint("/api/v1/namespaces/churn-", c.rnd.IntN(namespaces))
	path := fmt.Sprint(ns, "/secrets/secret-", c.rnd.IntN(secrets))
	switch c.rnd.IntN(4) {
	case 0:
		path = fmt.Sprint(ns, "/configmaps/config-", c.rnd.IntN(secrets))
	case 1:
		path = fmt.Sprint(ns, "/pods/db-", c.rnd.IntN(sets), "-", c.rnd.IntN(4))
	}
	_, err := c.plane.Node(c.nodes[c.rnd.IntN(len(c.nodes))]).Do(ctx, http.MethodGet, path, nil)
	return err
}
