package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/golden"
)

// describer makes schemas of types: the description is made from the table of endpoints and the types that they answer with, whose comments it has.
type describer struct {
	schemas  map[string]any
	comments map[string]string
}

type object = map[string]any

func TestDescriptionIsCurrent(t *testing.T) {
	d := &describer{schemas: object{}, comments: comments(t)}
	want, err := json.MarshalIndent(d.document(), "", "  ")
	ok(t, err)
	want = append(want, '\n')
	if golden.Writing() {
		ok(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	if !bytes.Equal(want, description) {
		t.Error("openapi.json is not what the types say: UPDATE_GOLDEN=1 go test ./web -run TestDescriptionIsCurrent")
	}
}

func (d *describer) document() object {
	paths := object{}
	for _, e := range (&api{}).endpoints() {
		paths[apiPrefix+e.path] = object{"get": d.operation(&e)}
	}
	list := object{"type": "array", "items": d.schema(reflect.TypeFor[Finding]())}
	export := endpoint{path: "/findings.json", query: exportParameters()}
	paths["/findings.json"] = object{"get": d.answering(&export, "application/json", list)}
	export.path = "/findings.csv"
	paths["/findings.csv"] = object{"get": d.answering(&export, "text/csv", object{"type": "string"})}
	all := (&fleet{}).endpoint()
	op := d.operation(&all)
	op["description"] = "Of nodetrail report --fleet --serve. Other servers have one cluster, and no such path."
	op["responses"].(object)["404"] = failed("This server has one cluster.")
	paths[apiPrefix+all.path] = object{"get": op, "servers": []any{object{"url": "/"}}}
	own := endpoint{path: "/openapi.json"}
	paths[apiPrefix+"/openapi.json"] = object{"get": d.answering(&own, "application/json", object{"type": "object"})}
	d.schemas["Error"] = object{
		"type": "object", "additionalProperties": false, "required": []string{"error"},
		"properties": object{"error": object{"type": "string", "description": "One sentence."}},
	}
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title": "nodetrail", "version": "v1", "license": object{"name": "Apache-2.0"},
			"description": "What the pages of nodetrail show, as JSON. Every name comes from a log and is text that nobody may trust. A window ends with the last request.",
		},
		"servers": []any{
			object{"url": "/", "description": "A server of one cluster."},
			object{
				"url": clustersPrefix + "{schema}", "description": "One cluster of a server of several.",
				"variables": object{"schema": object{"default": "nodetrail_production", "description": "As " + apiPrefix + "/fleet has it, percent-escaped."}},
			},
		},
		"security": []any{object{}, object{"token": []string{}}, object{"session": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas": d.schemas,
			"securitySchemes": object{
				"token":   object{"type": "http", "scheme": "bearer", "description": "A token of pages.bearerTokenFile, or one that the cluster knows."},
				"session": object{"type": "apiKey", "in": "cookie", "name": cookieName, "description": "Of who signed in at /login; over TLS its name begins with __Host-."},
			},
		},
	}
}

func (d *describer) operation(e *endpoint) object {
	return d.answering(e, "application/json", d.schema(reflect.TypeOf(e.of)))
}

func (d *describer) answering(e *endpoint, contentType string, schema object) object {
	params := []any{}
	for _, m := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(e.path, -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}, "description": parameterDoc(m[1], true)})
	}
	inPath := len(params) > 0
	for _, name := range e.query {
		schema := object{"type": "string"}
		switch name {
		case "limit":
			schema = object{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}
		case "severity":
			schema["enum"] = []string{"low", "medium", "high", "critical"}
		case "allowed":
			schema["enum"] = []string{"true", "false"}
		case "group":
			schema["enum"] = groupNames()
		case "sort":
			var all []string
			for _, s := range sortNames() {
				all = append(all, s, "-"+s)
			}
			schema["enum"] = all
		}
		params = append(params, object{"name": name, "in": "query", "schema": schema, "description": parameterDoc(name, false)})
	}
	answers := object{
		"200": object{"description": "Done.", "content": object{contentType: object{"schema": schema}}},
		"400": failed("The query is not understood."), "401": failed("A token or a certificate is needed."), "403": failed("Who asks has no access."),
		"405": failed("Only GET and HEAD are understood."), "429": failed("Too many wrong tokens."), "503": failed("The store cannot be read now, or there is too much to do."),
	}
	if inPath {
		answers["404"] = failed("There is no such thing.")
	}
	return object{
		"operationId": operationID(e.path), "summary": d.summary(e), "parameters": params, "responses": answers,
	}
}

