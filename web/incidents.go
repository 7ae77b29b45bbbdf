package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
)

// incidentsAtMost is how many incidents are listed.
const incidentsAtMost = 100

// IncidentsPage lists incidents: the open ones first.
type IncidentsPage struct {
	Window report.Window `json:"window"`
	// Credential is whose are listed, "" for all.
	Credential string               `json:"credential"`
	Incidents  []incidents.Incident `json:"incidents"`
	// More is how many are not listed.
	More int `json:"more"`
}

// IncidentPage is one incident.
type IncidentPage struct {
	Incident incidents.Incident `json:"incident"`
}

func (d *data) incidents(ctx context.Context, credential, window string) (*IncidentsPage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	out := &IncidentsPage{Window: s.report.Window, Credential: credential, Incidents: []incidents.Incident{}}
	all := s.report.Incidents
	if more := s.report.IncidentsMore; credential != "" && len(more) > 0 {
		if all, err = d.someIncidents(ctx, s.from, incidentsAtMost, func(in *incidents.Incident) bool { return in.Credential == credential }); err != nil {
			return nil, err
		}
	} else {
		for _, n := range more {
			out.More += n
		}
	}
	for i := range all {
		in := &all[i]
		switch {
		case credential != "" && in.Credential != credential:
		case len(out.Incidents) == incidentsAtMost:
			out.More++
		default:
			out.Incidents = append(out.Incidents, *in)
		}
	}
	return out, nil
}

func (d *data) incident(ctx context.Context, id string) (*IncidentPage, error) {
	s, err := d.snapshot(ctx, "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.report.Incidents, func(in incidents.Incident) bool { return in.ID == id })
	if i >= 0 {
		return &IncidentPage{Incident: s.report.Incidents[i]}, nil
	}
	if len(s.report.IncidentsMore) == 0 {
		return nil, errNotFound
	}
	all, err := d.someIncidents(ctx, time.Time{}, 1, func(in *incidents.Incident) bool { return in.ID == id })
	if err != nil || len(all) == 0 {
		return nil, cmp.Or(err, errNotFound)
	}
	return &IncidentPage{Incident: all[0]}, nil
}

// someIncidents reads those that are chosen, where a window has too many to be kept.
func (d *data) someIncidents(ctx context.Context, from time.Time, most int, chosen func(*incidents.Incident) bool) ([]incidents.Incident, error) {
	all, _, err := d.o.Incidents(ctx, from, chosen, most)
	if err != nil {
		return nil, d.unavailable(ctx, err)
	}
	return report.SayIncidents(all, nil), nil
}

// openIncidents are those of a report that are open.
func openIncidents(r *report.Report) []incidents.Incident {
	out := []incidents.Incident{}
	for i := range r.Incidents {
		if in := &r.Incidents[i]; in.State == incidents.Open && len(out) < incidentsAtMost {
			out = append(out, *in)
		}
	}
	return out
}

func (p *pages) incidents(r *http.Request) (*view, error) {
	q := r.URL.Query()
	l, err := p.data.incidents(r.Context(), q.Get("credential"), q.Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"incidents", "Incidents", l}, nil
}

func (p *pages) incident(r *http.Request) (*view, error) {
	in, err := p.data.incident(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return &view{"incident", "Incident of " + shown(report.WhoseCredential(&in.Incident)), in}, nil
}

// IncidentURL leads to an incident.
func (p *page) IncidentURL(id string) string { return p.with(under("/incidents/", id)) }
