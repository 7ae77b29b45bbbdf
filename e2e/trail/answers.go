package trail

import (
	"time"

	"github.com/nodetrail/nodetrail/report"
)

// Verdict is a verdict line of the contract.
type Verdict struct {
	AuditID     string    `json:"auditID"`
	Time        time.Time `json:"time"`
	Node        string    `json:"node"`
	Verb        string    `json:"verb"`
	APIGroup    string    `json:"apiGroup"`
	Resource    string    `json:"resource"`
	Subresource string    `json:"subresource"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Verdict     string    `json:"verdict"`
	Race        bool      `json:"race"`
	Reason      string    `json:"reason"`
	Detail      string    `json:"detail"`
	Observed    struct {
		Decision    string `json:"decision"`
		Authorizer  string `json:"authorizer"`
		NodeVerdict string `json:"nodeVerdict"`
		Reason      string `json:"reason"`
		Binding     *struct {
			Kind, Namespace, Name string
		} `json:"binding"`
	} `json:"observed"`
	// Admission is about NodeRestriction; nil for what it is not asked about.
	Admission *struct {
		Verdict, Message, Missing, Observed string
		Code                                int
		Race                                bool
	} `json:"admission"`
	Code      int      `json:"code"`
	UserAgent string   `json:"userAgent"`
	Findings  []string `json:"findings"`
}

// Report is the contract's report.
type Report = report.Report
