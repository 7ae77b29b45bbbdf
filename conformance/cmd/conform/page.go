package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// knownDifferences are the reference's bugs that the comparison recognises: see conformance.Bug.
func knownDifferences() []struct{ name, words string } {
	return []struct{ name, words string }{
		{"pod-replaced-by-unbound", "When an interrupted watch shows a pod that was deleted and made again without a node as one update, the reference keeps the old pod's edges and nodetrail ends them."},
		{"slice-or-request-replaced", "When an interrupted watch shows a resource slice or a pod certificate request that was deleted and made again as one update, the reference keeps the old " +
			"one's edge and nodetrail goes by the UID."},
		{"index-counts-twice", "For an object that 200 pods or more name, the reference may still allow a node after a pod that named the object more than once has gone, and nodetrail does not."},
	}
}

// writePage writes docs/conformance.md.
func writePage(file string, results []*result, c caught) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("# Conformance\n\n")
	p("<!-- Written by make conformance-full. -->\n\n")
	p("nodetrail's Node and RBAC authorizers are compared with those of Kubernetes itself: the decision, and the reason byte for byte. `make conformance-full` repeats the comparison; it needs only Go.\n\n")
	p("A history is a random cluster and random changes to it, one in each step. Each step goes through the reference's own informer handlers and, with its time, into nodetrail's graph. After it, both\n" +
		"answer the same requests. At the end of a history, nodetrail answers all of them again, each for its own time:\n\n" +
		"- half of them with a skew: an answer must be a race exactly when it is different at another time within the skew;\n" +
		"- some with an explanation: the path must have existed at that time;\n" +
		"- all of them from a graph that received the objects in another order, or everything twice;\n" +
		"- and all of them after the graph has forgotten what ended in the first half of the history: later answers stay the same, and earlier ones may become unknown, but not wrong.\n\n" +
		"The first decision or reason that differs fails the run, and then this page is not written.\n\n")
	p("| Kubernetes | gate settings | histories | steps | requests | asked again later | sweep of every verb, resource, scope, selector, identity | upstream's own cases | fields by reflection | RBAC requests | disagreements |\n")
	p("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var total int
	for _, r := range results {
		p("| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | 0 |\n", r.Kubernetes, r.Settings, count(r.Histories), count(r.Steps), count(r.Requests), count(r.Later),
			count(r.Sweep), count(r.Table), count(r.Fields), count(r.RBAC))
		total += r.Requests + r.Later + r.Sweep + r.Table + r.RBAC
	}
	p("\n%s answers in all. Seeds begin at %d; each setting of the feature gates adds 10^9 to its own. Half of the histories run at the defaults.\n", count(total), results[0].FirstSeed)
	p("Planted errors: %d of %d tried were found (%d are in conformance/testdata/mutations.txt; `make mutation` tries all).\n\n", c.found, c.tried, c.all)
	p("## Known differences\n\n")
	p("These are bugs of the reference. A model of each predicts exactly when it shows; an answer that differs and is not predicted fails the run. The scenarios are in conformance/testdata/regressions.\n\n")
	for _, k := range knownDifferences() {
		var in []string
		for _, r := range results {
			if n := r.Known[k.name]; n > 0 {
				in = append(in, fmt.Sprintf("%s (%s requests)", r.Kubernetes, count(n)))
			}
		}
		if len(in) == 0 {
			in = []string{"none of these runs"}
		}
		p("- **%s**: %s Seen in %s.\n", k.name, k.words, strings.Join(in, ", "))
	}
	if err := unknownBugs(results); err != nil {
		return err
	}
	p("\nIf several RBAC bindings allow a request, the reference names any of them, because it reads them in the order of a map. nodetrail names the first by name, and the comparison gives the\n" +
		"reference its bindings in that order. The reference's graph shows the present and lags behind. nodetrail answers for the time of the request, which is why it marks races.\n\n")
	p("The observations of one object must be given in the order of their times; those of different objects in any order. A whole journal may be given twice, if an API server allows all changes in it.\n\n")
	speedTable(p, results)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func unknownBugs(results []*result) error {
	for _, r := range results {
		for _, name := range slices.Sorted(maps.Keys(r.Known)) {
			if !slices.ContainsFunc(knownDifferences(), func(k struct{ name, words string }) bool { return k.name == name }) {
				return fmt.Errorf("the bug %q has no words for the page", name)
			}
		}
	}
	return nil
}

// speedTable has the cases of the minors that were measured, side by side.
func speedTable(p func(string, ...any), results []*result) {
	var measured []*result
	for _, r := range results {
		if len(r.Speed) > 0 {
			measured = append(measured, r)
		}
	}
	if len(measured) == 0 {
		return
	}
	p("## Speed\n\n")
	p("One decision over the cluster of upstream's benchmark (500 nodes with 200 pods each; 5,000 nodes more that share a configmap and a secret), on all processors of the machine of this\n" +
		"run. The lower quartile of sixteen rounds in which the two take turns; nodetrail with its skew of one second. The writer replaces a pod a hundred times a second.\n\n")
	head, line := "| case |", "|---|"
	for _, r := range measured {
		head += fmt.Sprintf(" %s: reference | nodetrail | times as fast |", r.Kubernetes)
		line += "--:|--:|--:|"
	}
	p("%s\n%s\n", head, line)
	ratios := make([][]float64, len(measured))
	for i, c := range measured[0].Speed {
		p("| %s |", c.Name)
		for k, r := range measured {
			s := r.Speed[i]
			ratios[k] = append(ratios[k], s.Theirs/s.Ours)
			p(" %.0f ns | %.0f ns | %.1f |", s.Theirs, s.Ours, s.Theirs/s.Ours)
		}
		p("\n")
	}
	p("\n")
	for k, r := range measured {
		sort.Float64s(ratios[k])
		p("Kubernetes %s: median %.1f times as fast, at least %.1f times.\n", r.Kubernetes, ratios[k][len(ratios[k])/2], ratios[k][0])
	}
}

// count writes a number with commas.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
