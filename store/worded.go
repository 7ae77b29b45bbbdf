package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Up to version 2 of the schema the store kept sentences in place of codes and parameters. This file is the only place that reads them, once, to
// move a store to version 3. Sentences may hold any name from the log: each is held against how the program wrote it, from its beginning, and
// never searched for words. The sentence is kept as a parameter, so that it is still shown as it was; counts are the same in any case.

// worded is a group of findings as it was stored.
type worded struct {
	k               tally.Key // without Reason and Apart
	detail, message string
	g               tally.Group
}

// moveWorded moves findings and facts to codes.
func moveWorded(ctx context.Context, w tx, _ *dialect) error {
	const page = 128
	hour, id := int64(noLast), []byte{}
	for more := true; more; {
		rows := make([]movedRow, 0, page)
		err := w.each(ctx, `SELECT hour, id, finding, count, low, first, last, message, severity, allowed, wide, audit_ids, listed FROM findings_worded
			WHERE hour > $1 OR hour = $1 AND id > $2 ORDER BY hour, id LIMIT $3`, []any{hour, id, int64(page)}, func(scan func(...any) error) error {
			row, err := readWorded(scan, &hour, &id)
			rows = append(rows, row)
			return err
		})
		if err != nil {
			return err
		}
		if err := w.upsert(ctx, movedRows(rows)); err != nil {
			return err
		}
		more = len(rows) == page
	}
	if err := w.exec(ctx, `DROP TABLE findings_worded`); err != nil {
		return err
	}
	return moveFacts(ctx, w)
}

// movedRow is a group in its new form.
type movedRow struct {
	hour int64
	id   tally.ID
	key  string
	g    tally.Group
}

// movedRows is the batch of the rows, each key once.
func movedRows(rows []movedRow) *batch {
	slices.SortStableFunc(rows, func(a, b movedRow) int { return cmp.Or(cmp.Compare(a.hour, b.hour), bytes.Compare(a.id[:], b.id[:])) })
	table := findingsTable
	table.columns = table.columns[:14] // those of then
	b := &batch{t: &table}
	for i := 0; i < len(rows); {
		r, next := &rows[i], i+1
		for ; next < len(rows) && rows[next].hour == r.hour && rows[next].id == r.id; next++ {
			merge(&r.g, &rows[next].g)
		}
		g := &r.g
		b.add(r.hour, r.id[:], r.key, g.Count, g.Low, nanos(g.First, noFirst), nanos(g.Last, noLast), escape(string(g.Reason)), paramsText(g.Params),
			int64(g.Severity), flag(g.Allowed), flag(g.Wide), auditIDs(g.AuditIDs), int64(len(g.AuditIDs)))
		i = next
	}
	return b
}

// readWorded reads a row of before, whose place goes to hour and id.
func readWorded(scan func(...any) error, hour *int64, id *[]byte) (out movedRow, err error) {
	var key, ids string
	var first, last, severity, allowed, wide, listed int64
	w := worded{}
	g := &w.g
	if err := scan(hour, id, &key, &g.Count, &g.Low, &first, &last, &w.message, &severity, &allowed, &wide, &ids, &listed); err != nil {
		return out, err
	}
	g.First, g.Last, g.Severity, g.Allowed, g.Wide = fromNanos(first), fromNanos(last), rules.Severity(severity), allowed != 0, wide != 0
	if w.message, err = unescape(w.message); err != nil {
		return out, fmt.Errorf("reading a finding's message: %w", err)
	}
	if g.AuditIDs, err = parseAuditIDs(ids, listed); err != nil {
		return out, err
	}
	f, err := parseList(key, 13)
	if err != nil {
		return out, fmt.Errorf("reading a finding's key: %w", err)
	}
	w.k = tally.Key{
		Rule: f[0], Node: f[1], Verb: f[2], APIGroup: f[3], Resource: f[4], Subresource: f[5], Namespace: f[6], Name: f[7],
		Product: f[8], Binding: rbac.BindingRef{Kind: f[10], Namespace: f[11], Name: f[12]},
	}
	w.detail = f[9]
	w.code()
	text := keyText(&w.k)
	return movedRow{hour: *hour, id: hash(text), key: text, g: w.g}, nil
}

// code fills in what takes the place of detail and message.
func (w *worded) code() {
	if w.g.Wide {
		return
	}
	say := map[string]func() rules.Reason{
		rules.ExcessAccess: w.excess, "out-of-scope-secret-read": w.scope, rules.ForeignWrite: w.foreign, rules.NodeIdentity: w.identity,
		rules.CredentialMisuse: w.credential, rules.PersistentDeny: w.persistent, "secret-enumeration": w.enumeration, "node-deny-spike": w.spike,
		rules.CoverageGap: w.coverage, "authorizer-lag": func() rules.Reason { return rules.GraphBehind },
	}[w.k.Rule]
	if say != nil {
		w.g.Reason = say()
	}
	if rules.ByReason(w.k.Rule) {
		w.k.Reason = w.g.Reason
	}
	w.g.Params = append(w.g.Params, codes.Text(codes.ParamMessage, w.message))
}

