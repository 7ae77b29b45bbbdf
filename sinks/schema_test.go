package sinks

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// schemaFindings are findings of every rule, reason and severity, whose names are ordinary, hostile or missing.
func schemaFindings() []Finding {
	var out []Finding
	hostile := []string{
		"worker-1", "", "\u202e\u2066", "\u009b31m\x1b[2J", "<script>alert(1)</script>", `"}],"x":[{"`, "\r\n", "\x00\xff", strings.Repeat("x", 9000), "system:serviceaccount:a:b",
		"<!channel> <@U1>", "=1+1", "${jndi:ldap://x}",
	}
	times := []time.Time{time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), time.Unix(0, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}
	n := 0
	for _, r := range rules.All() {
		for _, reason := range r.Reasons {
			for s := rules.None; s <= rules.Critical; s++ {
				h := hostile[n%len(hostile)]
				at := times[n%len(times)]
				k := tally.Key{
					Rule: r.Name, Node: h, Verb: h, APIGroup: h, Resource: h, Subresource: h, Namespace: h, Name: h, Product: h, Apart: h, Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: h, Name: h},
				}
				k.Own()
				e := tally.Entry{Origin: tally.Origin{
					User: h, Groups: []string{h, "system:nodes"}, Impersonated: h, Code: []int32{0, 200, 403, -1}[n%4], Address: tally.Address{Address: []string{"10.0.0.1", "fe80::1", h}[n%3], Node: h},
				}}
				g := tally.Group{
					Count: int64(n), First: at, Last: at, Severity: s, Reason: reason.Reason, Params: codes.Params{codes.Text("x", h)}, AuditIDs: []string{tally.Bounded(h)},
					Allowed: n%2 == 0, Succeeded: n%4 == 0, Wide: n%7 == 0,
				}
				if n%5 > 0 {
					g.Origins.Add(&e.Origin)
				}
				f := FromGroup("c"+tally.Bounded(h), &k, &g, nil)
				f.Continued = n%2 == 1
				out = append(out, f)
				n++
			}
		}
	}
	return append(out, Finding{}, newFinding("", &tally.Key{}))
}

// Each finding in each format is what the format's own schema asks for.
func TestFormatsBySchema(t *testing.T) {
	for format, file := range map[Format]string{CloudEvents: "cloudevents-1.0.json", OCSF: "ocsf-1.5.0-detection-finding.json"} {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		schema, err := c.Compile("testdata/schemas/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range schemaFindings() {
			b, err := format.Encode(&f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(string(b), wording.Hidden) {
				t.Errorf("%s: characters that are not shown: %.300q", format, b)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
			if err == nil {
				err = schema.Validate(v)
			}
			if err != nil {
				t.Fatalf("%s of %s: %v\n%.2000s", format, f.Rule, err, b)
			}
			if len(b) > 100_000 {
				t.Errorf("%s: %d bytes", format, len(b))
			}
		}
		// The schema does refuse: without any one attribute that it requires, and with one that it does not know.
		whole, _ := format.Encode(&schemaFindings()[0])
		text, err := os.ReadFile("testdata/schemas/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var required struct{ Required []string }
		if err := json.Unmarshal(text, &required); err != nil || len(required.Required) < 4 {
			t.Fatalf("%v %v", required, err)
		}
		for _, name := range required.Required {
			var m map[string]any
			if err := json.Unmarshal(whole, &m); err != nil {
				t.Fatal(err)
			}
			if _, there := m[name]; !there {
				t.Errorf("%s has no %s", format, name)
			}
			delete(m, name)
			if schema.Validate(m) == nil {
				t.Errorf("%s: without %s it is valid too", format, name)
			}
		}
	}
}

// The numbers of OCSF are those of the class, the activity and the severity.
func TestOCSFNumbers(t *testing.T) {
	for s, want := range map[string]int{"low": 2, "medium": 3, "high": 4, "critical": 5, "": 0, "other": 0} {
		for _, again := range []bool{false, true} {
			x := AsOCSF(&Finding{Severity: s, Continued: again})
			activity := 1
			if again {
				activity = 2
			}
			if x.ClassUID != 2004 || x.CategoryUID != 2 || x.ActivityID != activity || x.TypeUID != 200400+activity || x.SeverityID != want {
				t.Errorf("%q: %+v", s, x)
			}
		}
	}
}

// A group is created once, and updated as long as it continues.
func TestGroupContinues(t *testing.T) {
	var got []bool
	g := NewGrouper(GrouperOptions{Every: time.Hour}, func(all []Finding) {
		for i := range all {
			got = append(got, all[i].Continued)
		}
	})
	e := tally.Entry{Time: time.Unix(1, 0), Findings: []tally.Finding{{Key: tally.Key{Rule: "r"}, Severity: rules.High}}}
	g.Add([]tally.Entry{e})
	g.Add([]tally.Entry{e})
	g.Close()
	if len(got) != 2 || got[0] || !got[1] {
		t.Errorf("continued: %v", got)
	}
	f, o := Finding{Continued: true}, Finding{}
	if f.merge(&o); f.Continued {
		t.Error("what is sent together with the first is new")
	}
}
