package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/version"
)

// mostFits bounds the versions that are named because they fit as well.
const mostFits = 12

// foundVersions are the versions by which requests were judged, by stretches of hours; nil where nothing was held against any.
func foundVersions(s *judging.Setup) []codes.Version {
	if s.Judge.Versions == nil {
		return nil
	}
	return versionsOf(s, s.Judge.Versions.Conclusions())
}

// versionsOf are those of hours that follow each other.
func versionsOf(s *judging.Setup, all []version.Conclusion) (out []codes.Version) {
	for i := range all {
		v := foundVersion(&all[i])
		v.AnyAudience = slices.ContainsFunc(append(slices.Clone(all[i].Also), all[i].Features), s.AnyAudience)
		if last := len(out) - 1; last >= 0 && sameVersion(&out[last], &v) {
			o := &out[last]
			o.To = v.To
			addCounts(o, &v)
			o.Examples = append(slices.Clip(o.Examples), v.Examples...)
			o.Examples = o.Examples[:min(len(o.Examples), 5)]
			continue
		}
		out = append(out, v)
	}
	return out
}

// addCounts adds what another stretch counted.
func addCounts(to, of *codes.Version) {
	to.Said, to.Requests, to.Open, to.Against, to.Doubts = to.Said+of.Said, to.Requests+of.Requests, to.Open+of.Open, to.Against+of.Against, to.Doubts+of.Doubts
}

// since are the versions of before, from after the oldest instant, and those that were found since. Of hours that are among both, both count.
func since(was, found []codes.Version, oldest time.Time) []codes.Version {
	kept := slices.DeleteFunc(slices.Clone(was), func(v codes.Version) bool { return !v.To.After(oldest) })
	return united(append(kept, found...))
}

func foundVersion(c *version.Conclusion) codes.Version {
	v := codes.Version{
		From: c.Hour, To: c.Hour.Add(time.Hour), Name: c.Features.Version(), FeatureGates: c.Features.NonDefault(), Basis: string(c.Basis),
		Program: c.Agent.Program, Release: c.Agent.Version, Said: c.AgentRequests, Requests: c.Requests, Open: c.Open, Against: c.Against, Examples: c.Examples,
	}
	v.Moved, v.Doubts = c.Moved, c.Doubts
	if len(v.Examples) == 0 {
		v.Examples = c.Doubted
	}
	v.AnyPod = slices.ContainsFunc(append(slices.Clone(c.Also), c.Features), readsAnyPod)
	if len(c.Also) > 0 {
		v.Also = version.Name(c.Also[0])
	}
	if c.Beyond != 0 {
		v.Beyond, v.Next = fmt.Sprintf("1.%d", c.Beyond), c.Also[0].Version()
		v.Also = ""
	}
	if c.Against > 0 || c.Basis == version.Preference {
		for _, f := range c.Fits {
			if name := version.Name(f); len(v.Fits) < mostFits && (c.Against > 0 || len(f.NonDefault()) == 0) {
				v.Fits = append(v.Fits, name)
			}
		}
	}
	switch c.Basis {
	case version.Decisions, version.UserAgent, version.Asked:
		v.Known = c.Beyond == 0
	case version.Given: // unless an API server says otherwise
		v.Known = c.Beyond == 0 && !slices.ContainsFunc(c.Servers, func(minor int) bool { return minor != c.Features.Minor })
	case version.Preference: // what the API server decided on each request fits; nothing rests on the rest
		v.Known = c.Open == 0
	}
	// One whose minor is not supported may have written a part of the hour only, by which the hour's own version does not go.
	v.Known = v.Known && !slices.ContainsFunc(c.Servers, func(minor int) bool { return minor < nodeauthz.OldestMinor || minor > nodeauthz.NewestMinor })
	return v
}

// readsAnyPod reports whether the gate is off by which API servers limit nodes to their own pods; earlier ones have none.
func readsAnyPod(f nodeauthz.Features) bool {
	return f.Minor >= selectorsSince && !f.AuthorizeNodeWithSelectors
}

