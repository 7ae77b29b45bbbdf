package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/internal/loopback"
)

// labelName is a label that Alertmanager of any version takes.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (v *validator) alertmanager(at string, a *AlertmanagerSink) {
	v.atLeastOne(at+".urls", a.URLs)
	secrets := v.credentials(at, &credentials{a.Username, a.PasswordFile, a.BearerTokenFile, a.Password, a.BearerToken})
	v.clientTLS(at+".tls", &a.TLS)
	for i, u := range a.URLs {
		if this := fmt.Sprintf("%s.urls[%d]", at, i); u != "" {
			v.address(this, u, "http://alertmanager-0:9093", secrets, a.TLS.Enabled)
			switch {
			case strings.Contains(u, "?"):
				v.fail(this, "leave out the query: /api/v2/alerts is added behind the path")
			case strings.HasSuffix(strings.TrimRight(u, "/"), "/api/v2/alerts"):
				v.fail(this, "leave out /api/v2/alerts, which is added")
			}
		}
	}
	v.link(at+".externalURL", a.ExternalURL)
	v.link(at+".runbooks", a.Runbooks)
	reserved := []string{"alertname", "cluster", "severity", "level", "rule", "node", "namespace", "resource"}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		this := at + ".labels." + shown(name)
		switch value := a.Labels[name]; {
		case !labelName.MatchString(name):
			v.fail(this, "this is not the name of a label: letters, digits and _ are allowed, and no digit first")
		case slices.Contains(reserved, name):
			v.fail(this, "nodetrail sets this label itself")
		case value == "" || !utf8.ValidString(value):
			v.fail(this, "a value is needed")
		default:
			v.text(this, value)
		}
	}
	if a.ResolveAfter < a.Resend && !follow(v, at+".resolveAfter", &a.ResolveAfter, a.Resend) {
		v.fail(at+".resolveAfter", "%s is less than resend, which is %s", a.ResolveAfter, a.Resend)
	}
}

// link checks what links begin with, if it is given.
func (v *validator) link(path, value string) {
	u, err := url.Parse(value)
	if value != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		v.fail(path, "it is not an address such as https://nodetrail.example, without a user and a query")
	}
}

// credentials are what a client over HTTP says of itself.
type credentials struct {
	username, passwordFile, bearerTokenFile string
	password, bearerToken                   Secret
}

// credentials checks that there is one way of them, and says whether there is any.
func (v *validator) credentials(at string, c *credentials) bool {
	basic, bearer := c.password.IsSet() || c.passwordFile != "" || c.username != "", c.bearerToken.IsSet() || c.bearerTokenFile != ""
	if basic && bearer {
		v.fail(at+".username", "only one of username with password, and bearerToken, is allowed")
	}
	v.onePassword(at+".", "password", c.password, c.passwordFile, c.username != "")
	v.onePassword(at+".", "bearerToken", c.bearerToken, c.bearerTokenFile, false)
	if strings.ContainsFunc(c.bearerToken.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		// As from a block of YAML, or a variable that was read from a file with its line break. Not quoted: it is a secret.
		v.fail(at+".bearerToken", "it holds a blank, a line break or another character that no token has")
	}
	if c.username == "" && (c.password.IsSet() || c.passwordFile != "") {
		v.fail(at+".username", "a value is needed, since there is a password")
	}
	return basic || bearer
}

// address checks where requests go; secret says that they hold what others must not see.
func (v *validator) address(path, s, example string, secret, tls bool) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		v.fail(path, "a value is needed, such as %s", example)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "":
		// Not quoted: what is not understood may hold a password.
		v.fail(path, "it is not an address such as %s", example)
	case u.User != nil:
		v.fail(path, "a user in the address would be shown in logs: use username and passwordFile")
	case u.Scheme == "http" && secret && !loopback.Host(u.Hostname()):
		v.fail(path, "credentials and headers are sent to other machines by https only")
	case u.Scheme == "http" && tls:
		v.fail(path, "tls is enabled, and the address begins with http")
	}
}
