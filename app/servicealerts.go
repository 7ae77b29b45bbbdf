package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
	"github.com/nodetrail/nodetrail/sinks/http"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// alerting is a sink of alerts with a grouper of its own: what continues must be sent often enough for the alert to stay.
type alerting struct {
	grouper *sinks.Grouper
	sink    *alertmanager.Sink
	of      alertingOf
}

// alertingOf is the configuration of a sink of alerts, to compare it.
type alertingOf struct {
	sink       config.AlertmanagerSink
	exceptions []config.Exception
	cluster    string
	pages      string
	maxBackoff config.Duration
	maxGroups  int
}

func (a *alerting) name() string { return a.of.sink.Name }

// close ends the sink. If there is a successor, that has its alerts.
func (a *alerting) close(ctx context.Context, successor bool) error {
	a.grouper.Close()
	if successor {
		a.sink.HandOver()
		return nil
	}
	return a.sink.Close(ctx)
}

func (a *alerting) stats() []metrics.Sink {
	var out []metrics.Sink
	for _, p := range a.sink.Stats().Peers {
		out = append(out, metrics.Sink{Name: p.Name, Stats: p.QueueStats})
	}
	return out
}

func (a *alerting) alertStats() *metrics.Alerts {
	st := a.sink.Stats()
	return &metrics.Alerts{Name: st.Name, Firing: st.Firing, Resolved: st.Resolved, Folded: st.Folded, TooOld: st.TooOld, StoreFailures: st.StoreFailures}
}

// alertmanager adds a sink of alerts: that of the set if it is unchanged, or else one which takes over the alerts of the one before.
func (c *sinkChange) alertmanager(a *config.AlertmanagerSink) error {
	of := alertingOf{
		sink: *a, exceptions: c.config.Exceptions, cluster: c.config.Cluster, pages: cmp.Or(a.ExternalURL, pagesURL(c.config)),
		maxBackoff: min(c.config.Sinks.Queue.MaxBackoff, a.Resend), maxGroups: c.config.Sinks.Findings.MaxGroups,
	}
	var was *alerting
	if i := slices.IndexFunc(c.set.alerts, func(was *alerting) bool { return was.name() == a.Name }); i >= 0 {
		was = c.set.alerts[i]
	}
	if was != nil && reflect.DeepEqual(was.of, of) {
		c.alerts = append(c.alerts, was)
		return nil
	}
	least, err := rules.ParseSeverity(a.MinSeverity)
	if err != nil {
		return fmt.Errorf("minSeverity: %w", err)
	}
	runbooks := a.Runbooks
	if runbooks != "" && !strings.HasSuffix(runbooks, "/") {
		runbooks += "/"
	}
	except, recent := exceptionsOf(c.config, nil), c.set.recent
	o := alertmanager.Options{
		Name: a.Name, URLs: a.URLs, Resend: a.Resend.D(), ResolveAfter: a.ResolveAfter.D(), ExternalURL: of.pages, Runbooks: runbooks,
		MinSeverity: least, Incidents: a.Alerts != "findings", Labels: a.Labels, MaxAlerts: a.MaxAlerts, MaxBackoff: of.maxBackoff.D(),
		HTTP: http.Options{
			Username: a.Username, Password: a.Password.Reveal(), PasswordFile: a.PasswordFile, BearerToken: a.BearerToken.Reveal(),
			BearerTokenFile: a.BearerTokenFile, CAFile: a.TLS.CAFile, ServerName: a.TLS.ServerName, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile,
			Timeout: a.Timeout.D(),
		},
		Recent: func(ctx context.Context, since time.Time) ([]sinks.Finding, error) {
			all, err := recent(ctx, since)
			return unexcepted(all, except), err
		},
		Since: c.set.since, Keeper: c.set.keeper, Log: c.log,
	}
	if was != nil {
		o.Before = func(ctx context.Context) []alertmanager.Kept {
			select {
			case <-c.commit:
			case <-ctx.Done():
				return nil
			}
			was.grouper.Close() // nobody adds to it any more
			return was.sink.HandOver()
		}
	}
	sink, err := alertmanager.New(o)
	if err != nil {
		return err
	}
	c.alerts = append(c.alerts, &alerting{sink: sink, of: of, grouper: sinks.NewGrouper(sinks.GrouperOptions{
		Cluster: c.config.Cluster, Every: a.Resend.D(), MaxGroups: of.maxGroups,
	}, func(all []sinks.Finding) { sink.Add(unexcepted(all, except)) })})
	return nil
}

