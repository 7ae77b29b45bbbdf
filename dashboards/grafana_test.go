package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// imported is what Grafana reads of a dashboard, as far as the tests look at it.
type imported struct {
	UID, Title, Description string
	SchemaVersion           int
	Tags                    []string
	Links                   []struct{ Title, URL string }
	Templating              struct {
		List []struct {
			Name, Label, Type string
			Datasource        map[string]string
			IncludeAll        bool
			AllValue          string
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               map[string]string
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Options                  struct{ Content string }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                map[string]string
			Range, Instant            bool
		}
	}
}

func read(t *testing.T, d *Dashboard) imported {
	t.Helper()
	b, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var out imported
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDashboards(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range All() {
		uids["/d/"+d.UID] = true
	}
	if len(uids) != 4 {
		t.Errorf("%d dashboards, want four", len(uids))
	}
	for _, d := range All() {
		g := read(t, d)
		if !strings.HasPrefix(g.UID, "nodetrail-") || g.Title == "" || g.Description == "" || g.SchemaVersion < 36 || len(g.Tags) != 1 {
			t.Errorf("%s: title %q, description %q, schema %d, tags %v", g.UID, g.Title, g.Description, g.SchemaVersion, g.Tags)
		}
		names := map[string]bool{}
		for _, v := range g.Templating.List {
			names[v.Name] = true
			if v.Label == "" {
				t.Errorf("%s: the variable %s has no label", g.UID, v.Name)
			}
			if v.Type == "query" && v.Datasource["uid"] != "${datasource}" {
				t.Errorf("%s: the variable %s asks %v", g.UID, v.Name, v.Datasource)
			}
			if v.IncludeAll && v.AllValue != ".*" {
				t.Errorf("%s: all of %s is %q, which leaves out what has no such label", g.UID, v.Name, v.AllValue)
			}
		}
		for _, name := range []string{"datasource", "cluster", "externalURL"} {
			if !names[name] {
				t.Errorf("%s has no variable %s", g.UID, name)
			}
		}
		linked := 0
		for _, l := range g.Links {
			if uids[l.URL] && l.URL != "/d/"+g.UID {
				linked++
			} else if l.URL != "${externalURL}" {
				t.Errorf("%s has a link to %s", g.UID, l.URL)
			}
		}
		if linked != 3 || len(g.Links) != 4 {
			t.Errorf("%s has links to %d other dashboards, and %d in all", g.UID, linked, len(g.Links))
		}
	}
}

func TestPanels(t *testing.T) {
	for _, d := range All() {
		g := read(t, d)
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range g.Panels {
			where := fmt.Sprintf("%s: %s", g.UID, p.Title)
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: the ID %d is not its own", where, p.ID)
			}
			ids[p.ID] = true
			pos := p.GridPos
			if pos.X < 0 || pos.X+pos.W > 24 || pos.W <= 0 || pos.H <= 0 {
				t.Errorf("%s: lies outside: %+v", where, pos)
			}
			for x := pos.X; x < pos.X+pos.W; x++ {
				for y := pos.Y; y < pos.Y+pos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s lies over %s", where, other)
					}
					taken[[2]int{x, y}] = where
				}
			}
			switch p.Type {
			case "row":
				continue
			case string(Text):
				if p.Options.Content == "" {
					t.Errorf("%s has no text", where)
				}
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource["uid"] != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s lacks a title, a description (%q), a unit (%q), queries, or the data source (%v)", where, p.Description, p.FieldConfig.Defaults.Unit, p.Datasource)
			}
			for _, q := range p.Targets {
				if q.Datasource["uid"] != "${datasource}" || q.Range == q.Instant || q.Range != (p.Type == string(Graph)) {
					t.Errorf("%s: query %s: %+v", where, q.RefID, q)
				}
				if !strings.Contains(q.Expr, `cluster=~"$cluster"`) {
					t.Errorf("%s: query %s leaves the cluster out: %s", where, q.RefID, q.Expr)
				}
				if p.Type == string(Graph) && q.LegendFormat == "" {
					t.Errorf("%s: query %s has no legend", where, q.RefID)
				}
			}
		}
	}
}
