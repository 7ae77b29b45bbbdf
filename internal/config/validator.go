package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/internal/loopback"
)

// validator checks what no single value tells.
type validator struct {
	d      *decoder
	c      *Config
	checks Checks
	// unread is how many problems there were before: of what could not be read.
	unread  int
	listens []listen // in the order in which they are checked
}

// listen is an address on which a server is to listen.
type listen struct{ path, host, port string }

// fail notes what is wrong with a field, at its line or that of what it would stand in. Of what could not be read, wholly or in part,
// nothing more is said.
func (v *validator) fail(path, format string, args ...any) {
	if v.d.errs.full() {
		return
	}
	line := 0
	for p := path; ; p = parent(p) {
		if n, ok := v.d.lines[p]; ok {
			line = n
			break
		}
		if p == "" {
			break
		}
	}
	for i, p := range v.d.errs.Problems {
		rest, within := strings.CutPrefix(path, p.Field)
		if within && (rest == "" || i < v.unread && p.Field != "" && strings.ContainsAny(rest[:1], ".[")) {
			return
		}
	}
	v.d.errs.add(line, path, format, args...)
}

// q quotes a value as the file has it: what a variable stands for may be a secret, whatever the field.
func (v *validator) q(path, value string) string {
	if raw, ok := v.d.raw[path]; ok {
		return quoted(raw)
	}
	return quoted(value)
}

// follow sets what the file does not say itself to what something else in it needs.
func follow[T any](v *validator, path string, field *T, to T) bool {
	if _, given := v.d.lines[path]; given {
		return false
	}
	*field = to
	return true
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// text refuses what would break a line of a log or a label.
func (v *validator) text(path, s string) {
	if !isName(s) {
		v.fail(path, notName, v.q(path, s), mostOfName)
	}
}

const (
	mostOfName = 253
	notName    = "%s is not a name of at most %d bytes without control characters"
)

func isName(s string) bool {
	return len(s) <= mostOfName && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// CheckCluster says what is wrong with the name of a cluster.
func CheckCluster(name string) error {
	if !isName(name) {
		return fmt.Errorf(notName, quoted(name), mostOfName)
	}
	return nil
}

func (v *validator) need(path, s string) bool {
	if s == "" {
		v.fail(path, "a value is needed")
	}
	return s != ""
}

// atLeastOne checks a list that must not be empty, nor hold anything empty or twice.
func (v *validator) atLeastOne(path string, all []string) {
	if len(all) == 0 {
		v.fail(path, "at least one is needed")
	}
	v.distinct(path, all)
}

func (v *validator) distinct(path string, all []string) {
	seen := map[string]bool{}
	for i, s := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if s == "" {
			v.fail(at, "a value is needed")
		} else if seen[s] {
			v.fail(at, "%s is there twice", v.q(at, s))
		}
		seen[s] = true
	}
}

// listen checks host:port, which no other server may have; an empty host is all of this machine's addresses, and the port 0 any that is free.
func (v *validator) listen(path, s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || strings.ContainsAny(host, "/ ") {
		v.fail(path, "%s is not an address such as 127.0.0.1:9876 or :9876", v.q(path, s))
		return false
	}
	one := listen{path, host, strconv.FormatUint(n, 10)}
	if i := slices.IndexFunc(v.listens, one.excludes); i >= 0 {
		v.fail(path, "%s is the address of %s, too: give each a port of its own", v.q(path, s), v.listens[i].path)
	}
	v.listens = append(v.listens, one)
	return true
}

// excludes reports whether two servers cannot both listen. The gateway is a process of its own, which has none of run's sources and pages.
func (l listen) excludes(other listen) bool {
	if l.port != other.port || l.port == "0" || l.gateway() && other.run() || l.run() && other.gateway() {
		return false
	}
	return l.any() || other.any() || strings.EqualFold(l.address(), other.address())
}

func (l listen) gateway() bool { return strings.HasPrefix(l.path, "gateway.") }
func (l listen) run() bool {
	return strings.HasPrefix(l.path, "sources.") || strings.HasPrefix(l.path, "pages.")
}

// any reports whether all of this machine's addresses are meant.
func (l listen) any() bool { return l.host == "" || l.host == "0.0.0.0" || l.host == "::" }

func (l listen) address() string {
	if l.host == "localhost" {
		return "127.0.0.1"
	}
	return l.host
}

// unique refuses a name that another has.
func (v *validator) unique(path, name string, seen map[string]bool) {
	if name != "" && seen[name] {
		v.fail(path, "another one is called %s too: give each a name of its own", v.q(path, name))
	}
	seen[name] = true
}

// pair checks a certificate and its key, which come together.
func (v *validator) pair(prefix, cert, key string) {
	if cert != "" && key == "" {
		v.fail(prefix+"keyFile", "certFile needs its keyFile")
	}
	if key != "" && cert == "" {
		v.fail(prefix+"certFile", "keyFile needs its certFile")
	}
}

func allLoopback(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !loopback.Address(a) })
}

// onePassword checks a secret that may be given in two ways.
func (v *validator) onePassword(prefix, key string, s Secret, file string, needed bool) {
	switch {
	case s.IsSet() && file != "":
		v.fail(prefix+key+"File", "%s is set too: only one of them is allowed", key)
	case needed && !s.IsSet() && file == "":
		v.fail(prefix+key, "%s or %sFile is needed", key, key)
	}
}
