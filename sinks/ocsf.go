package sinks

import (
	"net/netip"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework by which findings are written.
const OCSFVersion = "1.5.0"

// The numbers that OCSF gives to the category Findings and its class Detection Finding.
const (
	ocsfCategory = 2
	ocsfClass    = 2004
)

// OCSFFinding is a finding as the class Detection Finding of OCSF. Times are in milliseconds since 1970.
type OCSFFinding struct {
	ActivityID   int             `json:"activity_id"`
	ActivityName string          `json:"activity_name"`
	CategoryUID  int             `json:"category_uid"`
	CategoryName string          `json:"category_name"`
	ClassUID     int             `json:"class_uid"`
	ClassName    string          `json:"class_name"`
	TypeUID      int             `json:"type_uid"`
	TypeName     string          `json:"type_name"`
	SeverityID   int             `json:"severity_id"`
	Severity     string          `json:"severity"`
	StatusID     int             `json:"status_id"`
	Status       string          `json:"status"`
	IsAlert      bool            `json:"is_alert"`
	Time         int64           `json:"time"`
	StartTime    int64           `json:"start_time"`
	EndTime      int64           `json:"end_time"`
	Count        int64           `json:"count"`
	Message      string          `json:"message"`
	Metadata     ocsfMetadata    `json:"metadata"`
	FindingInfo  ocsfFindingInfo `json:"finding_info"`
	Evidences    []ocsfEvidence  `json:"evidences,omitempty"`
	Resources    []ocsfResource  `json:"resources,omitempty"`
	Unmapped     ocsfUnmapped    `json:"unmapped"`
}

// The parts of an OCSFFinding, by the names of OCSF's objects.
type (
	ocsfMetadata struct {
		UID       string      `json:"uid"`
		Version   string      `json:"version"`
		EventCode string      `json:"event_code"`
		Product   ocsfProduct `json:"product"`
	}
	ocsfProduct struct {
		Name       string `json:"name"`
		VendorName string `json:"vendor_name"`
	}
	ocsfFindingInfo struct {
		UID         string       `json:"uid"`
		Title       string       `json:"title"`
		Desc        string       `json:"desc"`
		Types       []string     `json:"types"`
		DataSources []string     `json:"data_sources"`
		FirstSeen   int64        `json:"first_seen_time"`
		LastSeen    int64        `json:"last_seen_time"`
		Analytic    ocsfAnalytic `json:"analytic"`
	}
	ocsfAnalytic struct {
		UID    string `json:"uid"`
		Name   string `json:"name"`
		TypeID int    `json:"type_id"`
		Type   string `json:"type"`
	}
	ocsfEvidence struct {
		Actor       *ocsfActor    `json:"actor,omitempty"`
		SrcEndpoint *ocsfEndpoint `json:"src_endpoint,omitempty"`
		API         *ocsfAPI      `json:"api,omitempty"`
	}
	ocsfActor struct {
		User ocsfUser `json:"user"`
	}
	ocsfUser struct {
		Name   string      `json:"name"`
		Groups []ocsfNamed `json:"groups,omitempty"`
	}
	ocsfNamed struct {
		Name string `json:"name"`
	}
	ocsfEndpoint struct {
		IP       string `json:"ip,omitempty"`
		Name     string `json:"name,omitempty"`
		Hostname string `json:"hostname,omitempty"`
	}
	ocsfAPI struct {
		Operation string        `json:"operation"`
		Request   *ocsfRequest  `json:"request,omitempty"`
		Response  *ocsfResponse `json:"response,omitempty"`
	}
	ocsfRequest struct {
		UID string `json:"uid"`
	}
	ocsfResponse struct {
		Code int32 `json:"code"`
	}
	ocsfResource struct {
		Name      string `json:"name"`
		Type      string `json:"type"`
		Namespace string `json:"namespace,omitempty"`
	}
	// ocsfUnmapped is what OCSF has no place for.
	ocsfUnmapped struct {
		Cluster      string       `json:"cluster"`
		Reason       rules.Reason `json:"reason"`
		Params       codes.Params `json:"params"`
		Detail       string       `json:"detail"`
		Binding      Binding      `json:"binding"`
		UserAgent    string       `json:"userAgent"`
		Impersonated []string     `json:"impersonated"`
		Allowed      bool         `json:"allowed"`
		Authorized   bool         `json:"authorized"`
		Runbook      string       `json:"runbook"`
	}
)

// AsOCSF is the finding as a Detection Finding. What is sent again of a group is an update of the finding with the same finding_info.uid.
func AsOCSF(f *Finding) OCSFFinding {
	activity, name := 1, "Create"
	if f.Continued {
		activity, name = 2, "Update"
	}
	severity, called := ocsfSeverity(f.Severity)
	title := f.Rule
	for _, r := range rules.All() {
		if r.Name == f.Rule {
			title = r.Title()
		}
	}
	first, last := f.First.UnixMilli(), f.Last.UnixMilli()
	return OCSFFinding{
		ActivityID: activity, ActivityName: name, CategoryUID: ocsfCategory, CategoryName: "Findings", ClassUID: ocsfClass, ClassName: "Detection Finding",
		TypeUID: ocsfClass*100 + activity, TypeName: "Detection Finding: " + name, SeverityID: severity, Severity: called, StatusID: 1, Status: "New", IsAlert: true,
		Time: last, StartTime: first, EndTime: last, Count: f.Count, Message: f.Message,
		Metadata: ocsfMetadata{UID: AsCloudEvent(f).ID, Version: OCSFVersion, EventCode: f.Rule, Product: ocsfProduct{"nodetrail", "nodetrail"}},
		FindingInfo: ocsfFindingInfo{
			UID: f.ID, Title: title, Desc: f.Message, Types: []string{f.Rule}, DataSources: []string{"Kubernetes audit log"}, FirstSeen: first, LastSeen: last,
			Analytic: ocsfAnalytic{f.Rule, f.Rule, 1, "Rule"},
		},
		Evidences: f.ocsfEvidences(), Resources: f.ocsfResources(),
		Unmapped: ocsfUnmapped{
			Cluster: f.Cluster, Reason: f.Reason, Params: f.Params, Detail: f.Detail, Binding: f.Binding, UserAgent: f.UserAgent, Impersonated: f.Impersonated,
			Allowed: f.Allowed, Authorized: f.Authorized, Runbook: f.Runbook,
		},
	}
}

func ocsfSeverity(s string) (id int, name string) {
	switch severityOf(s) {
	case rules.Low:
		return 2, "Low"
	case rules.Medium:
		return 3, "Medium"
	case rules.High:
		return 4, "High"
	case rules.Critical:
		return 5, "Critical"
	}
	return 0, "Unknown"
}

// ocsfEvidences are the users, the addresses, the answers and the audit IDs, each by itself: which of them belong to one request the group does not tell.
func (f *Finding) ocsfEvidences() []ocsfEvidence {
	var out []ocsfEvidence
	var groups []ocsfNamed
	for _, g := range f.Groups {
		groups = append(groups, ocsfNamed{g})
	}
	for _, u := range f.Users {
		out = append(out, ocsfEvidence{Actor: &ocsfActor{ocsfUser{u, groups}}})
	}
	for _, a := range f.Addresses {
		e := &ocsfEndpoint{Hostname: a.Node}
		if _, err := netip.ParseAddr(a.Address); err == nil {
			e.IP = a.Address
		} else {
			e.Name = a.Address
		}
		out = append(out, ocsfEvidence{SrcEndpoint: e})
	}
	operation := strings.TrimSpace(f.Verb + " " + f.resource())
	for _, code := range f.Answers {
		out = append(out, ocsfEvidence{API: &ocsfAPI{Operation: operation, Response: &ocsfResponse{code}}})
	}
	for _, id := range f.AuditIDs {
		out = append(out, ocsfEvidence{API: &ocsfAPI{Operation: operation, Request: &ocsfRequest{id}}})
	}
	return out
}

// resource is resource[.group][/subresource].
func (f *Finding) resource() string {
	s := f.Resource
	if f.APIGroup != "" {
		s += "." + f.APIGroup
	}
	if f.Subresource != "" {
		s += "/" + f.Subresource
	}
	return s
}

// ocsfResources are the node or user that the finding is about, and the object that was asked for.
func (f *Finding) ocsfResources() []ocsfResource {
	var out []ocsfResource
	if f.Node != "" {
		kind := "node"
		if strings.Contains(f.Node, ":") { // no name of a node has one
			kind = "user"
		}
		out = append(out, ocsfResource{Name: f.Node, Type: kind})
	}
	if f.Name != "" {
		out = append(out, ocsfResource{Name: f.Name, Type: f.resource(), Namespace: f.Namespace})
	}
	return out
}
