package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Dashboard is one dashboard of Grafana, as far as those here differ.
type Dashboard struct {
	// UID is fixed: links and bookmarks have it. The file is its last part.
	UID         string
	Title       string
	Description string
	// Since is the time range that is shown at first, such as "now-24h".
	Since     string
	Variables []Variable
	Rows      []Row
}

// Row is a heading with its panels, which are laid out from left to right.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one panel.
type Panel struct {
	Kind        Kind
	Title       string
	Description string
	// Width is in Grafana's 24 columns, Height in its units.
	Width, Height int
	// Unit is one of Grafana's names of units.
	Unit    string
	Queries []Query
	// Text is the Markdown of a Text.
	Text string
	// Bad is from where on a value is red, 0 for nowhere; with Inverse a value below is.
	Bad     float64
	Inverse bool
	// Bars draws bars that are stacked; by default there are lines.
	Bars bool
	// NodeLink leads from a row of a table to the page of its node.
	NodeLink bool
}

// Kind is a kind of panel.
type Kind string

// The kinds in use.
const (
	Stat  Kind = "stat"
	Graph Kind = "timeseries"
	Table Kind = "table"
	Text  Kind = "text"
)

// Query is a query of a panel. Those of graphs are asked for a range, others for now.
type Query struct {
	Expr   string
	Legend string
	// Exemplars asks for exemplars too.
	Exemplars bool
}

// Variable is a variable in addition to those that all dashboards have.
type Variable struct {
	Name, Label, Description string
	// Query is for the values that Prometheus has.
	Query string
	// Choices are the values where there is no Query; the first is chosen at first.
	Choices []string
	// All lets all values be chosen.
	All bool
}

type object = map[string]any

// JSON is the dashboard as Grafana imports it. Parts that Grafana fills in by itself are left out.
func (d *Dashboard) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(object{
		"uid": d.UID, "title": "nodetrail / " + d.Title, "description": d.Description, "tags": []string{"nodetrail"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser", "refresh": "30s",
		"time":        object{"from": d.Since, "to": "now"},
		"annotations": object{"list": []any{}},
		"templating":  object{"list": d.variables()},
		"links":       d.links(),
		"panels":      d.panels(),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the dashboard %s: %w", d.UID, err)
	}
	return b.Bytes(), nil
}

// File is the name of the dashboard's file.
func (d *Dashboard) File() string { return strings.TrimPrefix(d.UID, "nodetrail-") + ".json" }

func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

func (d *Dashboard) variables() []any {
	list := []any{
		object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "hide": 0, "regex": ""},
	}
	all := append([]Variable{{
		Name: "cluster", Label: "Cluster", Description: "The label cluster that Prometheus gives what it scrapes. Without one: All.",
		Query: "label_values(nodetrail_build_info, cluster)", All: true,
	}}, d.Variables...)
	for _, v := range all {
		o := object{"name": v.Name, "label": v.Label, "description": v.Description, "hide": 0, "multi": false, "includeAll": v.All}
		if v.Query != "" {
			o["type"], o["datasource"], o["refresh"], o["sort"] = "query", datasource(), 2, 1
			o["query"] = object{"query": v.Query, "refId": v.Name}
		} else {
			o["type"], o["query"] = "custom", strings.Join(v.Choices, ",")
			o["current"] = object{"text": v.Choices[0], "value": v.Choices[0]}
		}
		if v.All {
			// Where the label is not there at all, everything must match too.
			o["allValue"], o["multi"], o["current"] = ".*", true, object{"text": []string{"All"}, "value": []string{"$__all"}}
		}
		list = append(list, o)
	}
	return append(list, object{
		"name": "externalURL", "label": "nodetrail", "description": "Where the pages of nodetrail are: its externalURL.", "type": "textbox", "hide": 0,
		"query": PagesURL, "current": object{"text": PagesURL, "value": PagesURL},
	})
}

// PagesURL is where the pages of nodetrail are by default.
const PagesURL = "http://127.0.0.1:9876"

