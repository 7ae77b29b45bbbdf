package credfile

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Bounds of a token, in bytes. The least also keeps the beginning of one, from a file that is being written, from being one; the most is what servers
// take as a header.
const (
	minToken = 16
	MaxToken = 16 << 10
)

// Tokens are the bearer tokens that a server knows, by their hashes.
type Tokens [][sha256.Size]byte

// ParseTokens reads a token from each line. There must be one: a file that is being written is empty first.
func ParseTokens(text []byte) (Tokens, error) {
	var out Tokens
	for line := range bytes.Lines(text) {
		switch token := bytes.TrimSpace(line); {
		case len(token) > MaxToken:
			return nil, fmt.Errorf("a token of %d bytes is longer than %d", len(token), MaxToken)
		case len(token) >= minToken:
			out = append(out, sha256.Sum256(token))
		case len(token) > 0:
			return nil, fmt.Errorf("a token of %d bytes is shorter than %d", len(token), minToken)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no token in it")
	}
	return out, nil
}

// Have compares with all tokens, whichever matches, and by hashes: the time it takes tells nothing of a token.
func (t Tokens) Have(token string) bool {
	sum := sha256.Sum256([]byte(token))
	known := 0
	for i := range t {
		known |= subtle.ConstantTimeCompare(sum[:], t[i][:])
	}
	return known == 1
}

// Bearer is the token that a request bears, or "" if it bears none, or several.
func Bearer(h http.Header) string {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
