package report

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// accountPrefix begins the names of all suggested objects, so that none of them can replace one of the client's own: many an agent
// already has a ClusterRole of its name.
const accountPrefix = "nodetrail-"

// accountName makes a DNS label of a user agent's product. One that had to be changed for it ends with a hash, so that different
// user agents have different names, whatever a client calls itself.
func accountName(product string) string {
	var b strings.Builder
	dash := true // none to begin with
	for _, r := range strings.ToLower(product) {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			b.WriteRune(r)
			dash = false
		case !dash:
			b.WriteByte('-')
			dash = true
		}
		if b.Len() >= 30 {
			break
		}
	}
	label := strings.Trim(b.String(), "-")
	if label != product || label == "" || hashed(label) {
		sum := sha256.Sum256([]byte(product))
		if label == "" {
			label = "client"
		}
		label += "-" + hex.EncodeToString(sum[:8])
	}
	return accountPrefix + label
}

// hashed reports whether the name ends as one that was changed does.
func hashed(label string) bool {
	i := strings.LastIndexByte(label, '-')
	_, err := hex.DecodeString(label[i+1:])
	return i >= 0 && len(label)-i-1 == 16 && err == nil
}

// plainText reports whether a string can stand in a rule as it is: not empty, not too long, no wildcard, and nothing that is changed
// or misread on its way through YAML.
func plainText(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.Contains(s, "*") &&
		strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Cf, r) }) < 0
}

// writable reports whether a rule can allow the kind of request without allowing another.
func (k useKey) writable() bool {
	if !plainText(k.verb, 64) {
		return false
	}
	if k.resource == "" {
		return plainText(k.path, 512) && strings.HasPrefix(k.path, "/")
	}
	return plainText(k.resource, 253) && !strings.Contains(k.resource, "/") && (k.group == "" || plainText(k.group, 253)) &&
		(k.sub == "" || plainText(k.sub, 253)) && (k.namespace == "" || len(validation.IsDNS1123Label(k.namespace)) == 0)
}
