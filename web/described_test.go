package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// document is openapi.json, to hold requests and answers against. It knows the keywords that the describer writes and no others; e2e/web holds
// the description and answers of a real server against a library.
type document struct{ root object }

func readDocument() (*document, error) {
	var d document
	if err := json.Unmarshal(description, &d.root); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	return &d, nil
}

// paths are the paths that are described.
func (d *document) paths() object { return d.root["paths"].(object) }

// operation is the GET of a path, nil if it is not described.
func (d *document) operation(path string) object {
	item, is := d.paths()[path].(object)
	if !is {
		return nil
	}
	return item["get"].(object)
}

// request returns what is wrong with the query of a request.
func (d *document) request(op object, query url.Values) []string {
	var wrong []string
	for name, values := range query {
		i := slices.IndexFunc(op["parameters"].([]any), func(p any) bool { return p.(object)["name"] == name && p.(object)["in"] == "query" })
		if i < 0 {
			wrong = append(wrong, "the parameter "+name+" is not described")
			continue
		}
		schema := op["parameters"].([]any)[i].(object)["schema"].(object)
		for _, text := range values {
			var v any = text
			if schema["type"] == "integer" {
				v = json.Number(text)
			}
			wrong = append(wrong, d.value(name, schema, v)...)
		}
	}
	return wrong
}

// answer returns what is wrong with an answer: its status, its type, its body.
func (d *document) answer(op object, w *httptest.ResponseRecorder) []string {
	response, is := op["responses"].(object)[strconv.Itoa(w.Code)].(object)
	if !is {
		return []string{fmt.Sprintf("the status %d is not described", w.Code)}
	}
	kind, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		return []string{err.Error()}
	}
	content, is := response["content"].(object)[kind].(object)
	if !is {
		return []string{"the type " + kind + " is not described"}
	}
	if kind != "application/json" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		return []string{err.Error()}
	}
	if in.More() {
		return []string{"the body has more than one value"}
	}
	return d.value("body", content["schema"].(object), v)
}

// value returns what is wrong with a value that is at a place.
func (d *document) value(at string, schema object, v any) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	if v == nil {
		if schema["nullable"] != true {
			bad("is null")
		}
		return wrong
	}
	for keyword, arg := range schema {
		switch keyword {
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/components/schemas/")
			one, is := d.root["components"].(object)["schemas"].(object)[name].(object)
			if !is {
				bad("there is no schema %s", name)
				continue
			}
			wrong = append(wrong, d.value(at, one, v)...)
		case "allOf":
			for _, one := range arg.([]any) {
				wrong = append(wrong, d.value(at, one.(object), v)...)
			}
		case "type":
			if got := typeOf(v); got != arg {
				bad("is of type %s, not %s", got, arg)
			}
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				bad("%v is not one of %v", v, arg)
			}
		case "minimum", "maximum":
			limit, n := arg.(float64), 0.0
			if number, is := v.(json.Number); is {
				n, _ = number.Float64() // its type is checked
			}
			if keyword == "minimum" && n < limit || keyword == "maximum" && n > limit {
				bad("%v is beyond the %s %v", v, keyword, limit)
			}
		case "format":
			if s, is := v.(string); arg == "date-time" && is {
				if _, err := time.Parse(time.RFC3339Nano, s); err != nil {
					bad("%v", err)
				}
			} else if arg != "int64" {
				bad("has the format %v", arg)
			}
		case "items":
			list, _ := v.([]any)
			for i, e := range list {
				wrong = append(wrong, d.value(fmt.Sprintf("%s[%d]", at, i), arg.(object), e)...)
			}
		case "required", "properties", "additionalProperties":
		case "nullable", "description", "default":
		default:
			bad("the keyword %s is not known", keyword)
		}
	}
	if members, is := v.(object); is {
		wrong = append(wrong, d.members(at, schema, members)...)
	}
	return wrong
}

// members returns what is wrong with the members of an object.
func (d *document) members(at string, schema, members object) (wrong []string) {
	properties, _ := schema["properties"].(object)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, is := members[name.(string)]; !is {
			wrong = append(wrong, fmt.Sprintf("%s: has no %s", at, name))
		}
	}
	for name, v := range members {
		inner := at + "." + name
		if one, is := properties[name].(object); is {
			wrong = append(wrong, d.value(inner, one, v)...)
		} else if others, is := schema["additionalProperties"].(object); is {
			wrong = append(wrong, d.value(inner, others, v)...)
		} else if schema["additionalProperties"] == false {
			wrong = append(wrong, inner+": is not described")
		}
	}
	return wrong
}

// typeOf is the type of a JSON value in the words of a schema.
func typeOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case object:
		return "object"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
	}
	return "number"
}
