package web

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// writer writes findings one by one.
type writer interface {
	begin() error
	write(f *Finding) error
	end() error
}

// errNoBody ends the answer to a HEAD, which has no body.
var errNoBody = errors.New("no body is asked for")

// export answers with all findings of a query, as they are written; nothing is gathered.
func (a *api) export(contentType string, to func(io.Writer) writer) http.HandlerFunc {
	known := slices.DeleteFunc(findingParameters(), func(s string) bool { return s == "limit" || s == "cursor" || s == "group" })
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := parameters(r.URL.RawQuery, known)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		q, err := findingsQuery(v)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		buf := bufio.NewWriterSize(w, 32<<10)
		out := to(buf)
		begun := false
		write := out.write
		if r.Method == http.MethodHead {
			write = func(*Finding) error { return errNoBody }
		}
		err = a.data.each(r.Context(), q, func() {
			begun = true
			w.Header().Set("Content-Type", contentType)
			name := "findings.csv"
			if strings.HasSuffix(r.URL.Path, ".json") {
				name = "findings.json"
			}
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
			_ = out.begin() // the buffer keeps its first error
		}, write)
		switch {
		case errors.Is(err, errNoBody):
			return
		case err != nil && !begun:
			a.fail(w, r, err)
			return
		case err == nil:
			err = out.end()
		}
		if err == nil {
			err = buf.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // half a file must not look like a whole one
		}
	}
}

// csvWriter writes RFC 4180.
type csvWriter struct{ w *csv.Writer }

func newCSV(w io.Writer) writer { return &csvWriter{csv.NewWriter(w)} }

func (c *csvWriter) begin() error {
	c.w.UseCRLF = true
	return c.w.Write([]string{
		"id", "rule", "severity", "node", "count", "first", "last", "verb", "apiGroup", "resource", "subresource", "namespace", "name", "userAgent",
		"bindingKind", "bindingNamespace", "bindingName", "allowed", "message", "auditIDs", "runbook", "authorized", "users", "impersonated", "groups", "addresses", "answers",
	})
}

func (c *csvWriter) write(f *Finding) error {
	var kind, namespace, name string
	if f.Binding != nil {
		kind, namespace, name = f.Binding.Kind, f.Binding.Namespace, f.Binding.Name
	}
	row := []string{
		f.ID, f.Rule, f.Severity, f.Node, strconv.FormatInt(f.Count, 10), f.First.Format(time.RFC3339Nano), f.Last.Format(time.RFC3339Nano), f.Verb, f.APIGroup,
		f.Resource, f.Subresource, f.Namespace, f.Name, f.UserAgent, kind, namespace, name, strconv.FormatBool(f.Allowed), f.Message,
		strings.Join(f.AuditIDs, " "), f.Runbook, strconv.FormatBool(f.Authorized),
	}
	row = append(row, report.OriginColumns(&f.Origins)...)
	for i := range row {
		row[i] = wording.Cell(row[i])
	}
	return c.w.Write(row)
}

func (c *csvWriter) end() error {
	c.w.Flush()
	return c.w.Error()
}

// jsonWriter writes a JSON array, a line for each finding.
type jsonWriter struct {
	w *bufio.Writer
	n int
}

func newJSONList(w io.Writer) writer { return &jsonWriter{w: bufio.NewWriter(w)} }

func (j *jsonWriter) begin() error {
	j.w.WriteString("[")
	return nil
}

func (j *jsonWriter) write(f *Finding) error {
	if j.n++; j.n > 1 {
		j.w.WriteString(",")
	}
	j.w.WriteString("\n")
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = j.w.Write(wording.EscapeJSON(b))
	return err
}

func (j *jsonWriter) end() error {
	j.w.WriteString("\n]\n")
	return j.w.Flush()
}
