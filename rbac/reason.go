package rbac

import (
	"fmt"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

const (
	reasonPrefix  = "RBAC: "
	allowedPrefix = reasonPrefix + "allowed by "
)

// FormatReason returns the reason that the reference gives with an allow, the
// one that an API server writes in the annotation authorization.k8s.io/reason
// of an audit event:
//
//	RBAC: allowed by RoleBinding "name/namespace" of Role "name" to ServiceAccount "name/namespace"
func FormatReason(g Grant) string {
	b := make([]byte, 0, 160)
	b = append(b, allowedPrefix...)
	b = append(b, g.Binding.Kind...)
	b = appendQuoted(b, g.Binding.Name, g.Binding.Namespace, g.Binding.Kind == KindRoleBinding)
	b = append(b, " of "...)
	b = append(b, g.Role.Kind...)
	b = appendQuoted(b, g.Role.Name, "", false)
	b = append(b, " to "...)
	b = append(b, g.Subject.Kind...)
	b = appendQuoted(b, g.Subject.Name, g.Subject.Namespace, g.Subject.Kind == rbacv1.ServiceAccountKind)
	return string(b)
}

// appendQuoted appends a space and the name as fmt's %q writes it; a namespaced
// one is followed by its namespace, the other way round than usual.
func appendQuoted(b []byte, name, namespace string, namespaced bool) []byte {
	b = append(b, ' ')
	if namespaced {
		name += "/" + namespace
	}
	return strconv.AppendQuote(b, name)
}

// OwnReason reports whether a reason is RBAC's, or the beginning of one, as of something that cuts long texts. ParseReason may find no grant in it.
func OwnReason(reason string) bool {
	return strings.HasPrefix(reason, strings.TrimSpace(reasonPrefix)) || strings.HasPrefix(reasonPrefix, reason)
}

// ParseReason finds in an authorization reason the line with which RBAC allowed
// the request and returns the grant that it names: the inverse of FormatReason.
// The reason may have further lines, of other authorizers; the first that is a
// grant counts. Of "a/b/c" the namespace is "c": a name may be odd, a namespace has no slash. It is false
// for anything that the reference cannot have written.
func ParseReason(reason string) (Grant, bool) {
	// Names cannot forge a line: they are quoted, and so have no line break.
	for line := range strings.SplitSeq(reason, "\n") {
		if g, ok := parseLine(strings.TrimRight(line, "\r")); ok {
			return g, true
		}
	}
	return Grant{}, false
}

func parseLine(line string) (g Grant, ok bool) {
	rest, ok := strings.CutPrefix(line, allowedPrefix)
	if !ok {
		return Grant{}, false
	}
	if g.Binding.Kind, g.Binding.Name, rest, ok = cutQuoted(rest); !ok {
		return Grant{}, false
	}
	if rest, ok = strings.CutPrefix(rest, " of "); !ok {
		return Grant{}, false
	}
	if g.Role.Kind, g.Role.Name, rest, ok = cutQuoted(rest); !ok {
		return Grant{}, false
	}
	if rest, ok = strings.CutPrefix(rest, " to "); !ok {
		return Grant{}, false
	}
	if g.Subject.Kind, g.Subject.Name, rest, ok = cutQuoted(rest); !ok || rest != "" {
		return Grant{}, false
	}
	switch g.Binding.Kind {
	case KindClusterRoleBinding:
	case KindRoleBinding:
		if g.Binding.Name, g.Binding.Namespace, ok = cutLast(g.Binding.Name); !ok {
			return Grant{}, false
		}
	default:
		return Grant{}, false
	}
	if g.Role.Kind != KindClusterRole && g.Role.Kind != KindRole {
		return Grant{}, false
	}
	switch g.Subject.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
	case rbacv1.ServiceAccountKind:
		if g.Subject.Name, g.Subject.Namespace, ok = cutLast(g.Subject.Name); !ok {
			return Grant{}, false
		}
	default:
		return Grant{}, false
	}
	return g, true
}

// cutQuoted takes `Kind "name"` from the front of s.
func cutQuoted(s string) (kind, name, rest string, ok bool) {
	kind, s, ok = strings.Cut(s, " ")
	if !ok || !strings.HasPrefix(s, `"`) {
		return "", "", "", false
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", "", false
	}
	name, err = strconv.Unquote(quoted)
	// There are many ways to quote a name, and the reference uses one.
	var b [128]byte
	if err != nil || string(strconv.AppendQuote(b[:0], name)) != quoted {
		return "", "", "", false
	}
	return kind, name, s[len(quoted):], true
}

func cutLast(s string) (name, namespace string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// missingReason is the reason that the reference gives with no opinion: empty,
// or the errors of looking up roles as its aggregate prints them, each once.
func missingReason(missing []MissingRole) string {
	if len(missing) == 0 {
		return ""
	}
	errs := make([]error, len(missing))
	for i, m := range missing {
		switch m.Role.Kind {
		case KindRole:
			errs[i] = apierrors.NewNotFound(rbacv1.Resource("role"), m.Role.Name)
		case KindClusterRole:
			errs[i] = apierrors.NewNotFound(rbacv1.Resource("clusterrole"), m.Role.Name)
		default:
			errs[i] = fmt.Errorf("unsupported role reference kind: %q", m.Role.Kind)
		}
	}
	return reasonPrefix + utilerrors.NewAggregate(errs).Error()
}
