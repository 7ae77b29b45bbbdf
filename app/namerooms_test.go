package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// entryFor is an entry of a node's request with a finding. The names share one buffer, as those of events do.
func entryFor(buffer []byte, name string) *tally.Entry {
	node := unsafe.String(&buffer[0], copy(buffer, name))
	return &tally.Entry{IsNode: true, Node: node, Findings: []tally.Finding{{Key: tally.Key{Node: node}}, {}}}
}

// Names that were made up take no room of those that are there, however many they are and whatever they do.
//
// Seen to fail where names of Node objects, or those with requests that succeeded, share the room of the others, and where a name is kept with its buffer.
func TestMadeUpNamesTakeNoRoom(t *testing.T) {
	r := newNameRooms(func(name string) bool { return strings.HasPrefix(name, "node-") })
	buffer := make([]byte, 64)
	distinguished := func(prefix string, n int, served bool) (out int) {
		for i := range n {
			name := fmt.Sprint(prefix, i)
			was := entryFor(buffer, name)
			e := r.entry(was, served)
			if e.Node == name && e.Findings[0].Key.Node == name {
				out++
			} else if e.Node != tally.Others || e.Findings[0].Key.Node != tally.Others {
				t.Fatalf("%s counts as %s, its finding as %s", name, e.Node, e.Findings[0].Key.Node)
			}
			if e.Findings[1].Key.Node != "" || was.Node != name {
				t.Fatalf("%s: %+v from %+v", name, e, was)
			}
		}
		return out
	}
	if n := distinguished("refused-", 2*namesRefused, false); n != namesRefused {
		t.Errorf("%d refused names", n)
	}
	const machines = 5000
	for range 2 {
		if n := distinguished("machine-", machines, true); n != machines {
			t.Errorf("%d of %d names whose requests succeeded", n, machines)
		}
	}
	if n := distinguished("machine-", machines, false); n != machines {
		t.Errorf("%d of %d names whose requests had succeeded", n, machines)
	}
	if n := distinguished("refused-", namesRefused/2, true); n != namesRefused/2 {
		t.Errorf("%d names whose requests succeed later", n)
	}
	if n := distinguished("more-", namesRefused, false); n != namesRefused/2 {
		t.Errorf("%d names in the room that is free again", n)
	}
	if n := distinguished("served-", 2*namesServed, true); n != namesServed-machines-namesRefused/2 {
		t.Errorf("%d made-up names whose requests succeeded", n)
	}
	if n := distinguished("node-", 2*namesServed, false); n != 2*namesServed {
		t.Errorf("%d names of Node objects", n)
	}
	if n := distinguished("machine-", machines, true); n != machines {
		t.Errorf("%d of %d in the end", n, machines)
	}
	if n := len(r.kept); n != namesServed+namesRefused+2*namesServed {
		t.Errorf("%d names are kept", n)
	}
	const left = namesRefused + namesRefused/2 + 2*namesServed - (namesServed - machines - namesRefused/2)
	if diff := cmp.Diff([]codes.Gap{{Kind: codes.Log, Code: codes.NamesTogether, Params: codes.Params{codes.Int(codes.ParamCount, left), codes.Int(codes.ParamTotal, left)}}}, r.gaps()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.entry(&tally.Entry{Findings: []tally.Finding{{Key: tally.Key{Node: "last"}}}}, false)
	if n := r.gaps()[0].Params.Int(codes.ParamTotal); n != left+1 {
		t.Errorf("%d requests with what is found over time", n)
	}
	if e := r.entry(&tally.Entry{IsNode: true, Node: "bare"}, false); e.Node != tally.Others {
		t.Errorf("a request without findings counts as %s", e.Node)
	}
	if newNameRooms(nil).gaps() != nil {
		t.Error("a gap without requests")
	}
}

// However many names somebody makes up, the report is of one size, has all that it has of the nodes without them, and is not READY for what it leaves out.
func TestMadeUpNamesAreBounded(t *testing.T) {
	begun := regexp.MustCompile(`"2026-11-21T06:0(3|4:0|4:10|4:11)`)
	// The names come before all else, when the state has begun.
	log := slices.DeleteFunc(bytes.SplitAfter(unpacked(t, filepath.Join(capture, "audit.log.gz")), []byte("\n")), func(line []byte) bool {
		return begun.Match(line)
	})
	analyzed := func(n, code int, at string) (*Analysis, int) {
		t.Helper()
		var all bytes.Buffer
		if at > "06:05" {
			all.Write(bytes.Join(log, nil))
		}
		for i := range n {
			line := strings.ReplaceAll(fitsNoOther, "06:05:03", at)
			line = strings.ReplaceAll(strings.ReplaceAll(line, "system:node:worker-1", fmt.Sprintf("system:node:made-%06d", i)), "doubt-1", fmt.Sprintf("made-%06d", i))
			line = strings.NewReplacer("127.0.0.1", "10.9.9.9", "hollow-kubelet", "curl/8", `reason":""`, `reason":"RBAC: allowed by ClusterRoleBinding \"legacy:system:node\" of ClusterRole \"system:node\" to Group \"system:nodes\""`, "/nodes/worker-2", "/namespaces/shop/secrets/db", `"nodes","name":"worker-2"`, `"secrets","namespace":"shop","name":"db"`).Replace(line)
			line = strings.ReplaceAll(line, `"code":200`, fmt.Sprintf(`"code":%d`, code))
			if code == 403 {
				line = strings.ReplaceAll(line, `"decision":"allow"`, `"decision":"forbid"`)
			}
			all.WriteString(line)
		}
		if at < "06:05" {
			all.Write(bytes.Join(log, nil))
		}
		o := captureOptions("capture")
		o.Logs, o.Stdin = []string{"-"}, &all
		a, err := Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(a.Report)
		if err != nil {
			t.Fatal(err)
		}
		return a, len(b)
	}
	few, _ := analyzed(100, 403, "06:04:11") // all of which are listed
	without := few.Report
	findings := func(r *report.Report) (out []string) {
		for i := range r.Findings {
			if f := &r.Findings[i]; strings.HasPrefix(f.Node, "worker-") {
				out = append(out, fmt.Sprintln(f.Rule, f.Reason, f.Node, f.Count, f.Namespace, f.Name, f.Severity))
			}
		}
		slices.Sort(out)
		return out
	}
	const most = 1200 // more incidents than are listed
	some, size := analyzed(most, 403, "06:04:11")
	more, larger := analyzed(3*most, 403, "06:04:11")
	for n, a := range map[int]*Analysis{most: some, 3 * most: more} {
		r := a.Report
		var requests int64
		made := 0
		for _, node := range r.Nodes {
			if requests += node.Requests; strings.HasPrefix(node.Name, "made-") {
				made++
			}
		}
		for _, node := range without.Nodes {
			if requests -= node.Requests; strings.HasPrefix(node.Name, "worker-") && !slices.Contains(r.Nodes, node) {
				t.Errorf("%d names: %+v is not listed", n, node)
			}
		}
		listed := len(r.Incidents)
		for _, n := range r.IncidentsMore {
			listed += n
		}
		if listed > namesRefused+len(without.Incidents) || len(r.Incidents) > incidents.ReportMost {
			t.Errorf("%d names: %d incidents, %v more", n, len(r.Incidents), r.IncidentsMore)
		}
		if made > namesRefused || requests != int64(n-100) {
			t.Errorf("%d names: %d are listed, %d requests are counted", n, made, requests)
		}
		if diff := cmp.Diff(findings(without), findings(r)); diff != "" {
			t.Errorf("%d names: findings of nodes (-few +many):\n%s", n, diff)
		}
		said := slices.ContainsFunc(r.Readiness.Doubts, func(h report.Hole) bool {
			return h.Code == codes.NamesTogether && h.Params.Int(codes.ParamCount) >= int64(n-namesRefused) && slices.Contains(r.Readiness.Warnings, h.Message)
		})
		if !said || r.Readiness.Verdict == report.VerdictReady || checks.StateIn(a.Facts.Checks, "state-complete") != checks.Unproven {
			t.Errorf("%d names: %s, %q", n, r.Readiness.Verdict, r.Readiness.Warnings)
		}
	}
	if larger > size+size/50 {
		t.Errorf("JSON of %d bytes with %d names, and of %d with %d", size, most, larger, 3*most)
	}
	served, _ := analyzed(most, 200, "06:05:04")
	r := served.Report
	if len(r.Incidents) != incidents.ReportMost || r.IncidentsMore[incidents.Open] < most-incidents.ReportMost || len(without.Incidents) == 0 {
		t.Errorf("%d incidents and %v more, without them %d", len(r.Incidents), r.IncidentsMore, len(without.Incidents))
	}
	for i := range without.Incidents {
		if in := &without.Incidents[i]; strings.HasPrefix(in.Credential, "worker-") && !slices.ContainsFunc(r.Incidents, func(o incidents.Incident) bool { return o.Credential == in.Credential && o.First.Equal(in.First) }) {
			t.Errorf("the incident of %s is not listed", in.Credential)
		}
	}
}
