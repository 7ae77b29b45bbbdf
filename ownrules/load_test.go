package ownrules

import (
	"fmt"
	"strings"
	"testing"
)

// load reads one file.
func load(text string) (*Set, error) { return Load([]Source{{"r.yaml", []byte(text)}}) }

// rule is a file with one rule of this expression.
func rule(match string) string {
	return "rules:\n- name: a-rule\n  severity: high\n  message: m\n  match: " + match + "\n"
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		rule(`request.verbb == "get"`):                             `r.yaml:5:17: match: undefined field 'verbb': did you mean verb?`,
		rule(`'request.code == "get"'`):                            `r.yaml:5:24: match: found no matching overload for '_==_' applied to '(int, string)'`,
		rule("|\n    request.isNode &&\n    request.code == true"): `r.yaml:7:18: match: found no matching overload`,
		rule(">\n    request.isNode &&\n    request.code == true"): `r.yaml:5:10: match: found no matching overload`,
		rule(`request.verb`):                                       `r.yaml:5:10: match: the expression is a string, not true or false`,
		rule(`nonsense.verb == "get"`):                             `r.yaml:5:10: match: undeclared reference to 'nonsense'`,
		rule(`request.verb ==`):                                    `match: Syntax error`,
		rule(`request.groups.exists(g, g == "a")`):                 `undeclared reference to 'exists' (in container ''): loops are not allowed`,
		rule(`"[1, 2].all(x, x > 0)"`):                             `undeclared reference to 'all' (in container ''): loops are not allowed`,
		rule(dear()):                                               `units, more than 5000: make it simpler`,
		rule("'" + strings.Repeat("(", 5000) + "'"):                `longer than 4096 bytes`,
		rule("'" + strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000) + "'"):         `match: `,
		rule(`verdict.node == "denied"`):                                                         `r.yaml:5:26: match: verdict.node is never "denied": it is one of ["none" "allow" "deny" "unknown"]`,
		rule(`verdict.node in ["deny", "DENY"]`):                                                 `verdict.node is never "DENY"`,
		rule(`'nodetrail.request{verb: "get"} == request'`):                                      `match: an expression cannot make a nodetrail.request`,
		rule("true") + "- name: a-rule\n  severity: low\n  message: m\n  match: 'true'\n":        `r.yaml:6:9: there is a rule a-rule already, at r.yaml:2`,
		strings.Replace(rule("true"), "a-rule", "node-identity", 1):                              `r.yaml:2:9: nodetrail has a rule node-identity of its own: use another name`,
		strings.Replace(rule("true"), "a-rule", "other", 1):                                      `the name other is reserved`,
		strings.Replace(rule("true"), "a-rule", "A_rule", 1):                                     `must be lower-case words`,
		strings.Replace(rule("true"), "a-rule", strings.Repeat("a", 64), 1):                      `r.yaml:2:9: name is longer than 63 bytes`,
		strings.Replace(rule("true"), "high", "urgent", 1):                                       `r.yaml:3:13: "urgent" is not a severity`,
		strings.Replace(rule("true"), "message: m", "message: a {request.nod}", 1):               `r.yaml:4:15: message: there is no field "request.nod": did you mean request.node?`,
		strings.Replace(rule("true"), "message: m", "message: a {request.node", 1):               `r.yaml:4:14: message: a { without its }`,
		strings.Replace(rule("true"), "message: m", "message: a }", 1):                           `message: a } without its {`,
		strings.Replace(rule("true"), "message: m", "message: {a: b}", 1):                        `r.yaml:4:12: message must be a text`,
		strings.Replace(rule("true"), "message: m", "message: "+strings.Repeat("m", 401), 1):     `message is longer than 400 bytes`,
		strings.Replace(rule("true"), "  message: m\n", "", 1):                                   `r.yaml:2:9: message is missing`,
		strings.Replace(rule("true"), "match:", "when:", 1):                                      `r.yaml:5: unknown key when`,
		"rules: [{name: &a x, severity: low, message: *a, match: 'true'}]":                       `message must be a text`,
		"rules: []\n---\nrules: []":                                                              `r.yaml: more than one document`,
		"rules: 1":                                                                               "r.yaml:1: `1` is not a list",
		rule("true") + "tests:\n- {name: t, rule: b-rule, finds: true}\n":                        `r.yaml:7:19: there is no rule "b-rule" in the files`,
		rule("true") + "tests:\n- {name: t, rule: a-rule, finds: often}\n":                       `r.yaml:7:34: finds must be true or false`,
		rule("true") + "tests:\n- {name: t, rule: a-rule, finds: true, request: {nod: a}}\n":     `r.yaml:7:50: there is no field request.nod: did you mean request.node?`,
		rule("true") + "tests:\n- {name: t, rule: a-rule, finds: true, verdict: {node: DENY}}\n": `verdict.node: "DENY" is none of none, allow, deny, unknown`,
		rule("true") + "tests:\n- {name: t, rule: a-rule, finds: true, request: {code: x}}\n":    `request.code: want a number`,
		rule("true") + "tests:\n- {name: t, rule: a-rule, finds: false, message: x}\n":           `a test that finds nothing has no message`,
		rule("true") + "tests:\n- {rule: a-rule, finds: false}\n":                                `r.yaml:7:10: name is missing`,
		many(MaxRules + 1):         fmt.Sprintf("there are %d rules, more than %d", MaxRules+1, MaxRules),
		strings.Repeat("#", 1<<21): "more than 1048576 bytes",
	} {
		_, err := load(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, ":5:") && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.200s:\n%v, want %s", text, err, want)
		}
	}
	if s, err := load(""); err != nil || len(s.All()) > 0 {
		t.Error(s, err)
	}
	if _, err := load(many(MaxRules)); err != nil {
		t.Error(err)
	}
}

