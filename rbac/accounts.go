package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	accountUser  = "system:serviceaccount:"
	accountGroup = "system:serviceaccounts"
)

// Account is the service account whose user name the subject is, or the subject itself.
func (s SubjectRef) Account() SubjectRef {
	account, is := strings.CutPrefix(s.Name, accountUser)
	namespace, name, ok := strings.Cut(account, ":")
	if s.Kind != rbacv1.UserKind || !is || !ok {
		return s
	}
	return SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Accounts are those of the given service accounts that the subject is, by their values: a ServiceAccount, its user, or the groups that all of them or all of a
// namespace are in. Groups of all authenticated users are not among them.
func (s SubjectRef) Accounts(accounts map[SubjectRef]int) []int {
	if s = s.Account(); s.Kind != rbacv1.GroupKind {
		if i, ok := accounts[s]; ok {
			return []int{i}
		}
		return nil
	}
	rest, is := strings.CutPrefix(s.Name, accountGroup)
	namespace, one := strings.CutPrefix(rest, ":")
	if !is || rest != "" && !one {
		return nil
	}
	var out []int
	for a, i := range accounts {
		if !one || a.Namespace == namespace {
			out = append(out, i)
		}
	}
	return out
}
