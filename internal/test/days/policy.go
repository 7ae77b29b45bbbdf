package days

import (
	"fmt"
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Profiles are the audit policies that a day can have, YAML by name. "nodetrail" is this project's own; the others are like the documented policies of
// providers, cut down to what the simulated clients do.
func Profiles() map[string]string {
	return map[string]string{"nodetrail": nodetrailPolicy, "eks": eksPolicy, "aks-audit-admin": aksPolicy, "gke": gkePolicy}
}

// nodetrailPolicy has the rules of deploy/audit-policy.yaml.
const nodetrailPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  userGroups: ["system:nodes"]
  verbs: ["create", "update", "patch"]
  resources:
  - {group: "", resources: ["nodes", "nodes/status", "serviceaccounts/token", "persistentvolumeclaims/status"]}
  - {group: resource.k8s.io, resources: ["resourceslices"]}
  - {group: certificates.k8s.io, resources: ["podcertificaterequests"]}
- level: Request
  userGroups: ["system:nodes"]
  verbs: ["create"]
  resources: [{group: "", resources: ["pods"]}]
- level: Request
  verbs: ["create", "update", "patch"]
  resources: [{group: certificates.k8s.io, resources: ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"]}]
- level: Metadata
  userGroups: ["system:nodes"]
- level: Request
  verbs: ["create"]
  resources: [{group: "", resources: ["pods/binding"]}]
- level: Metadata
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
  resources:
  - {group: "", resources: ["pods", "pods/eviction", "nodes", "persistentvolumes"]}
  - {group: storage.k8s.io, resources: ["volumeattachments"]}
  - {group: resource.k8s.io, resources: ["resourceslices"]}
  - {group: certificates.k8s.io, resources: ["podcertificaterequests"]}
- level: Request
  verbs: ["create", "update", "patch", "delete", "deletecollection"]
  resources: [{group: rbac.authorization.k8s.io, resources: ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]}]
- level: Metadata
  users: ["system:apiserver"]
  verbs: ["get", "create", "update", "patch"]
  resources: [{group: coordination.k8s.io, resources: ["leases"]}]
  namespaces: ["kube-system"]
- level: Metadata
  verbs: ["create", "update", "patch"]
  resources: [{group: coordination.k8s.io, resources: ["leases"]}]
  namespaces: ["kube-node-lease"]
- level: Metadata
  verbs: ["get", "list", "watch"]
  resources: [{group: "", resources: ["secrets", "configmaps"]}]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/metrics*", "/openapi/*"]
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:serviceaccounts"]
  resources:
  - {group: coordination.k8s.io, resources: ["leases"]}
  - {group: "", resources: ["events"]}
  - {group: events.k8s.io, resources: ["events"]}
- level: None
  userGroups: ["system:serviceaccounts"]
  verbs: ["get", "list", "watch"]
- level: Metadata
`

// eksPolicy hides what nodes get of nodes, as the documented policy of EKS does.
const eksPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ["system:nodes"]
  verbs: ["get"]
  resources: [{group: "", resources: ["nodes", "nodes/status"]}]
- level: None
  users: ["system:kube-controller-manager", "system:kube-scheduler"]
  verbs: ["get", "update"]
  namespaces: ["kube-system"]
  resources: [{group: "", resources: ["endpoints"]}]
- level: None
  nonResourceURLs: ["/healthz*", "/version", "/swagger*"]
- level: None
  resources: [{group: "", resources: ["events"]}]
- level: Request
  userGroups: ["system:nodes"]
  verbs: ["update", "patch"]
  resources: [{group: "", resources: ["nodes/status", "pods/status"]}]
- level: Metadata
  resources:
  - {group: "", resources: ["secrets", "configmaps", "serviceaccounts/token"]}
  - {group: authentication.k8s.io, resources: ["tokenreviews"]}
- level: Request
`

// aksPolicy is AKS's category kube-audit-admin: no get, list or watch.
const aksPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: ["get", "list", "watch"]
- level: None
  resources: [{group: "", resources: ["events"]}]
- level: Metadata
  resources: [{group: "", resources: ["secrets", "configmaps", "serviceaccounts/token"]}]
- level: Request
`

// gkePolicy hides what nodes get of nodes, and leaves the API servers' own Leases out.
const gkePolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["kubelet"]
  verbs: ["get"]
  resources: [{group: "", resources: ["nodes", "nodes/status"]}]
- level: None
  userGroups: ["system:nodes"]
  verbs: ["get"]
  resources: [{group: "", resources: ["nodes", "nodes/status"]}]
- level: None
  users: ["system:apiserver"]
- level: None
  resources: [{group: "", resources: ["events"]}]
- level: Metadata
  resources:
  - {group: "", resources: ["secrets", "configmaps", "serviceaccounts/token"]}
  - {group: authentication.k8s.io, resources: ["tokenreviews"]}
- level: Request
`

// logged are the events that a policy logs, each at the policy's level.
func logged(text string, events []*Event) ([]*Event, error) {
	p, err := policy.LoadPolicyFromBytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(p)
	attributes := authorizer.AttributesRecord{}
	out := events[:0]
	for _, e := range events {
		attributes = attributesOf(e)
		rule := evaluator.EvaluatePolicyRule(&attributes)
		level := rule.Level
		if level == auditinternal.LevelNone || slices.Contains(rule.OmitStages, auditinternal.Stage(e.Stage)) {
			continue
		}
		if level == auditinternal.LevelMetadata || e.Request == nil {
			e.Level = LevelMetadata
		} else {
			e.Level = LevelRequest
		}
		out = append(out, e)
	}
	return out, nil
}

func attributesOf(e *Event) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: e.User.Username, Groups: e.User.Groups}, Verb: e.Verb, Path: e.URI}
	if e.Ref != nil {
		a.ResourceRequest, a.APIGroup, a.APIVersion, a.Resource, a.Subresource = true, e.Ref.Group, e.Ref.Version, e.Ref.Resource, e.Ref.Subresource
		a.Namespace, a.Name = e.Ref.Namespace, e.Ref.Name
	}
	return a
}
