package days

import (
	"fmt"
	"time"
)

// Features of a day, to be combined.
type Features uint32

// What can happen on a day.
const (
	Deployments   Features = 1 << iota // workloads are rolled out anew
	Drains                             // a node is cordoned and emptied
	Join                               // a node joins with a certificate of its own
	KubeadmJoin                        // a node joins as kubeadm does it: bootstrap token, CSR, kubeadm's bindings
	NotReady                           // a node is dead for an hour
	ServerRestart                      // an API server restarts
	GraphLag                           // after its restart, its node authorizer does not know all pods for a minute
	Upgrade                            // API servers, then kubelets, move on to the next minor
	Windows                            // a node runs Windows
	Autoscaling                        // nodes come and go
	Spot                               // a node vanishes
	VirtualNodes                       // nodes of KWOK and a virtual kubelet, whose leases no node identity renews
	DHCP                               // a node's address changes
	DualStack                          // kubelets come from IPv4 and IPv6
	ControlPlane                       // a node runs the control plane: its kubelet talks to loopback and to its own address
	Rotation                           // kubelets renew their client certificates
)

// FeatureNames are the names of the features by which programs take them.
func FeatureNames() map[string]Features {
	return map[string]Features{
		"deployments": Deployments, "drains": Drains, "join": Join, "kubeadm-join": KubeadmJoin, "not-ready": NotReady,
		"server-restart": ServerRestart, "graph-lag": GraphLag, "upgrade": Upgrade, "windows": Windows, "autoscaling": Autoscaling,
		"spot": Spot, "virtual-nodes": VirtualNodes, "dhcp": DHCP, "dual-stack": DualStack, "control-plane": ControlPlane, "rotation": Rotation,
	}
}

// Has reports whether all of g are among f.
func (f Features) Has(g Features) bool { return f&g == g }

// Options say what a clean day is like. The zero value is valid: each field says what it then means.
type Options struct {
	// Nodes is how many nodes there are all the time, 3 if 0.
	Nodes int
	// Span is the length of the day, 26 hours if 0; at least 30 minutes. Cadences stay what they are: a short span is less of the same.
	Span time.Duration
	// Servers is how many API servers there are, 1 if 0.
	Servers int
	// Minor is Kubernetes' minor version, NewestMinor if 0.
	Minor    int
	Features Features
	// Scaled is how many nodes Autoscaling makes and drops in the course of the day, 2 if 0.
	Scaled int
	// Profile is the audit policy in force, "nodetrail" if empty: see Profiles.
	Profile string
	// Policy is the text of another audit policy than the profile's.
	Policy string
	// NoBinding leaves out the binding of system:node to the nodes, as after the migration.
	NoBinding bool
	// From is when the day begins, in whole seconds; if zero, a time that the seed chooses.
	From time.Time
}

// The minors whose kubelets are known.
const (
	OldestMinor = 28
	NewestMinor = 37
)

const (
	defaultSpan = 26 * time.Hour
	leastSpan   = 30 * time.Minute
)

func (o Options) complete() (Options, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Span == 0 {
		o.Span = defaultSpan
	}
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.Minor == 0 {
		o.Minor = NewestMinor - 1 // what the tree's own default judges
	}
	if o.Profile == "" {
		o.Profile = "nodetrail"
	}
	if o.Scaled == 0 {
		o.Scaled = 2
	}
	if o.Features.Has(GraphLag) {
		o.Features |= ServerRestart
	}
	switch {
	case o.Nodes < 1:
		return o, fmt.Errorf("%d nodes: there must be one at least", o.Nodes)
	case o.Scaled < 0:
		return o, fmt.Errorf("%d nodes by autoscaling: there must be one at least", o.Scaled)
	case o.Servers < 1:
		return o, fmt.Errorf("%d API servers: there must be one at least", o.Servers)
	case o.Span < leastSpan:
		return o, fmt.Errorf("a span of %s: it must be %s at least", o.Span, leastSpan)
	case o.Minor < OldestMinor || o.Minor > NewestMinor:
		return o, fmt.Errorf("no kubelet of Kubernetes 1.%d is known, only of 1.%d to 1.%d", o.Minor, OldestMinor, NewestMinor)
	case o.Features.Has(Upgrade) && o.Minor == NewestMinor:
		return o, fmt.Errorf("no upgrade is known from 1.%d", NewestMinor)
	}
	if _, ok := Profiles()[o.Profile]; !ok {
		return o, fmt.Errorf("no profile %q", o.Profile)
	}
	return o, nil
}

// patches are the versions whose user agents the programs of a minor send.
var patches = map[int]int{28: 15, 29: 15, 30: 14, 31: 14, 32: 13, 33: 13, 34: 4, 35: 4, 36: 3, 37: 1}

// agent is the user agent of a Kubernetes program.
func agent(program string, minor int, platform, suffix string) string {
	const commit = 0x841856 // any will do
	return fmt.Sprintf("%s/v1.%d.%d (%s) kubernetes/%07x%s", program, minor, patches[minor], platform, commit*minor&0xfffffff, suffix)
}

// Habits of kubelets and API servers by minor.
func watchesLong(minor int) bool     { return minor >= 31 } // watches of secrets and configmaps last 30 to 60 minutes
func getsOwnNode(minor int) bool     { return minor < 31 }  // the kubelet gets its Node every ten seconds
func listsFirst(minor int) bool      { return minor < 35 }  // client-go lists, then watches
func logsCertificate(minor int) bool { return minor >= 32 } // credential-id of certificates
func logsToken(minor int) bool       { return minor >= 30 } // credential-id of tokens, and of those that are issued
func asksForPods(minor int) bool     { return minor >= 32 } // the authorizer asks the graph whether a node gets a pod
func watchesPodCerts(minor int) bool { return minor >= 37 }
func namesAuthorizer(minor int) bool { return minor >= 37 } // reasons begin with "node: "