// alertStore is what sinks of alerts need of the store.
type alertStore struct {
	store   *store.Store
	cluster string
}

// watchKey is the key of when the cluster of a store began to be watched.
const watchKey = "watched since"

// watchedSince is when a service was first started on the store, which is stored for those that follow. What is found of before is history that somebody
// reads. A store of a version that did not note it was watched as long as it has requests.
func watchedSince(ctx context.Context, s *store.Store, now time.Time) (time.Time, error) {
	all, err := s.Alerts(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var since time.Time
	for i := range all {
		if all[i].Key == watchKey && !all[i].First.After(now) { // else the clock was wrong at that time
			since = all[i].First
		}
	}
	if !since.IsZero() {
		return since, nil
	}
	if since, err = s.Newest(ctx, now); err != nil {
		return time.Time{}, err
	}
	if since.IsZero() || since.After(now) {
		since = now
	}
	return since, s.PutAlerts(ctx, []store.Alert{{Key: watchKey, First: since, Last: since, Payload: json.RawMessage("{}")}}, nil)
}

// recent returns what the store has of each group by the hour.
func (a *alertStore) recent(ctx context.Context, since time.Time) ([]sinks.Finding, error) {
	const most = 50_000
	all, err := a.store.Recent(ctx, since, most)
	if err != nil {
		return nil, err
	}
	out := make([]sinks.Finding, len(all))
	for i := range all {
		out[i] = sinks.FromGroup(a.cluster, &all[i].Key, &all[i].Group, nil)
	}
	return out, nil
}

// Kept implements alertmanager.Keeper.
func (a *alertStore) Kept(ctx context.Context, prefix string) ([]alertmanager.Kept, error) {
	all, err := a.store.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	var out []alertmanager.Kept
	for i := range all {
		if !strings.HasPrefix(all[i].Key, prefix) {
			continue
		}
		var k alertmanager.Kept
		if err := json.Unmarshal(all[i].Payload, &k); err != nil {
			return nil, fmt.Errorf("reading the alert %q: %w", all[i].Key, err)
		}
		k.Key, k.First, k.Last = all[i].Key, all[i].First, all[i].Last
		out = append(out, k)
	}
	return out, nil
}

// Keep implements alertmanager.Keeper.
func (a *alertStore) Keep(ctx context.Context, put []alertmanager.Kept, gone []string) error {
	alerts := make([]store.Alert, len(put))
	for i := range put {
		b, err := json.Marshal(&put[i])
		if err != nil {
			return fmt.Errorf("writing the alert %q: %w", put[i].Key, err)
		}
		alerts[i] = store.Alert{Key: put[i].Key, First: put[i].First, Last: put[i].Last, Payload: b}
	}
	return a.store.PutAlerts(ctx, alerts, gone)
}

// unexcepted are the findings that no exception covers now.
func unexcepted(all []sinks.Finding, set *exceptions.Set) []sinks.Finding {
	if len(set.All()) == 0 {
		return all
	}
	now := time.Now()
	var out []sinks.Finding
	for i := range all {
		f := &all[i]
		b := f.Binding.Name
		if f.Binding.Namespace != "" {
			b = f.Binding.Namespace + "/" + b
		}
		of := exceptions.Finding{
			Rule: f.Rule, Reason: string(tally.ReasonOf(f.Reason, f.Detail)), Severity: f.Severity, Node: f.Node, Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource,
			Subresource: f.Subresource, Namespace: f.Namespace, Name: f.Name, UserAgent: f.UserAgent, Binding: b, Address: f.Params.Text(rules.ParamAddress), Allowed: f.Allowed,
		}
		of.From(&f.Origins)
		if !set.Covers(&of, now) {
			out = append(out, *f)
		}
	}
	return out
}
