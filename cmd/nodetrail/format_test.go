package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The shapes below are written down from the contract, sections 5 and 6, and not from the code.

type binding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type kindName struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type verdictLine struct {
	AuditID     string    `json:"auditID"`
	Time        time.Time `json:"time"`
	Node        string    `json:"node"`
	Verb        string    `json:"verb"`
	APIGroup    string    `json:"apiGroup"`
	Resource    string    `json:"resource"`
	Subresource string    `json:"subresource"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Path        string    `json:"path"`
	Verdict     string    `json:"verdict"`
	Race        bool      `json:"race"`
	Reason      string    `json:"reason"`
	Detail      string    `json:"detail"`
	Observed    struct {
		Decision    string    `json:"decision"`
		Authorizer  string    `json:"authorizer"`
		NodeVerdict string    `json:"nodeVerdict"`
		Reason      string    `json:"reason"`
		Binding     *binding  `json:"binding"`
		Role        *kindName `json:"role"`
		Subject     *kindName `json:"subject"`
	} `json:"observed"`
	Admission *admission `json:"admission,omitempty"`
	Code      int        `json:"code"`
	UserAgent string     `json:"userAgent"`
	SourceIPs []string   `json:"sourceIPs"`
	Findings  []string   `json:"findings"`
}

type reportShape struct {
	Cluster string `json:"cluster"`
	Window  struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
	} `json:"window"`
	Events struct {
		Read       int64 `json:"read"`
		Node       int64 `json:"node"`
		Judged     int64 `json:"judged"`
		Duplicates int64 `json:"duplicates"`
		Malformed  int64 `json:"malformed"`
		Skipped    int64 `json:"skipped"`
	} `json:"events"`
	State struct {
		Objects  map[string]int64 `json:"objects"`
		From     time.Time        `json:"from"`
		To       time.Time        `json:"to"`
		Warnings []string         `json:"warnings"`
	} `json:"state"`
	Authorization struct {
		Mode              string          `json:"mode"`
		Inferred          bool            `json:"inferred"`
		KubernetesVersion string          `json:"kubernetesVersion"`
		FeatureGates      map[string]bool `json:"featureGates"`
	} `json:"authorization"`
	Verdicts struct {
		Allow   int64 `json:"allow"`
		Deny    int64 `json:"deny"`
		Unknown int64 `json:"unknown"`
		Races   struct {
			Allow int64 `json:"allow"`
			Deny  int64 `json:"deny"`
		} `json:"races"`
	} `json:"verdicts"`
	Agreement struct {
		Compared int64 `json:"compared"`
		Agree    int64 `json:"agree"`
		Disagree []any `json:"disagree"`
		Races    struct {
			Compared int64 `json:"compared"`
			Agree    int64 `json:"agree"`
		} `json:"races"`
	} `json:"agreement"`
	Nodes []struct {
		Name     string `json:"name"`
		Requests int64  `json:"requests"`
		Deny     int64  `json:"deny"`
		Excess   int64  `json:"excess"`
	} `json:"nodes"`
	Findings []struct {
		Rule        string    `json:"rule"`
		Severity    string    `json:"severity"`
		Node        string    `json:"node"`
		Count       int64     `json:"count"`
		First       time.Time `json:"first"`
		Last        time.Time `json:"last"`
		Verb        string    `json:"verb"`
		APIGroup    string    `json:"apiGroup"`
		Resource    string    `json:"resource"`
		Subresource string    `json:"subresource"`
		Namespace   string    `json:"namespace"`
		Name        string    `json:"name"`
		UserAgent   string    `json:"userAgent"`
		Binding     *binding  `json:"binding"`
		Allowed     bool      `json:"allowed"`
		Message     string    `json:"message"`
		AuditIDs    []string  `json:"auditIDs"`
		Runbook     string    `json:"runbook"`
	} `json:"findings"`
	Readiness struct {
		Ready    bool     `json:"ready"`
		Blockers []string `json:"blockers"`
		Warnings []string `json:"warnings"`
	} `json:"readiness"`
}

// admission is about the admission plugin NodeRestriction, in the lines of nodes' writes.
type admission struct {
	Verdict  string `json:"verdict"`
	Code     int    `json:"code"`
	Message  string `json:"message"`
	Missing  string `json:"missing"`
	Race     bool   `json:"race"`
	Observed string `json:"observed"`
}

// inShape reports what of v, which was decoded from JSON, is not as the type says: keys that are missing, nulls where there is no
// pointer, and unless more are allowed, keys that it does not have. Times are checked by decoding.
func inShape(at string, v any, shape reflect.Type, more bool) error {
	if shape.Kind() == reflect.Pointer {
		if v == nil {
			return nil
		}
		shape = shape.Elem()
	}
	if v == nil && shape.Kind() != reflect.Interface {
		return errors.New(at + " is null")
	}
	var errs []error
	switch {
	case shape == reflect.TypeFor[time.Time]():
	case shape.Kind() == reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			return errors.New(at + " is no object")
		}
		rest := maps.Clone(object)
		for i := range shape.NumField() {
			f := shape.Field(i)
			key, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			value, there := object[key]
			delete(rest, key)
			if !there && option == "omitempty" {
				continue
			}
			if !there {
				errs = append(errs, errors.New(at+"."+key+" is missing"))
				continue
			}
			errs = append(errs, inShape(at+"."+key, value, f.Type, more))
		}
		for key := range rest {
			if !more {
				errs = append(errs, errors.New(at+"."+key+" is not in the contract"))
			}
		}
	case shape.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return errors.New(at + " is no list")
		}
		for _, x := range list {
			errs = append(errs, inShape(at+"[]", x, shape.Elem(), more))
		}
	}
	return errors.Join(errs...)
}

func decodeStrictly(t *testing.T, text string, into any, more bool) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := inShape("", v, reflect.TypeOf(into).Elem(), more); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func decodeVerdict(t *testing.T, line string) *verdictLine {
	t.Helper()
	v := &verdictLine{}
	decodeStrictly(t, line, v, false)
	o := &v.Observed
	for _, x := range []struct {
		value string
		of    []string
	}{
		{v.Verdict, []string{"allow", "deny", "unknown"}}, {o.Decision, []string{"allow", "forbid", ""}},
		{o.Authorizer, []string{"node", "rbac", "other", ""}}, {o.NodeVerdict, []string{"allow", "deny", ""}},
	} {
		if !slices.Contains(x.of, x.value) {
			t.Fatalf("%q is none of %q in %s", x.value, x.of, line)
		}
	}
	if (o.Binding == nil) != (o.Role == nil) || (o.Role == nil) != (o.Subject == nil) || v.Verdict == "allow" && v.Reason != "" {
		t.Fatalf("a line that contradicts itself: %s", line)
	}
	return v
}

// TestReportJSON holds the report's shape against the contract. It may say more than the contract does, never less.
func TestReportJSON(t *testing.T) {
	f := func(args ...string) {
		t.Helper()
		code, out, errs := invoke(t, "", append([]string{"analyze", "-o", "json"}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%q: exit status %d, standard error %q", args, code, errs)
		}
		r := &reportShape{}
		decodeStrictly(t, out, r, true)
		v := r.Verdicts
		if v.Allow+v.Deny+v.Unknown != r.Events.Judged || len(r.Nodes) == 0 {
			t.Errorf("%q: the figures do not add up: %+v %+v", args, r.Events, v)
		}
		for _, x := range r.Findings {
			if len(x.AuditIDs) == 0 || len(x.AuditIDs) > 5 || x.Count < int64(len(x.AuditIDs)) || x.First.After(x.Last) || x.Message == "" || x.Runbook == "" {
				t.Errorf("%q: finding %+v", args, x)
			}
		}
	}
	f("--state", capture+"/journal.jsonl.gz", capture+"/audit.log.gz")
	f("--state", rbacOnly+"/journal.jsonl.gz", "--cluster", "old", "--kubernetes-version", "1.33",
		"--feature-gates", "AuthorizeNodeWithSelectors=false", rbacOnly+"/audit.log.gz")
}

// hostile is what a client can put into names, here with the marks of HTML, of terminals and of right-to-left writing.
const hostile = `<script>alert('x')</script>"'&{{.}}\u001b[31m\u202e`

func hostileLog() string {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"@","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/namespaces/@/secrets/@","verb":"get","user":{"username":"USER","groups":["system:nodes"]},"sourceIPs":["@"],` +
		`"userAgent":"@/v1","objectRef":{"resource":"secrets","namespace":"@","name":"@","apiVersion":"v1"},"responseStatus":{"code":200},` +
		`"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z","annotations":` +
		`{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"<b>\" of ClusterRole \"x\" to Group \"system:nodes\""}}` + "\n"
	text := strings.ReplaceAll(event, "@", strings.ReplaceAll(hostile, `"`, `\"`))
	one := strings.ReplaceAll(text, "USER", `system:node:`+strings.ReplaceAll(hostile, `"`, `\"`))
	two := strings.ReplaceAll(strings.ReplaceAll(text, "USER", strings.ReplaceAll(hostile, `"`, `\"`)), `"auditID":"`, `"auditID":"2`)
	return one + two + "<script>\x1b[31m\n"
}

