package plane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// User is who makes a request.
type User struct {
	Username string
	Groups   []string
	Extra    map[string][]string
}

// Event is what is looked at of an audit event.
type Event struct {
	AuditID, Stage, Verb, RequestURI, UserAgent string
	User                                        User
	// ImpersonatedUser is whom the user acts as, nil for nobody.
	ImpersonatedUser *User
	ObjectRef        struct {
		Resource, Namespace, Name, APIGroup, Subresource string
	}
	ResponseStatus struct {
		Code int
	}
	RequestReceivedTimestamp, StageTimestamp time.Time
	Annotations                              map[string]string
}

// As is who the request is authorized as.
func (e *Event) As() *User {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser
	}
	return &e.User
}

// Decision and Reason are the authorizers' word.
func (e *Event) Decision() string { return e.Annotations["authorization.k8s.io/decision"] }

// Reason is what they said.
func (e *Event) Reason() string { return e.Annotations["authorization.k8s.io/reason"] }

// NodeAllowed says what the annotations imply of the Node authorizer, where it is asked before RBAC: it alone allows without a reason.
func (e *Event) NodeAllowed() bool { return e.Decision() == "allow" && e.Reason() == "" }

// AuditLog reads the API server's audit log as it grows. It is not for logs that are rotated.
type AuditLog struct {
	path   string
	mu     sync.Mutex
	offset int64
	byID   map[string]*Event
}

// Find returns the last event that the log has of a request so far, nil if it has none.
func (l *AuditLog) Find(auditID string) (*Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, err
	}
	return l.byID[auditID], nil
}

// Each calls f with the last event of each request so far.
func (l *AuditLog) Each(f func(*Event)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return err
	}
	for _, e := range l.byID {
		f(e)
	}
	return nil
}

func (l *AuditLog) read() error {
	if l.byID == nil {
		l.byID = map[string]*Event{}
	}
	return followLines(l.path, &l.offset, func(line []byte) error {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		l.byID[e.AuditID] = &e
		return nil
	})
}

// followLines calls f with the whole lines from the offset on, which it moves.
func followLines(path string, offset *int64, f func([]byte) error) error {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(*offset, io.SeekStart); err != nil {
		return err
	}
	b, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	for line := range bytes.Lines(whole) {
		*offset += int64(len(line))
		if err := f(line); err != nil {
			return err
		}
	}
	return nil
}

// FollowLines is for files of JSON lines that grow.
func FollowLines(path string, offset *int64, f func([]byte) error) error {
	return followLines(path, offset, f)
}

// Denial is a NODE DENY line of the API server's log. It has either the attributes, or a text that names node and object.
type Denial struct {
	Text                                               string
	Node, Verb, Namespace, Resource, Subresource, Name string
}

// Of says whether the line may be about such a request.
func (d *Denial) Of(node, verb, namespace, resource, subresource, name, reason string) bool {
	if d.Text == "" {
		return *d == Denial{Node: node, Verb: verb, Namespace: namespace, Resource: resource, Subresource: subresource, Name: name}
	}
	head, _, _ := strings.Cut(strings.TrimPrefix(d.Text, "unknown "), ",")
	return d.Text == reason || strings.HasPrefix(head, "node '"+node+"' ") && strings.HasSuffix(head, " "+namespace+"/"+name)
}

// NodeDenials are the NODE DENY lines that the API server has logged so far, in order, but for those of users without a node's name.
func (p *Plane) NodeDenials() ([]Denial, error) {
	text := regexp.MustCompile(`"NODE DENY" err="((?:[^"\\]|\\.)*)"`)
	attributes := regexp.MustCompile(`NODE DENY: '([^']*)' &authorizer\.AttributesRecord\{.* Verb:"([^"]*)", Namespace:"([^"]*)", APIGroup:"[^"]*", APIVersion:"[^"]*", Resource:"([^"]*)", Subresource:"([^"]*)", Name:"([^"]*)"`)
	plain := regexp.MustCompile(`NODE DENY: (.*)`)
	var out []Denial
	for _, path := range p.logs {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's log: %w", err)
		}
		for line := range bytes.Lines(b) {
			if !bytes.Contains(line, []byte("NODE DENY")) {
				continue
			}
			if m := text.FindSubmatch(line); m != nil {
				out = append(out, Denial{Text: strings.ReplaceAll(string(m[1]), `\"`, `"`)})
			} else if m := attributes.FindSubmatch(line); m != nil {
				out = append(out, Denial{Node: string(m[1]), Verb: string(m[2]), Namespace: string(m[3]), Resource: string(m[4]), Subresource: string(m[5]), Name: string(m[6])})
			} else if m := plain.FindSubmatch(line); m != nil && !bytes.HasPrefix(m[1], []byte("unknown node for user")) {
				out = append(out, Denial{Text: strings.TrimSpace(string(m[1]))})
			}
		}
	}
	return out, nil
}

// AuditLogs are the audit log's files, rotated ones first.
func (p *Plane) AuditLogs() ([]string, error) {
	rotated, err := filepath.Glob(filepath.Join(p.Dir, "audit-2*.log"))
	if err != nil {
		return nil, fmt.Errorf("looking for audit logs: %w", err)
	}
	slices.Sort(rotated)
	return append(rotated, p.Log.path), nil
}
