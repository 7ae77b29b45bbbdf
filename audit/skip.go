package audit

import (
	"bytes"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// A skipper answers for the lines of one buffer, asked in order. It remembers where each needle comes next, so that a needle that is
// rare costs one pass over the buffer and not a search in each line.
type skipper struct {
	buf  []byte
	want Want
	s    jscan.Scanner
	// The offsets of the next hit of each needle, len(buf) where there is none, -1 before the first search.
	node, bootstrap, kubelet, refused, role, server, escape, verb int
	others                                                  []int // of want.Others
}

func (k *skipper) reset() {
	k.node, k.bootstrap, k.kubelet, k.refused, k.role, k.server, k.escape, k.verb = -1, -1, -1, -1, -1, -1, -1, -1
	k.others = k.others[:0]
	for range k.want.Others.strings() {
		k.others = append(k.others, -1)
	}
}

// nativeHead is how kube-apiserver begins an event.
const nativeHead = `{"kind":"Event","apiVersion":"audit.k8s.io/`

var (
	verbKey      = []byte(`"verb"`)
	objectRefKey = []byte(`"objectRef"`)
)

// skippable is whether the bytes of a line, buf[from:to], alone show that it is one event that Needed is false for. It never says so of an event
// that is needed; where it is not sure, which includes every line that kube-apiserver did not write as it is, it is false. The line
// holds no line break.
//
// Why that is so, whatever the order of keys, duplicates and white space. A string of JSON holds characters as themselves or as
// escapes. A line with an escape that could stand for a letter or any other character of a needle is not skippable, so in all others
// a string that begins with kubelet or system:node: is the bytes of that word after a quote, and a key is its bytes between quotes. In
// valid JSON the quote that begins a string never follows a backslash. Hence a line without `"system:node:`, `"system:nodes"`,
// `"system:bootstrap:` and `"kubelet` is of no node, no bootstrap token and no kubelet, one without the names that are wanted is not theirs, and one
// that lacks "forbidden: User " or " impersonate" is no refused impersonation, one without the role's name in a reason was not allowed by it; and a line with the bytes `"verb"` once has the one verb that follows
// them or none, and one with `"objectRef"` once the one
// objectRef that follows it or none.
func (k *skipper) skippable(from, to int) bool {
	line := k.buf[from:to]
	if k.want.All || !k.want.Others.findable() || len(line) < len(nativeHead)+2 || string(line[:len(nativeHead)]) != nativeHead || !wholeTail(line) {
		return false
	}
	if k.node < from {
		k.node = nextString(k.buf, from, nodeBefore, nodeNeedle)
	}
	if k.node < to {
		return false
	}
	if k.bootstrap < from {
		k.bootstrap = nextString(k.buf, from, nodeBefore, bootstrapNeedle)
	}
	if k.bootstrap < to {
		return false
	}
	if k.kubelet < from {
		k.kubelet = nextString(k.buf, from, kubeletBefore, kubeletNeedle)
	}
	if k.kubelet < to {
		return false
	}
	for i, s := range k.want.Others.strings() {
		if k.others[i] < from {
			k.others[i] = nextString(k.buf, from, kubeletBefore, s)
		}
		if k.others[i] < to {
			return false
		}
	}
	if k.refused < from {
		k.refused = nextString(k.buf, from, refusedBefore, refusedNeedle)
	}
	if k.refused < to && bytes.Contains(line, impersonateNeedle) {
		return false
	}
	if k.role < from {
		k.role = nextString(k.buf, from, roleBefore, roleNeedle)
	}
	if k.role < to {
		return false
	}
	if k.escape < from {
		k.escape = nextEscape(k.buf, from)
	}
	if k.escape < to {
		return false
	}
	if k.verb < from {
		k.verb = nextVerb(k.buf, from)
	}
	verb := k.verb
	if verb >= to {
		return false
	}
	if k.verb = nextVerb(k.buf, verb+len(verbKey)); k.verb < to {
		return false
	}
	return wholeHead(k.buf[from:verb]) && k.readOrNoState(verb+len(verbKey), from, to)
}

// wholeTail is whether the line ends as kube-apiserver ends an event: with annotations, or with the time of the stage. Where an event was torn, its line
// ends so only within a body, which comes after all that [Needed] asks for.
func wholeTail(line []byte) bool {
	const stage = `"stageTimestamp":"`
	const last = len(stage) + len(`2006-01-02T15:04:05.000000Z"}`)
	n := len(line)
	switch {
	case line[n-1] != '}' || n <= last:
		return false
	case line[n-2] == '}':
		return line[n-3] == '"' && line[n-4] != '\\'
	}
	return string(line[n-3:]) == `Z"}` && string(line[n-last:n-last+len(stage)]) == stage
}

// wholeHead is whether the bytes before the verb are as kube-apiserver writes them: it is by a broken head that a line which was
// torn, and had another one written behind it, shows.
func wholeHead(head []byte) bool {
	// Six keys and six values in quotes: a broken head holds the beginning of another one as well.
	return head[len(head)-1] == ',' && head[len(head)-2] == '"' && bytes.Count(head, []byte{'"'}) == 24
}

// readOrNoState is whether the one verb of the line, whose value follows the colon at pos, changes nothing that is state, nor the
// Lease of an API server or a node, a CertificateSigningRequest or a bootstrap token.
func (k *skipper) readOrNoState(pos, from, to int) bool {
	rest := k.buf[pos:to]
	if len(rest) < 2 || rest[0] != ':' || rest[1] != '"' {
		return false
	}
	rest = rest[2:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return false
	}
	line := k.buf[from:to]
	verb := string(rest[:end])
	if !stateVerb(verb) {
		if !keepVerb(verb) {
			return true
		}
		if k.server < from {
			k.server = nextString(k.buf, from, serverBefore, serverNeedle)
		}
		if k.server >= to {
			return true
		}
	}
	ref, more := onlyObjectRef(line)
	if ref < 0 {
		return !more
	}
	o, ok := k.reference(line, ref)
	return ok && !o.isServerLease() && (!renewVerb(verb) || !o.isNodeLease() && !o.isSigning() && !o.isBootstrapToken()) && (!k.want.State || !stateVerb(verb) || !stateKind(o.Resource, o.Subresource))
}

// onlyObjectRef returns where the value of the line's one objectRef begins, or -1 and whether there is any at all.
func onlyObjectRef(line []byte) (pos int, found bool) {
	pos = -1
	for i := len(`"ob`); i < len(line); {
		hit := bytes.Index(line[i:], objectRefKey[3:])
		if hit < 0 {
			break
		}
		hit += i
		i = hit + len(objectRefKey) - 3
		if string(line[hit-3:hit]) != `"ob` {
			continue
		}
		if found || i >= len(line) || line[i] != ':' {
			return -1, true
		}
		pos, found = i+1, true
	}
	return pos, found
}

// reference reads what matters of the objectRef at line[pos:]. It is false where a value is no string: of duplicate keys the last wins, but for
// a null.
func (k *skipper) reference(line []byte, pos int) (o ObjectRef, ok bool) {
	s := &k.s
	s.ResetAt(line, pos)
	var key string
	for s.Object(); s.Key(&key); {
		switch key {
		case "resource":
			o.Resource = s.String()
		case "subresource":
			o.Subresource = s.String()
		case "namespace":
			o.Namespace = s.String()
		case "name":
			o.Name = s.String()
		default:
			s.Skip()
		}
	}
	return o, s.Err() == nil
}

// The beginnings of strings that make an event needed, without their quote. bytes.Index looks for the first byte of what it is given,
// and in audit logs a k is rarer than a quote.
var (
	nodeNeedle      = []byte("ystem:node")
	nodeBefore      = []byte(`"s`)
	bootstrapNeedle = []byte("ystem:bootstrap:")
	kubeletNeedle   = []byte("kubelet")
	kubeletBefore   = []byte(`"`)
	// Of the message of what RefusedImpersonation finds.
	refusedNeedle     = []byte("User ")
	refusedBefore     = []byte("forbidden: ")
	impersonateNeedle = []byte(" impersonate")
	// Together they are of nodeRoleInReason, as JSON.
	roleBefore = []byte(`ClusterRole \"s`)
	roleNeedle = []byte(`ystem:node\" to `)
	// Together they are serverLeasePrefix.
	serverNeedle = []byte("ver-")
	serverBefore = []byte("apiser")
)

// nextString returns the offset of the next string that begins with before, its quote included, and then with rest, or len(buf).
func nextString(buf []byte, from int, before, rest []byte) int {
	for i := from; i < len(buf); {
		hit := bytes.Index(buf[i:], rest)
		if hit < 0 {
			break
		}
		hit += i
		i = hit + len(rest)
		start := hit - len(before)
		if start < from || !bytes.Equal(buf[start:hit], before) || start > from && buf[start-1] == '\\' {
			continue
		}
		return start
	}
	return len(buf)
}

// nextVerb returns the offset of the next `"verb"`, or len(buf).
func nextVerb(buf []byte, from int) int {
	for i := from + 1; i < len(buf); i++ {
		hit := bytes.Index(buf[i:], verbKey[1:])
		if hit < 0 {
			break
		}
		if i += hit; buf[i-1] == '"' {
			return i - 1
		}
	}
	return len(buf)
}

// nextEscape returns the offset of the next escape that stands for a printable ASCII character, other than those three that Go's
// encoder writes as escapes though they need none, or len(buf).
func nextEscape(buf []byte, from int) int {
	for i := from; i < len(buf); {
		hit := bytes.IndexByte(buf[i:], '\\')
		if hit < 0 {
			break
		}
		hit += i
		i = hit + 2
		if i > len(buf) || buf[hit+1] != 'u' {
			continue
		}
		if !harmless(buf[i:min(i+4, len(buf))]) {
			return hit
		}
	}
	return len(buf)
}

// harmless is whether four hexadecimal digits are those of a character that no needle holds.
func harmless(digits []byte) bool {
	if len(digits) < 4 {
		return false
	}
	if digits[0] != '0' || digits[1] != '0' {
		return true
	}
	switch string(digits) {
	case "0026", "003c", "003e":
		return true
	}
	return digits[2] < '2' || digits[2] > '7'
}