// TestReportHTML holds that the page is well-formed and that names from logs stay text.
func TestReportHTML(t *testing.T) {
	f := func(stdin string, args ...string) string {
		t.Helper()
		code, out, errs := invoke(t, stdin, append([]string{"analyze", "-o", "html"}, args...)...)
		if code != 0 || errs != "" {
			t.Fatalf("%q: exit status %d, standard error %q", args, code, errs)
		}
		d := xml.NewDecoder(strings.NewReader(out))
		d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
		var text strings.Builder
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch x := token.(type) {
			case xml.StartElement:
				if !slices.Contains(strings.Fields("html head meta title style body main nav strong h1 h2 h3 p pre ol br ul li table thead tbody tr th td span a code details summary"), x.Name.Local) {
					t.Fatalf("element %s", x.Name.Local)
				}
				for _, a := range x.Attr {
					if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Value, "script") {
						t.Fatalf("attribute %s=%q", a.Name.Local, a.Value)
					}
				}
			case xml.CharData:
				text.Write(x)
			}
		}
		return text.String()
	}
	f("", "--state", capture+"/journal.jsonl.gz", capture+"/audit.log.gz")
	text := f(hostileLog(), "--cluster", "<i>&", "-")
	for _, want := range []string{`<script>alert('x')</script>"'&{{.}}\u{1b}[31m\u{202e}`, "<i>&"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the page's text:\n%s", want, text)
		}
	}
}

// TestHostileNames holds that nothing from a log reaches a terminal as anything but text, and that JSON keeps it as it is.
func TestHostileNames(t *testing.T) {
	for _, output := range []string{"text", "html"} {
		_, out, errs := invoke(t, hostileLog(), "analyze", "-o", output, "-")
		if i := strings.IndexAny(out+errs, "\x1b\u202e\x00\x07\x08\r"); i >= 0 {
			t.Errorf("-o %s: %q", output, (out + errs)[max(0, i-40):i+4])
		}
	}
	code, out, errs := invoke(t, hostileLog(), "analyze", "--strict", "--verdicts", "-", "-")
	if code != 1 || strings.ContainsAny(out+errs, "\x1b") {
		t.Errorf("exit status %d, %q", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var want string
	if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"`), &want); err != nil {
		t.Fatal(err)
	}
	if v := decodeVerdict(t, lines[0]); len(lines) != 1 || v.Node != want || v.Name != want || v.Namespace != want {
		t.Errorf("%d lines, the first of node %q, object %q/%q", len(lines), v.Node, v.Namespace, v.Name)
	}
}