func (w *worded) excess() rules.Reason {
	switch {
	case strings.HasPrefix(w.message, "to act as ") && w.k.Verb != "to":
		return rules.ImpersonationGiven
	case strings.HasSuffix(w.message, " alone, which is kubeadm's and stays"):
		return rules.BindingOfKubeadm
	case strings.HasSuffix(w.message, " alone, and there was no such object (404)"):
		return rules.ObjectMissing
	case strings.HasSuffix(w.message, " alone, and admission refused it (403)"):
		return rules.AdmissionRefused
	case w.k.Binding == (rbac.BindingRef{}):
		return rules.BindingUnknown
	}
	return rules.BindingNeeded
}

// outcome is what the sentence says after naming the node: what comes before it is from the log.
func (w *worded) outcome() string {
	by := " by node " + w.k.Node + " "
	if i := strings.LastIndex(w.message, by); i >= 0 {
		return w.message[i+len(by):]
	}
	return ""
}

func (w *worded) scope() rules.Reason {
	switch out := w.outcome(); {
	case strings.HasPrefix(out, "succeeded"):
		return rules.ReadSucceeded
	case strings.HasPrefix(out, "has no answer"):
		return rules.ReadUnanswered
	case strings.HasPrefix(out, "was let through"):
		return rules.ReadFailed
	}
	return rules.ReadRefused
}

func (w *worded) foreign() rules.Reason {
	switch out := w.outcome(); {
	case strings.HasPrefix(out, "went through"), out == "" && w.g.Severity == rules.Critical:
		return rules.WriteSucceeded
	case strings.HasPrefix(out, "was refused by admission"):
		return rules.WriteRefusedByAdmission
	case strings.HasPrefix(out, "passed authorization"):
		return rules.WriteFailed
	}
	return rules.WriteRefused
}

func (w *worded) identity() rules.Reason {
	what, tried, _ := strings.Cut(w.detail, ", ")
	if tried == "impersonated" {
		w.k.Apart = rules.Impersonated
	}
	switch what {
	case "group":
		return rules.GroupMissing
	case "kubelet":
		return rules.NoNodeIdentity
	case "unregistered":
		return w.unregistered()
	}
	if strings.HasPrefix(w.message, fmt.Sprintf("user %q names no node", w.k.Node)) {
		return rules.NameEmpty
	}
	return rules.NameForm
}

// unregistered reads why a node's name is not that of a Node. The name itself may hold any of these words, and comes twice before them.
func (w *worded) unregistered() rules.Reason {
	rest, is := strings.CutPrefix(w.message, fmt.Sprintf("user %q: the cluster has no Node %q", nodeid.UserPrefix+w.k.Node, w.k.Node))
	if !is {
		return rules.NodeMissing
	}
	quoted, is := strings.CutPrefix(rest, `; there is a Node "`)
	if !is {
		return rules.NodeMissing
	}
	similar, how, whole := strings.Cut(quoted, `", which differs in its `)
	if !whole { // it was cut in the name
		similar = strings.TrimSuffix(similar, "...")
		if len(similar) <= len(w.k.Node) && strings.EqualFold(similar, w.k.Node[:len(similar)]) {
			return rules.NameLetterCase
		}
		return rules.NameDomain
	}
	w.g.Params = append(w.g.Params, codes.Text(rules.ParamSimilar, similar)) // names of Nodes need no quoting
	if strings.HasPrefix(how, "letter case") {
		return rules.NameLetterCase
	}
	return rules.NameDomain
}

func (w *worded) credential() rules.Reason {
	if address, is := strings.CutPrefix(w.detail, "address "); is {
		w.k.Apart = address
		return rules.SecondAddress
	}
	switch w.detail {
	case "impersonation":
		return rules.Impersonation
	case "certificates":
		return rules.TwoCertificates
	case "certificate":
		if first, is := strings.CutPrefix(w.message, "node "+w.k.Node+" uses the client certificate that node "); is {
			w.g.Params = append(w.g.Params, codes.Text(rules.ParamFirst, strings.TrimSuffix(first, " has used")))
		}
		return rules.SharedCertificate
	}
	return rules.ForeignClient
}

func (w *worded) persistent() rules.Reason {
	if strings.HasSuffix(w.message, ", and never allowed it in between; another authorizer let it through") {
		return rules.DeniedByNodeOnly
	}
	return rules.DeniedThroughout
}

func (w *worded) enumeration() rules.Reason {
	rest, _ := strings.CutPrefix(w.message, "node "+w.k.Node+" reached for ")
	if i := strings.Index(rest, " different objects within "); i >= 0 && strings.HasPrefix(rest[i:], " different objects within 24 hours ") {
		return rules.ManyWithinDay
	}
	return rules.ManyWithinMinutes
}

func (w *worded) spike() rules.Reason {
	w.k.Apart = strings.TrimPrefix(w.detail, "since ")
	if w.k.Node == "" {
		return rules.SpikeOfCluster
	}
	return rules.SpikeOfNode
}

func (w *worded) coverage() rules.Reason {
	what, minor, _ := strings.Cut(w.detail, ", ")
	if minor == "minor" {
		w.k.Apart = rules.Minor
	}
	switch what {
	case "silence":
		return rules.LogSilent
	case "silent node":
		return rules.NodeSilent
	case "silent nodes":
		return rules.NodesSilent
	case "no secret reads":
		return rules.SecretReadsMissing
	case "no decisions":
		return rules.DecisionsMissing
	case "no answers":
		return rules.AnswersMissing
	case "no verdicts":
		return rules.VerdictsMissing
	}
	return rules.Reason(what) // a code already
}
