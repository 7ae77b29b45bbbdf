package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// WriteYAML writes what WriteJSON writes, as YAML. Characters that are not shown are escaped as in text, since YAML has no such escape in plain words.
func (r *Report) WriteYAML(w io.Writer) error {
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		return err
	}
	v, err := plainOf(b.Bytes())
	var out []byte
	if err == nil {
		out, err = encodeYAML(visibleAll(v))
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// marshalYAML writes a value by its JSON tags.
func marshalYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	plain, err := plainOf(text)
	if err != nil {
		return nil, err
	}
	return encodeYAML(plain)
}

// plainOf is a JSON value with its numbers as text.
func plainOf(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return v, nil
}

// encodeYAML writes what plainOf returns. Reading JSON as YAML would do, but that has no place for some characters, nor for long keys.
func encodeYAML(plain any) ([]byte, error) {
	var out bytes.Buffer
	var all yaml.Node
	if err := all.Encode(numbers(plain)); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	quote(&all)
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := errors.Join(e.Encode(&all), e.Close()); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return out.Bytes(), nil
}

// quote puts strings in quotes, keys too, that do not begin with a letter or a slash. Of the others the encoder quotes those that mean something else in YAML 1.1,
// such as no. What a program takes for a number, a time, a merge or a value of another kind begins otherwise.
func quote(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 {
		if n.Value == "" || !plainStart.MatchString(n.Value) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, c := range n.Content {
		quote(c)
	}
}

var plainStart = regexp.MustCompile(`^[A-Za-z/]`)

// numbers makes numbers of those that JSON has as text. The encoder writes tabs after line ends as nobody reads them, but in quotes.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		kind := "!!int"
		if strings.ContainsAny(x.String(), ".eE") {
			kind = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: kind, Value: x.String()}
	case string:
		if strings.ContainsAny(x, "\n\t\r") {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: x, Style: yaml.DoubleQuotedStyle}
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

// visibleAll makes all strings of a JSON value visible.
func visibleAll(v any) any {
	switch x := v.(type) {
	case string:
		return wording.Visible(x)
	case []any:
		for i := range x {
			x[i] = visibleAll(x[i])
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, y := range x {
			out[wording.Visible(k)] = visibleAll(y)
		}
		return out
	}
	return v
}

// WriteCSV writes the findings as RFC 4180, with a head. No cell is a formula.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	rows := [][]string{{
		"rule", "reason", "severity", "node", "count", "first", "last", "verb", "apiGroup", "resource", "subresource", "namespace", "name", "userAgent",
		"bindingKind", "bindingNamespace", "bindingName", "allowed", "message", "auditIDs", "runbook", "authorized", "users", "impersonated", "groups", "addresses", "answers",
	}}
	for i := range r.Findings {
		f := &r.Findings[i]
		b := Binding{}
		if f.Binding != nil {
			b = *f.Binding
		}
		row := []string{
			f.Rule, string(f.Reason), f.Severity, f.Node, strconv.FormatInt(f.Count, 10), f.First.UTC().Format(time.RFC3339Nano),
			f.Last.UTC().Format(time.RFC3339Nano), f.Verb, f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name, f.UserAgent, b.Kind, b.Namespace, b.Name,
			strconv.FormatBool(f.Allowed), f.Message, strings.Join(f.AuditIDs, " "), f.Runbook, strconv.FormatBool(f.Authorized),
		}
		row = append(row, OriginColumns(&f.Origins)...)
		for j := range row {
			row[j] = wording.Cell(row[j])
		}
		rows = append(rows, row)
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// OriginColumns are the cells users, impersonated, groups, addresses and answers of a CSV file, each a list with spaces between: no name of a user, a
// group or a node that Kubernetes accepts from its own certificates needs more, and of others the JSON forms keep values apart. An address is
// followed by =NODE where a node has it.
func OriginColumns(o *tally.Origins) []string {
	var addresses, answers []string
	for _, a := range o.Addresses {
		s := a.Address
		if a.Node != "" {
			s += "=" + a.Node
		}
		addresses = append(addresses, s)
	}
	for _, code := range o.Answers {
		answers = append(answers, strconv.Itoa(int(code)))
	}
	return []string{strings.Join(o.Users, " "), strings.Join(o.Impersonated, " "), strings.Join(o.Groups, " "), strings.Join(addresses, " "), strings.Join(answers, " ")}
}

// The parts of a SARIF log, version 2.1.0.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		Help             sarifText `json:"help"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID     string          `json:"ruleId"`
		Kind       string          `json:"kind"`
		Level      string          `json:"level"`
		Message    sarifText       `json:"message"`
		Locations  []sarifLocation `json:"locations,omitempty"`
		Count      int64           `json:"occurrenceCount,omitempty"`
		Properties any             `json:"properties"`
	}
	sarifLocation struct {
		Logical []sarifLogical `json:"logicalLocations"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// WriteSARIF writes the findings, and the checks that did not pass, as a log of SARIF 2.1.0. A check has the rule check/NAME.
func (r *Report) WriteSARIF(w io.Writer) error {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "nodetrail"}}, Results: []sarifResult{}}
	for _, x := range r.allRules() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{x.Name, sarifText{x.Title()}, sarifText{wording.See(x.Runbook())}})
	}
	for _, c := range checks.All() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{"check/" + c.Name, sarifText{c.Title()}, sarifText{wording.See(c.Page())}})
	}
	told := map[string]bool{}
	for _, q := range r.Questions() {
		for _, c := range q.Open() {
			if told[c.Name] {
				continue
			}
			told[c.Name] = true
			x := sarifResult{RuleID: "check/" + c.Name, Kind: "fail", Level: "error", Message: sarifText{wording.Visible(c.Name + " " + c.State + ": " + c.wrong())}, Properties: c}
			if c.State != checks.Failed.String() {
				x.Kind, x.Level = "open", "none"
			}
			run.Results = append(run.Results, x)
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		x := sarifResult{RuleID: f.Rule, Kind: "fail", Level: sarifLevel(f.Severity), Message: sarifText{wording.Visible(f.Message)}, Count: f.Count, Properties: f}
		if f.Node != "" {
			x.Locations = []sarifLocation{{[]sarifLogical{{wording.Visible(f.Node), "node"}}}}
		}
		run.Results = append(run.Results, x)
	}
	if err := wording.WriteJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// allRules are the built-in rules, and then those that users wrote and that found something.
func (r *Report) allRules() []*rules.Rule {
	out, had := rules.All(), map[string]bool{}
	for i := range r.Findings {
		if name := r.Findings[i].Rule; !rules.BuiltIn(name) && !had[name] {
			had[name] = true
			out = append(out, &rules.Rule{Name: name, Doc: "A rule of this cluster's own", Reasons: rules.OwnReasons()})
		}
	}
	slices.SortFunc(out[len(rules.All()):], func(a, b *rules.Rule) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func sarifLevel(severity string) string {
	switch severity {
	case rules.Critical.String(), rules.High.String():
		return "error"
	case rules.Medium.String():
		return "warning"
	}
	return "note"
}

// The parts of a report of JUnit, as Apache Ant writes it: all attributes are there.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []junitSuite
	}
	junitSuite struct {
		XMLName    xml.Name `xml:"testsuite"`
		Package    string   `xml:"package,attr"`
		ID         int      `xml:"id,attr"`
		Name       string   `xml:"name,attr"`
		Timestamp  string   `xml:"timestamp,attr"`
		Host       string   `xml:"hostname,attr"`
		Tests      int      `xml:"tests,attr"`
		Failures   int      `xml:"failures,attr"`
		Errors     int      `xml:"errors,attr"`
		Skipped    int      `xml:"skipped,attr"`
		Time       int      `xml:"time,attr"`
		Properties struct{} `xml:"properties"`
		Cases      []junitCase
		Out        string `xml:"system-out"`
		Err        string `xml:"system-err"`
	}
	junitCase struct {
		XMLName   xml.Name  `xml:"testcase"`
		Name      string    `xml:"name,attr"`
		ClassName string    `xml:"classname,attr"`
		Time      int       `xml:"time,attr"`
		Skipped   *struct{} `xml:"skipped"`
		Error     *junitWhy `xml:"error"`
		Failure   *junitWhy `xml:"failure"`
	}
	junitWhy struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes a test suite for each question, with a test case for each check, and one for the findings, with a test case for each rule. A check
// that failed and a rule with findings above low severity are failures, what is unproven is an error, and what is waived is skipped.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := func(id int, name string) junitSuite {
		s := junitSuite{Package: "nodetrail", ID: id, Name: name, Host: "localhost", Timestamp: "1970-01-01T00:00:00"}
		if r.Window.To != nil {
			s.Timestamp = r.Window.To.UTC().Format("2006-01-02T15:04:05")
		}
		if host := strings.Join(strings.Fields(wording.Visible(r.Cluster)), " "); host != "" {
			s.Host = host
		}
		return s
	}
	var all junitSuites
	for i, q := range r.Questions() {
		s := suite(i, q.Name)
		for j := range q.Checks {
			c := &q.Checks[j]
			why := &junitWhy{Message: wording.Visible(c.wrong()), Type: c.State, Text: wording.Visible(c.Next)}
			x := junitCase{Name: c.Name, ClassName: "nodetrail." + q.Name}
			switch c.State {
			case checks.Passed.String():
			case checks.Waived.String():
				x.Skipped = &struct{}{}
			case checks.Failed.String():
				x.Failure = why
			default:
				x.Error = why
			}
			s.add(x)
		}
		all.Suites = append(all.Suites, s)
	}
	s := suite(len(all.Suites), "findings")
	for _, rule := range r.allRules() {
		x := junitCase{Name: rule.Name, ClassName: "nodetrail.findings"}
		var text strings.Builder
		for i := range r.Findings {
			f := &r.Findings[i]
			if f.Rule != rule.Name || f.Severity == rules.Low.String() {
				continue
			}
			if x.Failure == nil { // the worst comes first
				x.Failure = &junitWhy{Message: wording.Visible(f.Message), Type: f.Severity}
			}
			fmt.Fprintf(&text, "%s: %s (%s)\n", f.Severity, wording.Visible(f.Message), plural(f.Count, "time"))
			for _, line := range f.Origin() {
				text.WriteString("  " + line + "\n")
			}
		}
		if x.Failure != nil {
			x.Failure.Text = text.String()
		}
		s.add(x)
	}
	all.Suites = append(all.Suites, s)
	b, err := xml.MarshalIndent(all, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// Filter says which findings a report lists. What is empty keeps all.
type Filter struct {
	Namespaces, Clients, Rules []string
	// Severity is the least.
	Severity rules.Severity
}

// Narrow leaves out the findings that the filter does not keep. Answers, blockers and gaps are of all findings, whatever is listed.
func (r *Report) Narrow(f Filter) {
	in := func(names []string, s string) bool { return len(names) == 0 || slices.Contains(names, s) }
	kept := make([]Finding, 0, len(r.Findings))
	for i := range r.Findings {
		x := &r.Findings[i]
		if s, err := rules.ParseSeverity(x.Severity); err == nil && s < f.Severity || !in(f.Namespaces, x.Namespace) || !in(f.Clients, x.UserAgent) || !in(f.Rules, x.Rule) {
			continue
		}
		kept = append(kept, *x)
	}
	r.FindingsHidden += len(r.Findings) - len(kept)
	r.Findings = kept
}