func (d *Dashboard) links() []any {
	var list []any
	for _, other := range All() {
		if other.UID != d.UID {
			list = append(list, object{
				"type": "link", "title": other.Title, "tooltip": other.Description, "url": "/d/" + other.UID, "icon": "dashboard",
				"includeVars": true, "keepTime": true, "targetBlank": false, "asDropdown": false, "tags": []string{},
			})
		}
	}
	return append(list, object{
		"type": "link", "title": "Pages of nodetrail", "tooltip": "The report and its findings", "url": "${externalURL}", "icon": "external link",
		"includeVars": false, "keepTime": false, "targetBlank": true, "asDropdown": false, "tags": []string{},
	})
}

// panels lays the rows out.
func (d *Dashboard) panels() []any {
	var list []any
	y := 0
	for _, r := range d.Rows {
		list = append(list, object{
			"id": len(list) + 1, "type": "row", "title": r.Title, "collapsed": false, "panels": []any{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1},
		})
		y++
		x, high := 0, 0
		for i := range r.Panels {
			p := &r.Panels[i]
			if x+p.Width > 24 {
				x, y, high = 0, y+high, 0
			}
			o := p.object()
			o["id"], o["gridPos"] = len(list)+1, object{"x": x, "y": y, "w": p.Width, "h": p.Height}
			list = append(list, o)
			x, high = x+p.Width, max(high, p.Height)
		}
		y += high
	}
	return list
}

func (p *Panel) object() object {
	o := object{"type": string(p.Kind), "title": p.Title, "description": p.Description}
	if p.Kind == Text {
		o["options"] = object{"mode": "markdown", "content": p.Text}
		return o
	}
	o["datasource"], o["targets"] = datasource(), p.targets()
	defaults := object{"unit": p.Unit, "min": 0, "color": object{"mode": "palette-classic"}, "thresholds": p.thresholds()}
	config := object{"defaults": defaults, "overrides": []any{}}
	o["fieldConfig"] = config
	switch p.Kind {
	case Stat:
		defaults["color"] = object{"mode": "thresholds"}
		o["options"] = object{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case Graph:
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": "none", "group": "A"}}
		if p.Bars {
			custom["drawStyle"], custom["fillOpacity"], custom["stacking"] = "bars", 60, object{"mode": "normal", "group": "A"}
		}
		defaults["custom"] = custom
		o["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case Table:
		// Some fields of a table are names: a minimum would be theirs too.
		delete(defaults, "min")
		o["options"] = object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false}}
		o["transformations"] = []any{object{"id": "organize", "options": object{"excludeByName": object{"Time": true}}}}
		if p.NodeLink {
			config["overrides"] = []any{object{"matcher": object{"id": "byName", "options": "node"}, "properties": []any{object{"id": "links", "value": []any{object{
				"title": "This node", "url": "/d/nodetrail-node?var-node=${__data.fields.node}&${datasource:queryparam}&${cluster:queryparam}&${externalURL:queryparam}&${__url_time_range}",
			}}}}}}
		}
	}
	return o
}

func (p *Panel) targets() []any {
	var list []any
	for i, q := range p.Queries {
		o := object{
			"refId": string(rune('A' + i)), "datasource": datasource(), "editorMode": "code", "expr": q.Expr, "legendFormat": q.Legend,
			"range": p.Kind == Graph, "instant": p.Kind != Graph,
		}
		if q.Exemplars {
			o["exemplar"] = true
		}
		if p.Kind == Table {
			o["format"] = "table"
		}
		list = append(list, o)
	}
	return list
}

func (p *Panel) thresholds() object {
	steps := []any{object{"color": "green", "value": nil}}
	switch {
	case p.Bad == 0:
		steps = []any{object{"color": "text", "value": nil}}
	case p.Inverse:
		steps = []any{object{"color": "red", "value": nil}, object{"color": "green", "value": p.Bad}}
	default:
		steps = append(steps, object{"color": "red", "value": p.Bad})
	}
	return object{"mode": "absolute", "steps": steps}
}