// All errors of a file come at once, and not more than a reader can take.
func TestErrorsAreGathered(t *testing.T) {
	_, err := load(strings.ReplaceAll(many(3), "request.isNode", "request.isNod"))
	if err == nil || strings.Count(err.Error(), "undefined field") != 3 {
		t.Error(err)
	}
	_, err = load(strings.ReplaceAll(many(100), "request.isNode", "request.isNod"))
	if err == nil || strings.Count(err.Error(), "undefined field") != maxErrors || !strings.Contains(err.Error(), "80 further errors") {
		t.Error(err)
	}
}

// dear looks at long texts again and again.
func dear() string {
	all := make([]string, 30)
	for i := range all {
		all[i] = fmt.Sprintf("(request.uri+request.uri).matches('(a|b)*%d')", i)
	}
	return `"` + strings.Join(all, " || ") + `"`
}

func many(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: r%d, severity: low, message: m, match: request.isNode && request.code == %d}\n", i, i)
	}
	return b.String()
}

func TestRunTests(t *testing.T) {
	file := `rules:
- name: odd-client
  severity: high
  message: "{request.client} from {request.address} on {{{request.node}}}: {state.podNode}"
  match: request.isNode && !request.kubelet && !("ops" in request.groups)
- name: hidden-pod
  severity: medium
  message: m
  match: has(state.podNode) && state.podNode != request.node
- name: pod-elsewhere
  severity: medium
  message: m
  match: state.podNode != request.node
tests:
- {name: one, rule: odd-client, request: {node: w1, userAgent: curl/8.0, address: 10.0.0.1}, finds: true, message: "curl from 10.0.0.1 on {w1}: unknown"}
- {name: two, rule: odd-client, request: {node: w1, userAgent: kubelet/v1.36}, finds: false}
- {name: three, rule: odd-client, request: {node: w1, client: curl, groups: [ops]}, finds: false}
- {name: four, rule: hidden-pod, request: {node: w1}, finds: false}
- {name: five, rule: hidden-pod, request: {node: w1}, state: {podNode: w2}, finds: true}
- {name: six, rule: odd-client, request: {node: w1, client: kubelet}, finds: true}
- {name: seven, rule: odd-client, request: {node: w1, client: curl}, finds: false}
- {name: eight, rule: odd-client, request: {node: w1, client: curl}, finds: true, message: other}
- {name: nine, rule: pod-elsewhere, request: {node: w1}, finds: false}
`
	results, err := RunTests([]Source{{"r.yaml", []byte(file)}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"six": "the rule finds nothing", "seven": `the rule finds something: "curl from  on {w1}: unknown"`,
		"eight": `the message is "curl from  on {w1}: unknown", not "other"`, "nine": "the rule failed: own-rule-failed state.podNode is not known",
	}
	for i, r := range results {
		if r.Wrong != want[r.Name] || r.Place() != fmt.Sprintf("r.yaml:%d", 15+i) {
			t.Errorf("%s at %s: %q", r.Name, r.Place(), r.Wrong)
		}
	}
	if len(results) != 9 {
		t.Error(len(results))
	}
}