// limitsNodes reports whether API servers of the version limit nodes to their own Nodes and pods, or some of them do.
func limitsNodes(v *codes.Version) bool {
	on, set := v.FeatureGates[selectorsGate]
	return on || !set && limits(v.Name) || limits(v.Also)
}

// limits says the same of a version in words, such as "1.37 emulating 1.36" or "1.33 AuthorizeNodeWithSelectors=false".
func limits(name string) bool {
	words := strings.Fields(name)
	for _, set := range []bool{true, false} {
		if slices.Contains(words, fmt.Sprintf("%s=%t", selectorsGate, set)) {
			return set
		}
	}
	if len(words) > 2 && words[1] == "emulating" {
		words = words[2:] // which the defaults of gates are by
	}
	if len(words) == 0 {
		return false
	}
	minor, err := nodeauthz.Minor(words[0])
	return err == nil && minor >= selectorsSince
}

// limitedInTheEnd reports whether some API server limits nodes to their own Nodes and pods at the end of the hours from first to last. A version of an hour is that
// of most of its requests, so in the last hour of each server that has not ended, each release that the server said counts: one of them is that of its last life.
// The gate counts as on unless it is known to be off.
func limitedInTheEnd(a *report.Authorization, ledger *evidence.Ledger, first, last evidence.Hour, ended func(server string) bool) bool {
	told := map[evidence.Hour]bool{} // those in which requests were judged by what the servers' releases need not say
	var end time.Time
	limited := false
	for i := range a.Versions {
		v := &a.Versions[i]
		for h := max(first, evidence.HourOf(v.From)); h <= last && h.Start().Before(v.To); h++ {
			told[h] = told[h] || v.AnyPod || v.Basis == string(version.Given)
			if h.End().After(end) {
				end, limited = h.End(), false
			}
			limited = limited || h.End().Equal(end) && limitsNodes(v)
		}
	}
	if on, set := a.FeatureGates[selectorsGate]; limited || set && !on {
		return limited
	}
	return slices.ContainsFunc(ledger.Servers(first, last), func(name string) bool {
		h := last
		for h > first && ledger.Server(name, h) == nil {
			h--
		}
		s := ledger.Server(name, h)
		return s != nil && !told[h] && !ended(name) && (s.ManyVersions || slices.ContainsFunc(s.Versions, limits))
	})
}

// selectorsSince is the minor since which API servers limit nodes to their own pods by default.
const (
	selectorsSince = 32
	selectorsGate  = "AuthorizeNodeWithSelectors"
)

func sameVersion(a, b *codes.Version) bool {
	return a.To.Equal(b.From) && a.Name == b.Name && maps.Equal(a.FeatureGates, b.FeatureGates) && a.Also == b.Also && a.Beyond == b.Beyond &&
		a.Basis == b.Basis && a.Program == b.Program && a.Release == b.Release && a.Known == b.Known && slices.Equal(a.Fits, b.Fits) &&
		(a.Against > 0) == (b.Against > 0) && a.Moved == b.Moved && (a.Doubts > 0) == (b.Doubts > 0) && a.AnyPod == b.AnyPod && a.AnyAudience == b.AnyAudience
}