func failed(what string) object {
	return object{"description": what, "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
}

func operationID(path string) string {
	id := "get"
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}.", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

func (d *describer) summary(e *endpoint) string {
	switch e.path {
	case "/findings.json", "/findings.csv":
		return "All findings of a query, from one state of the store."
	case "/openapi.json":
		return "This description."
	case "/rules":
		return "All rules, in the order of a report."
	}
	t := reflect.TypeOf(e.of)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return d.comments[t.PkgPath()+"."+t.Name()]
}

// parameterDoc says what a parameter means.
func parameterDoc(name string, inPath bool) string {
	if inPath {
		return map[string]string{
			"id": "The ID of the finding, as sinks and alerts have it, or of the incident.", "name": "The name, percent-escaped.",
			"kind":      "clusterrolebinding or rolebinding.",
			"namespace": "The namespace, - where there is none.", "resource": "The resource with its group, as in leases.coordination.k8s.io.",
		}[name]
	}
	return map[string]string{
		"credential": "Incidents of this credential: a node's name, or a user name.",
		"window":     "A length such as 24h or 7d, that ends with the last request. All that is stored by default.",
		"rule":       "Findings of this rule.",
		"severity":   "Findings of at least this severity.",
		"node":       "Findings of this node.", "resource": "resource[.group][/subresource]; the resource alone means that of any group.",
		"object": "[namespace/]name.", "namespace": "Findings in this namespace.", "userAgent": "Findings of this user agent, without version.",
		"binding": "[namespace/]name of the binding to blame.", "allowed": "Whether a request of the finding was allowed.",
		"q":      "Must be somewhere in the finding, in any letter case.",
		"sort":   "The order, severity by default; with a - before it the other way round. Under last and count a finding that grows meanwhile may be missed between two pages, under severity one that becomes worse.",
		"group":  "What to sum up by, in addition to the list.",
		"limit":  "How many on a page.",
		"cursor": "next or previous of another page.",
	}[name]
}

func exportParameters() []string {
	return slices.DeleteFunc(findingParameters(), func(s string) bool { return s == "limit" || s == "cursor" || s == "group" })
}

// schema is that of a type; of structs a reference.
func (d *describer) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Struct, t.Kind() == reflect.Interface:
		panic("no schema for " + t.String())
	case t.Kind() == reflect.Pointer:
		return d.schema(t.Elem())
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case t.Kind() == reflect.Struct:
		name := schemaName(t)
		if d.schemas[name] == nil {
			d.schemas[name] = object{}
			d.schemas[name] = d.structSchema(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int32:
		return object{"type": "integer"}
	}
	return object{"type": "string"}
}

// schemaName is the type's; with its package where that is another.
func schemaName(t reflect.Type) string {
	pkg := filepath.Base(t.PkgPath())
	if pkg == "web" {
		return t.Name()
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + t.Name()
}

func (d *describer) structSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	var add func(reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				add(f.Type)
				continue
			case !f.IsExported() || name == "-":
				continue
			}
			p := d.schema(f.Type)
			say := d.comments[t.PkgPath()+"."+t.Name()+"."+f.Name]
			if f.Type.Kind() == reflect.Pointer {
				if ref, is := p["$ref"]; is {
					p = object{"nullable": true, "allOf": []any{object{"$ref": ref}}}
				} else {
					p = maps.Clone(p)
					p["nullable"] = true
				}
			}
			if say != "" {
				if ref, is := p["$ref"]; is {
					p = object{"allOf": []any{object{"$ref": ref}}}
				}
				p["description"] = say
			}
			name = cmp.Or(name, f.Name)
			properties[name] = p
			if option != "omitempty" { // what is may be left out
				required = append(required, name)
			}
		}
	}
	add(t)
	slices.Sort(required)
	out := object{"type": "object", "additionalProperties": false, "required": slices.Compact(required), "properties": properties}
	if say := d.comments[t.PkgPath()+"."+t.Name()]; say != "" {
		out["description"] = say
	}
	return out
}

// comments are those of types and their fields.
func comments(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, pkg := range []string{"web", "report", "explain", "tally"} {
		files, err := filepath.Glob("../" + pkg + "/*.go")
		ok(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			ok(t, err)
			for _, decl := range f.Decls {
				g, is := decl.(*ast.GenDecl)
				if !is || g.Tok != token.TYPE {
					continue
				}
				for _, spec := range g.Specs {
					s := spec.(*ast.TypeSpec)
					name := "github.com/nodetrail/nodetrail/" + pkg + "." + s.Name.Name
					out[name] = commentText(cmp.Or(s.Doc, g.Doc))
					fields, is := s.Type.(*ast.StructType)
					if !is {
						continue
					}
					for _, field := range fields.Fields.List {
						for _, n := range field.Names {
							out[name+"."+n.Name] = commentText(cmp.Or(field.Doc, field.Comment))
						}
					}
				}
			}
		}
	}
	return out
}

// commentText is a comment as text, without links of Go.
func commentText(c *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(c.Text()), " ")
	return regexp.MustCompile(`\[([A-Za-z.]+)\]`).ReplaceAllString(text, "$1")
}
