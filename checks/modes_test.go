package checks

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/evidence"
)

// What of the order of authorizers is configured, and for which API servers; and what is known without that, by source and hour.
func TestOrderOfAuthorizers(t *testing.T) {
	undecided := func(is func(t *tick) bool) func(*Input) {
		return func(in *Input) {
			all := ticks(nil)
			for i := range all {
				if is(&all[i]) {
					all[i].ev.Decision = ""
				}
			}
			in.Ledger = ledger(all, nil)
		}
	}
	always := undecided(func(*tick) bool { return true })
	refused := func(of func(*tick) bool) func(*Input) {
		return func(in *Input) {
			all := ticks(nil)
			for i := range all {
				if of(&all[i]) {
					all[i].ev.Decision, all[i].ev.Code = "forbid", 403
				}
			}
			in.Ledger = ledger(all, nil)
		}
	}
	hour := func(h int) func(*tick) bool { return func(t *tick) bool { return t.time().Hour() == h } }
	modes := func(m ...Mode) func(*Input) { return func(in *Input) { in.Modes = m } }
	noServers := func(known bool) func(*Input) { // nor annotations
		return func(in *Input) {
			in.Servers = Servers{Known: known}
			all := ticks(nil)
			for i := range all {
				all[i].ev.Decision = ""
			}
			in.Ledger = ledger(all, func(t *tick) bool { return t.o.Node == "" })
		}
	}
	from1256 := func(in *Input) { in.MinWindow = in.Log.Until.Sub(at(12, 56, 0)) }
	told := func(in *Input) {
		in.Unreasoned = Unreasoned{At: at(14, 0, 0), User: "builder", Request: "create configmaps", AuditID: "a"}
	}
	node, rbac := Mode{"", "Node,RBAC"}, Mode{"", "RBAC"}
	servers := func(of ...Span) func(*Input) { // of which all write to one source
		return func(in *Input) {
			in.Servers = Servers{Known: true}
			for i, life := range of {
				in.Servers.Live = append(in.Servers.Live, Server{Name: fmt.Sprintf("apiserver-%d", i), Lives: []Span{life}})
			}
		}
	}
	always2 := servers(Span{From: at(1, 0, 0)}, Span{From: at(1, 0, 0)})
	of := func(n int) func(*Input) { return func(in *Input) { in.Servers.Configured = n } }
	only1, twoUsed := of(1), bySource(func(_ *tick, i int) string { return []string{"a", "b"}[i%2] })
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"nothing is configured", func(*Input) {}, []string{"passed 4/4"}},
		{"configured", modes(node), []string{"passed 1/1"}},
		{"configured, no annotations", all(always, modes(node)), []string{"passed 1/1"}},
		{"configured for all and for one", all(always, modes(node, Mode{"apiserver-0", "Node"})), []string{"passed 2/2"}},
		{"configured for the second one alone", all(always, modes(Mode{"apiserver-1", "Node"})), []string{"unproven 1/5", "unproven mode-unknown 12:00:00-16:00:00"}},
		{"configured for those in the log, and nobody knows whether there are more", all(always, modes(Mode{"apiserver-0", "Node"}, Mode{"apiserver-1", "Node"}), func(in *Input) { in.Servers = Servers{} }), []string{"unproven 2/6", "unproven mode-unknown 12:00:00-16:00:00"}},
		{"there are no API servers", noServers(true), []string{"unproven 0/4", "unproven mode-unknown 12:00:00-16:00:00"}},
		{"no annotations in a brief hour", all(undecided(hour(12)), from1256), []string{"passed 3/3"}},
		{"annotations in a brief hour", from1256, []string{"passed 4/4"}},
		{"no annotations in a part of a brief hour", all(undecided(func(t *tick) bool { return t.time().Hour() == 12 && t.time().Second() < 30 }), from1256), []string{"unproven 3/4", "unproven decisions-missing 12:00:00-13:00:00"}},
		{"no requests in a brief hour", all(without(hour(12)), from1256), []string{"passed 3/3"}},
		{"configured for the only one", all(noServers(true), modes(Mode{"apiserver-0", "Node"}), func(in *Input) {
			in.Servers.Live = []Server{{Name: "apiserver-0", Lives: []Span{{From: at(1, 0, 0)}}}}
		}), []string{"passed 1/1"}},
		{"nobody denies", modes(Mode{"", "AlwaysDeny"}), []string{"failed 0/1", "failed node-not-configured"}},
		{"denials before Node", modes(Mode{"", "AlwaysDeny,Node"}), []string{"passed 1/1"}},
		{"one is without", modes(Mode{"apiserver-0", "Node,RBAC"}, Mode{"apiserver-1", "RBAC"}), []string{"failed 1/2", "failed node-not-configured apiserver-1"}},
		{"all are without", modes(rbac), []string{"failed 0/1", "failed node-not-configured"}},
		{"without reasons, of others in the first order", all(told, modes(Mode{"", "Node,ABAC"}, Mode{"apiserver-0", "Node"})), []string{"passed 2/2"}},
		{"without reasons, of others for one server", all(always2, told, modes(Mode{"apiserver-0", "Node,ABAC"})), []string{
			"unproven 5/5", "unproven allowed-without-reason 14:00:00-14:00:00: create configmaps", "passed mode-of-some-servers 12:00:00-16:00:00 1/2",
		}},
		{"without reasons, when the window begins", all(told, func(in *Input) { in.Unreasoned.At = in.Log.Until.Add(-in.MinWindow) }), []string{"passed 4/4"}},
		{"no annotations in an hour", undecided(hour(13)), []string{"unproven 3/4", "unproven mode-unknown 13:00:00-14:00:00"}},
		{"no annotations in the last hour", undecided(hour(15)), []string{"unproven 3/4", "unproven mode-unknown 15:00:00-16:00:00"}},
		{"no annotations in some minutes", undecided(func(t *tick) bool { return t.time().Hour() == 13 && t.time().Minute() < 10 }), []string{"unproven 3/4", "unproven decisions-missing 13:00:00-14:00:00"}},
		{"refused in an hour", refused(hour(13)), []string{"failed 3/4", "failed node-not-first 13:00:00-14:00:00"}},
		{"refused in some minutes, and no annotations in others", func(in *Input) {
			all := ticks(nil)
			for i := range all {
				switch m := all[i].time().Minute(); {
				case all[i].time().Hour() != 13:
				case m < 10:
					all[i].ev.Decision, all[i].ev.Code = "forbid", 403
				case m < 20:
					all[i].ev.Decision = ""
				}
			}
			in.Ledger = ledger(all, nil)
		}, []string{"failed 3/4", "failed node-not-first 13:00:00-14:00:00"}},
		{"refused before the window", refused(func(t *tick) bool { return t.time().Before(at(12, 15, 0)) }), []string{"passed 4/4"}},
		{"a source at the beginning of an hour alone", all(bySource(func(t *tick, _ int) string {
			if h, m := t.time().Hour(), t.time().Minute(); h == 13 && m < 5 {
				return "b"
			}
			return "a"
		}), only1), []string{"passed 5/5"}},
		{"a source before the window alone", all(bySource(func(t *tick, _ int) string {
			if t.time().Before(at(12, 15, 0)) {
				return "b"
			}
			return "a"
		}), only1), []string{"passed 4/4"}},
		{"no requests in two hours", without(func(t *tick) bool { return t.time().Hour() == 13 || t.time().Hour() == 14 }), []string{"unproven 2/4", "unproven mode-unknown 13:00:00-15:00:00"}},
		{"no requests in two hours, but configured", all(without(func(t *tick) bool { return t.time().Hour() == 13 || t.time().Hour() == 14 }), modes(node)), []string{"passed 1/1"}},
		{"two versions", func(in *Input) { in.Versions[1].Moved, in.Versions[2].Doubts = true, 1 }, []string{"unproven 4/4", "unproven version-moved 13:00:00-15:00:00"}},
		{"two versions, configured", all(func(in *Input) { in.Versions[1].Moved = true }, modes(node)), []string{"unproven 1/1", "unproven version-moved 13:00:00-14:00:00"}},
		{"two versions, and others for one server", all(always2, func(in *Input) { in.Versions[1].Moved = true }, modes(Mode{"apiserver-0", "Node,ABAC"})), []string{
			"unproven 5/5", "unproven version-moved 13:00:00-14:00:00", "passed mode-of-some-servers 12:00:00-16:00:00 1/2",
		}},
		{"two versions, and others that are configured", all(func(in *Input) { in.Versions[1].Moved = true }, modes(Mode{"", "Node,ABAC"})), []string{"passed 1/1"}},
		{"two servers, and one source", always2, []string{"passed 4/4", "passed mode-of-some-servers 12:00:00-16:00:00 1/2"}},
		{"two servers, and one source, configured", all(always2, modes(node)), []string{"passed 1/1"}},
		{"two servers by their renewals", servers(), []string{"passed 4/4", "passed mode-of-some-servers 12:00:00-16:00:00 1/2"}},
		{"two servers, one after the other", servers(Span{at(1, 0, 0), at(14, 0, 0)}, Span{From: at(14, 0, 0)}), []string{"passed 4/4"}},
		{"two servers for a minute", servers(Span{at(1, 0, 0), at(14, 1, 0)}, Span{From: at(14, 0, 0)}), []string{"passed 4/4", "passed mode-of-some-servers 14:00:00-15:00:00 1/2"}},
		{"two servers before the window", servers(Span{at(1, 0, 0), at(12, 20, 0)}, Span{From: at(12, 0, 0)}), []string{"passed 4/4"}},
		{"two servers for the seconds of a brief hour", all(servers(Span{at(1, 0, 0), at(13, 0, 0)}, Span{From: at(12, 0, 0)}), from1256), []string{"passed 4/4"}},
		{"two servers by their sources", twoUsed, []string{"passed 8/8"}},
		{"three servers, two by their sources", all(twoUsed, of(3)), []string{"passed 8/8", "passed mode-of-some-servers 12:00:00-16:00:00 2/3"}},
		{"two servers, and sources that do not tell them apart", all(twoUsed, func(in *Input) { in.Servers.Apart = false }), []string{
			"passed 8/8", "passed mode-of-some-servers 12:00:00-16:00:00 1/2",
		}},
		{"doubts, and the state is dated too early", func(in *Input) { in.Behind, in.Versions[1].Doubts, in.Versions[2].Doubts = 1, 1, 1 }, []string{"unproven 4/4", "unproven clock-behind 13:00:00-15:00:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			inferred(in)
			c.change(in)
			r := nodeAuthorizerOn(in)
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// In which hours the version is known, and where the log contradicts it.
func TestHoursOfVersions(t *testing.T) {
	first := evidence.HourOf(noon)
	for _, c := range []struct {
		name     string
		versions []Version
		want     []string
	}{
		{"none", nil, []string{"unproven 0/4", "unproven version-unknown 12:00:00-16:00:00"}},
		{"each hour", []Version{{Hour: first, Minor: "1.36"}, {Hour: first + 1, Minor: "1.36"}, {Hour: first + 2, Minor: "1.36"}, {Hour: first + 3, Minor: "1.36"}}, []string{"passed 4/4"}},
		{"the first and the last", []Version{{Hour: first, Minor: "1.36"}, {Hour: first + 3, Minor: "1.36"}}, []string{"unproven 2/4", "unproven version-unknown 13:00:00-15:00:00"}},
		{"before and after", []Version{{Hour: first - 1, Minor: "1.36", Contradicted: 1}, {Hour: first + 4, Minor: "1.36", Contradicted: 1}}, []string{"unproven 0/4", "unproven version-unknown 12:00:00-16:00:00"}},
		{"contradicted at the ends", []Version{{Hour: first, Minor: "1.36", Contradicted: 1}, {Hour: first + 3, Minor: "1.36", Contradicted: 2}}, []string{"failed 2/4", "failed version-contradicted 12:00:00-13:00:00 (1)", "failed version-contradicted 15:00:00-16:00:00 (2)", "unproven version-unknown 13:00:00-15:00:00"}},
		{"the first of two servers", []Version{{Hour: first, Server: "a", Minor: "1.36"}, {Hour: first, Server: "b"}}, []string{"unproven 0/4", "unproven version-unknown 12:00:00-16:00:00"}},
		{"the second of two servers", []Version{{Hour: first, Server: "a"}, {Hour: first, Server: "b", Minor: "1.36"}}, []string{"unproven 0/4", "unproven version-unknown 12:00:00-16:00:00"}},
		{"both servers", []Version{{Hour: first, Server: "a", Minor: "1.36"}, {Hour: first, Server: "b", Minor: "1.36"}}, []string{"unproven 1/4", "unproven version-unknown 13:00:00-16:00:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			in.Versions = c.versions
			r := versionKnown(in)
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