// versions are those of the hours of the window. Of hours before run was started last the ledger tells which API servers wrote the log; requests were
// judged by the version that was in force at the start.
func (p *proof) versions(in *checks.Input) (out []checks.Version) {
	if p.to.IsZero() {
		return nil
	}
	first, last := p.hours(in)
	told, judged := map[evidence.Hour]bool{}, p.facts.Authorization.KubernetesVersion
	if all := p.facts.Authorization.Versions; len(all) > 0 {
		judged = all[0].Name
	}
	for i := range p.facts.Authorization.Versions {
		v := &p.facts.Authorization.Versions[i]
		for h := max(first, evidence.HourOf(v.From)); h <= last && h.Start().Before(v.To); h++ {
			told[h] = true
			x := checks.Version{
				Hour: h, Given: v.Basis == string(version.Given), Features: v.Name, Moved: v.Moved, Doubts: v.Doubts, AnyPod: v.AnyPod,
				AnyAudience: v.AnyAudience,
			}
			if v.Moved || v.Doubts > 0 {
				x.AuditIDs = v.Examples
			}
			if v.Known {
				x.Minor = v.Name
			}
			out = append(out, x)
		}
		if n := len(out); n > 0 && v.Against > 0 && out[n-1].Hour >= evidence.HourOf(v.From) {
			x := &out[n-1]
			x.Minor, x.Contradicted, x.AuditIDs = v.Name, v.Against, v.Examples
		}
	}
	for h := first; h <= last; h++ {
		for _, name := range p.ledger.Servers(h, h) {
			if told[h] {
				continue
			}
			s := p.ledger.Server(name, h)
			for _, release := range s.Versions {
				x := checks.Version{Hour: h, Server: name}
				if minor, err := nodeauthz.Minor(release); err == nil && !s.ManyVersions && fmt.Sprintf("1.%d", minor) == judged {
					x.Minor = judged
				}
				out = append(out, x)
			}
		}
	}
	return out
}

// hours are those of the window.
func (p *proof) hours(in *checks.Input) (first, last evidence.Hour) {
	return evidence.HourOf(p.to.Add(-in.MinWindow)), evidence.HourOf(p.to)
}

// limited reports whether an API server limits nodes to their own Nodes and pods at the end of the window.
func (p *proof) limited(in *checks.Input) bool {
	if p.to.IsZero() {
		return false
	}
	first, last := p.hours(in)
	return limitedInTheEnd(&p.facts.Authorization, p.ledger, first, last, func(server string) bool {
		return slices.ContainsFunc(in.Servers.Live, func(s checks.Server) bool { return s.Name == server && s.Ended != (checks.Span{}) })
	})
}

// versions says that the log shows the version, unless the user gave one.
func (a *Authorization) versions() *judging.Versions {
	t := &judging.Versions{Given: a.KubernetesVersion != "", Gates: a.FeatureGates}
	if t.Given {
		t.Beyond = beyond(a.KubernetesVersion)
	}
	return t
}

// beyond is the minor of a version that is not supported, 0 for one that is.
func beyond(given string) int {
	if _, exact, err := nodeauthz.Nearest(given); err != nil || exact {
		return 0
	}
	minor, _ := nodeauthz.Minor(given)
	return minor
}

// Assumed says what is assumed of a version that nobody supports, in one sentence; "" of one that is supported, or of none.
func (a *Authorization) Assumed() string {
	minor, err := nodeauthz.Minor(a.KubernetesVersion)
	nearest, second := nodeauthz.NearestMinors(minor)
	if err != nil || nearest == minor {
		return ""
	}
	return fmt.Sprintf("Kubernetes 1.%d is not supported (1.%d to 1.%d are): requests are judged by 1.%d, and are unknown where 1.%d and 1.%d differ",
		minor, nodeauthz.OldestMinor, nodeauthz.NewestMinor, nearest, min(nearest, second), max(nearest, second))
}

// wasFeatures are those by which run judges, as it stored them, unless its configuration says them.
func wasFeatures(c *config.Config, was *report.Authorization) (nodeauthz.Features, error) {
	own, emulated, emulates := strings.Cut(was.KubernetesVersion, " emulating ")
	f, err := c.Authorization.Features(own)
	if err != nil || c.Authorization.KubernetesVersion != "" {
		return f, err
	}
	if emulates {
		if f, err = f.Emulating(emulated); err != nil {
			return f, err
		}
	}
	for name, on := range was.FeatureGates {
		if err := f.Set(name, on); err != nil {
			return f, err
		}
	}
	return f, nil
}
