package wording

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// said is what a sentence is made of.
type said struct {
	k *tally.Key
	p codes.Params
}

const nodeUser = nodeid.UserPrefix

// findings has a sentence for each reason.
var findings = map[rules.Reason]func(*said) string{
	rules.BindingNeeded:     (*said).excess,
	rules.BindingUnknown:    (*said).excess,
	rules.BindingOfKubeadm:  func(s *said) string { return s.excess() + ", which is kubeadm's and stays" },
	rules.BindingOfProfiles: func(s *said) string { return s.excess() + ", which is k0s's and stays" },
	rules.BindingDuringLag: func(s *said) string {
		return s.excess() + ", because the API server's Node authorizer denied what the state had long allowed"
	},
	rules.ObjectMissing: func(s *said) string { return s.excess() + ", and there was no such object (404)" },
	rules.OwnUntilBefore: func(s *said) string {
		if s.k.Resource == "pods" {
			return s.excess() + ", after a pod of that name on this node was deleted"
		}
		return s.excess() + ", right after the pod on this node that used it was deleted"
	},
	rules.RefusalTolerated: func(s *said) string { return s.excess() + ", and kubeadm continues without it" },
	rules.NameImpossible: func(s *said) string {
		return fmt.Sprintf("%s %s %q in namespace %s is allowed to node %s by %s alone, but no object can have that name: the answer is empty",
			s.k.Verb, s.k.Resource, s.p.Text(rules.ParamName), s.k.Namespace, s.k.Node, s.binding())
	},
	rules.AdmissionRefused: func(s *said) string { return s.excess() + ", and admission refused it (403)" },
	rules.ImpersonationGiven: func(s *said) string {
		return fmt.Sprintf("to act as %q is allowed to node %s by %s alone", s.p.Text(rules.ParamUser), s.k.Node, s.binding())
	},

	rules.ByOtherBinding: func(s *said) string {
		return s.request() + " is allowed to node " + s.k.Node + " by " + s.binding() + ", which is not for nodes"
	},
	rules.ByReasonless: func(s *said) string {
		return s.request() + " is allowed to node " + s.k.Node + " by an authorizer that is neither Node nor RBAC, which gives no reason"
	},
	rules.ByOtherAuthorizer: func(s *said) string {
		return s.request() + " is allowed to node " + s.k.Node + " by an authorizer that is neither Node nor RBAC"
	},
	rules.ActsByOther: func(s *said) string {
		by := "also without any binding for nodes"
		if s.k.Binding.Name != "" {
			by = "by " + s.binding() + ", which is not for nodes"
		}
		return fmt.Sprintf("to act as %q is allowed to node %s %s", s.p.Text(rules.ParamUser), s.k.Node, by)
	},
	rules.ByOtherToo: func(s *said) string {
		return s.request() + " is allowed to node " + s.k.Node + " also without any binding for nodes, by another group's"
	},

	rules.ReadSucceeded:  func(s *said) string { return s.read("succeeded") },
	rules.ReadRefused:    func(s *said) string { return s.read("was refused") },
	rules.ReadUnanswered: func(s *said) string { return s.read("has no answer in the log") },
	rules.ReadFailed: func(s *said) string {
		return s.read("was let through and then failed with code " + s.p.Text(rules.ParamCode))
	},

	rules.WriteSucceeded: func(s *said) string { return s.byNode() + " went through: NodeRestriction is not in force" },
	rules.WriteUnclear: func(s *said) string {
		return s.byNode() + " went through, and the log does not show whether it was of the pod on another node or of one of the same name that was on the node within ten minutes"
	},
	rules.WriteRefused:            func(s *said) string { return s.byNode() + " was refused" },
	rules.WriteRefusedByAdmission: func(s *said) string { return s.byNode() + " was refused by admission" },
	rules.WriteUnanswered: func(s *said) string {
		return s.byNode() + " passed authorization, and the API server failed with code " + s.p.Text(rules.ParamCode) + ": it may have carried it out"
	},
	rules.WriteFailed: func(s *said) string {
		return s.byNode() + " passed authorization and failed with code " + s.p.Text(rules.ParamCode)
	},

	rules.BypassSucceeded: func(s *said) string { return s.bypass("succeeded") },
	rules.BypassFailed: func(s *said) string {
		return s.bypass("passed admission and failed with code " + s.p.Text(rules.ParamCode))
	},
	rules.BypassUnanswered: func(s *said) string {
		return s.bypass("may have been carried out: the API server failed with code " + s.p.Text(rules.ParamCode))
	},

	rules.LiveNodeSigned: func(s *said) string {
		if old := s.p.Text(rules.ParamOld); old != "" {
			return s.birth("got a certificate of node %s, whose kubelet used its old credential ") + old + " again after that, first within 10 seconds of " + s.time(rules.ParamSince)
		}
		return s.birth("got a certificate of node %s while its kubelet was running with another credential")
	},
	rules.LiveNodeAsked: func(s *said) string {
		return s.birth("asked for a certificate of node %s while its kubelet was running with another credential; it is not signed")
	},
	rules.KnownNodeAgain: func(s *said) string {
		return s.birth("asked for a certificate of node %s, which exists, as when somebody sets it up again")
	},
	rules.IssuedTwice: func(s *said) string {
		return s.birth("got a certificate of node %s from ") + s.p.Text(rules.ParamAddress) + ", and another one was issued to " + s.p.Text(rules.ParamHome) + " before, without a Node in between"
	},
	rules.OtherNodeAsked: func(s *said) string { return s.signs("asked for a certificate") + ", which is another node's" },
	rules.RequestOdd: func(s *said) string {
		return s.signs("asked for a certificate") + ", which is not a kubelet's: " + s.p.Text(rules.ParamObject)
	},
	rules.RequestOddSigned: func(s *said) string {
		return s.signs("approved a certificate") + ", for which " + s.k.Node + " asked, and which is not a kubelet's: " + s.p.Text(rules.ParamObject)
	},
	rules.SecondAsked: func(s *said) string {
		return s.signs("asked for a certificate") + ", as " + s.p.Text(rules.ParamProvider) + " does"
	},
	rules.SecondApproved: func(s *said) string {
		return s.signs("approved a certificate") + ", for which " + s.k.Node + " asked as " + s.p.Text(rules.ParamProvider) +
			" does, and is not known to approve these: trust it with --bootstrap-trusted if it is yours"
	},
	rules.ApproverUnknown: func(s *said) string { return s.signs("approved a certificate") + " in place of the controller" },
	rules.ApproverUnclear: func(s *said) string {
		return fmt.Sprintf("user %q approved the certificate request %q in place of the controller; this event does not show what it is for",
			s.p.Text(rules.ParamUser), s.p.Text(rules.ParamObject))
	},
	rules.ApproverNode: func(s *said) string { return s.signs("is a node and approved a certificate") },
	rules.ServingNames: func(s *said) string {
		return s.birth("asked for a serving certificate of node %s with names that its Node does not have: ") + strings.Join(s.p.All(rules.ParamObject), ", ")
	},
	rules.CertificateMoved: func(s *said) string {
		return fmt.Sprintf("a certificate of node %s that was requested from %s was first used from %s", s.k.Node, s.p.Text(rules.ParamHome), s.p.Text(rules.ParamAddress))
	},
	rules.NodeMadeElsewhere: func(s *said) string {
		if s.p.Text(rules.ParamHome) == "" {
			return fmt.Sprintf("Node %s was made anew from %s, and nodetrail does not know any more from where its certificate came before", s.k.Node, s.p.Text(rules.ParamAddress))
		}
		return fmt.Sprintf("Node %s was made anew from %s with a certificate of the machine that came from %s before", s.k.Node, s.p.Text(rules.ParamAddress), s.p.Text(rules.ParamHome))
	},
	rules.CertificateNoBirth: func(s *said) string {
		return fmt.Sprintf("node %s changed to a certificate that no request in the log asked for", s.k.Node)
	},
	rules.TokenElsewhere: func(s *said) string {
		return fmt.Sprintf("a token of %s that node %s got is used from %s, an address of node %s", s.p.Text(rules.ParamUser), s.k.Node, s.p.Text(rules.ParamAddress), s.p.Text(rules.ParamNode))
	},
	rules.BeyondJoin: func(s *said) string {
		return fmt.Sprintf("the bootstrap token of %s was used to %s, which a node does not need to join", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.BeyondRefused: func(s *said) string {
		return fmt.Sprintf("the bootstrap token of %s was used to try to %s, which a node does not need to join", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.ManyNames: func(s *said) string {
		return fmt.Sprintf("%s asked for certificates of %s nodes within a day, the last of which is %s", s.k.Node, s.p.Text(rules.ParamNodes), s.p.Text(rules.ParamNode))
	},
	rules.TokenRead: func(s *said) string {
		return fmt.Sprintf("node %s asked for the bootstrap token in the secret %s", s.k.Node, s.p.Text(rules.ParamSecret))
	},
	rules.TokenMade: func(s *said) string {
		return fmt.Sprintf("%s made the bootstrap token in the secret %s", s.k.Node, s.p.Text(rules.ParamSecret))
	},

	rules.OwnMatch: func(s *said) string { return s.request() + " matches the rule" }, // the rule's message is a parameter
	rules.OwnFailed: func(s *said) string {
		return "the rule's expression failed on requests, which it did not check: " + s.p.Text(rules.ParamTrouble)
	},
	rules.OwnCostly: func(s *said) string {
		return "the rule's expression was stopped on requests, which it did not check: it would have cost more than " + s.p.Text(rules.ParamLimit) + " units"
	},

	rules.GraphBehind: func(s *said) string {
		return fmt.Sprintf("the API server's Node authorizer denied %s to node %s, which the state had long allowed", s.request(), s.k.Node)
	},

	rules.NameForm: func(s *said) string {
		return s.identity(fmt.Sprintf("user %q is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it", s.k.Node))
	},
	rules.NameEmpty: func(s *said) string { return s.identity(fmt.Sprintf("user %q names no node", s.k.Node)) },
	rules.GroupMissing: func(s *said) string {
		return s.identity(fmt.Sprintf("user %q is not in the group system:nodes: the Node authorizer does not know it", nodeUser+s.k.Node))
	},
	rules.NoNodeIdentity: func(s *said) string {
		return s.identity(fmt.Sprintf("a kubelet (by its user agent) uses the identity %q, which is no node's", s.k.Node))
	},
	rules.Privileged: func(s *said) string {
		return s.identity(fmt.Sprintf("the credential of node %s is in the group system:masters, which may do anything", s.k.Node))
	},
	rules.NodeMissing: func(s *said) string { return s.identity(s.missing()) },
	rules.NodeGone: func(s *said) string {
		return s.identity(s.missing() + ", and the request is one that a machine makes whose Node was deleted")
	},
	rules.NodeGoneRenewed: func(s *said) string {
		return s.identity(s.missing() + ", and it asked for a new certificate, as a machine does whose Node was deleted: the identity stays in use")
	},
	rules.NameLetterCase: func(s *said) string { return s.identity(s.missing() + s.similar("letter case")) },
	rules.NameDomain:     func(s *said) string { return s.identity(s.missing() + s.similar("domain")) },

	rules.Impersonation: func(s *said) string {
		return fmt.Sprintf("user %q impersonates node %s with client %q", s.p.Text(rules.ParamUser), s.node(), s.k.Product)
	},
	rules.RefusedToActAs: func(s *said) string {
		node := "node " + s.node()
		if s.node() == "*" {
			node = "a node"
		}
		return fmt.Sprintf("user %q tried to impersonate %s with client %q and was refused", s.p.Text(rules.ParamUser), node, s.k.Product)
	},
	rules.ForeignClient: func(s *said) string {
		return fmt.Sprintf("the credential of node %s is used by %q, which is no kubelet", s.k.Node, s.k.Product)
	},
	rules.SecretTaken: func(s *said) string {
		if home := s.p.Text(rules.ParamHome); home != "" {
			return fmt.Sprintf("%s succeeded with the credential of node %s while its kubelet came from %s", s.request(), s.k.Node, home)
		}
		if s.p.Has(rules.ParamSince) {
			return fmt.Sprintf("%s succeeded with the credential of node %s, which had been silent since %s", s.request(), s.k.Node, s.time(rules.ParamSince))
		}
		if user := s.p.Text(rules.ParamUser); user != "" {
			return fmt.Sprintf("%s succeeded for user %q, who impersonates node %s with client %q", s.request(), user, s.node(), s.k.Product)
		}
		return fmt.Sprintf("%s succeeded for %q, which is no kubelet, with the credential of node %s", s.request(), s.k.Product, s.k.Node)
	},
	rules.TakenWithoutGroup: func(s *said) string {
		return fmt.Sprintf("%s succeeded for user \"system:node:%s\", who is not in the group of nodes, and no pod on this node uses it", s.request(), s.k.Node)
	},
	rules.ProviderAgent: func(s *said) string {
		return fmt.Sprintf("the credential of node %s is used by %q, a known agent of %s", s.k.Node, s.k.Product, s.p.Text(rules.ParamProvider))
	},
	rules.EventTooLong: func(s *said) string {
		return fmt.Sprintf("%s sent a request whose audit event has %s bytes, longer than the bound: it was judged from its fields", s.sender(), s.p.Text(rules.ParamBytes))
	},
	rules.BodyCut: func(s *said) string {
		return s.sender() + " sent a write whose audit event was too long for the API server, which cut its body off: what NodeRestriction says of it is not known"
	},
	rules.RequestCut: func(s *said) string {
		return fmt.Sprintf("user %q asked for a certificate in a request that was too long for the log, which does not have its body: it may be for any node", s.p.Text(rules.ParamUser))
	},
	rules.FieldTooLong: func(s *said) string {
		return fmt.Sprintf("%s sent a request whose URI or user agent has %s bytes: kubelets do not do that", s.sender(), s.p.Text(rules.ParamBytes))
	},
	rules.TooManyAddresses: func(s *said) string {
		return fmt.Sprintf("%s sent a request with %s forwarding addresses: kubelets do not do that", s.sender(), s.p.Text(rules.ParamCount))
	},

	rules.RestrictionRefused: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, and NodeRestriction refused it: kubelets do not do this", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.AdmissionStopped: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, which was authorized and which admission refused", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.PodsOfAll: func(s *said) string {
		return "node " + s.k.Node + " read pods without selecting its own, and no binding let it: kubelets ask for their own alone"
	},
	rules.LongWatch: func(s *said) string {
		return fmt.Sprintf("node %s succeeded with %s for longer than an hour: the watch continues when the node may no longer read the object, and kubelets ask for an hour at most",
			s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.PodOfAnother: func(s *said) string {
		return fmt.Sprintf("node %s succeeded with %s, which is on another node, and no binding let it: kubelets ask for their own pods alone", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.ForeignReadRefused: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, which no kubelet does, and was refused", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.ForeignReadGranted: func(s *said) string {
		return fmt.Sprintf("node %s succeeded with %s, which no kubelet does, and which no binding for nodes allows", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.UnusedReadRefused: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, which no pod on it uses, and was refused", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.OddWriteRefused: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, which no kubelet does, and was refused", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.OddWrite: func(s *said) string {
		return fmt.Sprintf("node %s succeeded with %s, which no kubelet does", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.EscalationRefused: func(s *said) string {
		return fmt.Sprintf("node %s tried %s, by which it would gain the rights of others, and was refused", s.k.Node, s.p.Text(rules.ParamObject))
	},
	rules.SharedCertificate: func(s *said) string {
		return fmt.Sprintf("node %s uses the client certificate that node %s has used", s.k.Node, s.p.Text(rules.ParamFirst))
	},
	rules.TwoCertificates: func(s *said) string {
		return fmt.Sprintf("two client certificates of node %s are in use at once: the new one since %s, the old one still at %s; this is not a rotation, and one may be a copy",
			s.k.Node, s.time(rules.ParamSince), s.time(rules.ParamUntil))
	},
	rules.SecondAddress: func(s *said) string {
		address, home := s.p.Text(rules.ParamAddress), s.p.Text(rules.ParamHome)
		if n := s.p.Int(rules.ParamTurns); n > 0 {
			return fmt.Sprintf("the credential of node %s is used in turn from %s and %s, %d times in an hour", s.k.Node, home, address, n)
		}
		return fmt.Sprintf("the credential of node %s is used from %s while it is in use from %s", s.k.Node, address, home)
	},
	rules.Forwarded: func(s *said) string {
		return fmt.Sprintf("the client certificate of node %s was used from %s in a request that says it was forwarded for %s: kubelets send no header that says so, and a proxy that does has no such certificate",
			s.k.Node, s.p.Text(rules.ParamHome), s.p.Text(rules.ParamAddress))
	},
	rules.MovedAddress: func(s *said) string {
		return fmt.Sprintf("the credential of node %s is now used from %s, which its Node had not had for ten minutes, and no longer from %s",
			s.k.Node, s.p.Text(rules.ParamAddress), s.p.Text(rules.ParamHome))
	},
	rules.UsedInSilence: func(s *said) string {
		if s.p.Has(rules.ParamSince) {
			return fmt.Sprintf("the credential of node %s, which had been silent since %s, was used from %s, which its Node did not have, or not for ten minutes",
				s.k.Node, s.time(rules.ParamSince), s.p.Text(rules.ParamAddress))
		}
		return fmt.Sprintf("the credential of node %s was used from %s, which its Node did not have, or not for ten minutes, while its kubelet at %s was silent; no kubelet started there",
			s.k.Node, s.p.Text(rules.ParamAddress), s.p.Text(rules.ParamHome))
	},

	rules.SpikeOfNode:    (*said).spike,
	rules.SpikeOfCluster: (*said).spike,

	rules.DeniedThroughout: (*said).persistent,
	rules.DeniedByNodeOnly: func(s *said) string { return s.persistent() + "; another authorizer let it through" },

	rules.ManyWithinMinutes: func(s *said) string { return s.enumeration("10 minutes") },
	rules.ManyWithinDay:     func(s *said) string { return s.enumeration("24 hours") },

	rules.LogSilent:          (*said).logSilent,
	rules.NodeSilent:         (*said).nodeSilent,
	rules.NodesSilent:        (*said).nodesSilent,
	rules.SecretReadsMissing: (*said).secretReads,
	rules.AnswersMissing: func(*said) string {
		return "the answer to requests of nodes that the Node authorizer denies is not in the log, and the state does not tell " +
			"whether RBAC let them through: the audit policy leaves out the stage ResponseComplete, or an API server was stopped"
	},
	rules.VerdictsMissing: func(*said) string {
		return "programs that use nodes' credentials were let through, and neither the state nor the API server's word tells " +
			"whether the Node authorizer would have allowed it"
	},
	rules.DecisionsMissing: func(s *said) string {
		return fmt.Sprintf("none of %d requests of nodes has the annotation authorization.k8s.io/decision: a filter drops it, and the verdicts cannot "+
			"be compared with the API server's", s.p.Int(rules.ParamCount))
	},
	rules.LogLost:      (*said).trouble,
	rules.MessagesLost: (*said).trouble,
	rules.Delayed:      func(s *said) string { return s.k.Name + ": more than " + s.p.Text(rules.ParamFor) + " behind" },
	rules.StoreFull: func(s *said) string {
		return fmt.Sprintf("the store reached its bound with %s bytes: %s groups of findings lost their names and are counted together, %s of them of requests that were allowed",
			s.p.Text(rules.ParamBytes), s.p.Text(rules.ParamCount), s.p.Text(rules.ParamAllowed))
	},
	rules.StateFull: func(s *said) string {
		return fmt.Sprintf("more than %s objects have ended: what was over by %s is forgotten, and requests from before that may be unknown",
			s.p.Text(rules.ParamCount), s.p.Text(rules.ParamUntil))
	},
	rules.PolicyHidden: func(s *said) string { return s.policy("keeps these requests of nodes out of the log") },
	rules.PolicyNoDecision: func(s *said) string {
		return s.policy("leaves out the stage ResponseComplete, so that the API server's decision is missing for")
	},
	rules.PolicyLateDecision: func(s *said) string {
		return s.policy("leaves out the stage ResponseStarted, so that these watches are in the log with the API server's decision only when they end, and not while they are open")
	},
	rules.PolicyNoBodies: func(s *said) string {
		return s.policy("logs these requests without their body, and no other state is given")
	},
	rules.PolicyNoWrites: func(s *said) string {
		return s.policy("logs these writes of nodes without their body, so that what NodeRestriction says of them is unknown")
	},
	rules.ApiserverDropped: (*said).dropped,
	rules.ApiserverRejected: func(s *said) string {
		return fmt.Sprintf("the API server at %s refused %s requests because they could not be audited (%s)",
			s.k.Name, s.p.Text(rules.ParamCount), s.p.Text(codes.ParamMetric))
	},
	rules.ApiserverUnaudited: func(s *said) string {
		return fmt.Sprintf("the API server at %s served %s requests and wrote no audit event: it has no audit policy, or one that hides everything",
			s.k.Name, s.p.Text(rules.ParamCount))
	},
}

func (s *said) time(key string) string { return stamp(s.p.Time(key)) }

// binding names the binding of a group, as the object of a sentence.
func (s *said) binding() string {
	b := &s.k.Binding
	if b.Kind == "" && b.Name == "" {
		return "an RBAC binding that the log does not name"
	}
	return b.Kind + " " + Qualified(b.Namespace, b.Name)
}

// sender is whose credential a request came with.
func (s *said) sender() string {
	if incidents.KindOf(s.k.Node) == incidents.OfBootstrap {
		return "the bootstrap token of " + s.k.Node
	}
	return "node " + s.k.Node
}

// object names what a request is about, as a person would.
func (s *said) object() string {
	k := s.k
	if k.Resource == "" {
		return "path " + k.Name
	}
	resource := k.Resource
	if k.Subresource != "" {
		resource += "/" + k.Subresource
	}
	if k.APIGroup != "" {
		resource += "." + k.APIGroup
	}
	name, all := k.Name, ""
	switch {
	case k.Verb == "list", k.Verb == "watch", k.Verb == "deletecollection":
		all = "all "
	case name == "":
		name = s.p.Text(rules.ParamName)
	}
	switch {
	case name != "":
		return resource + " " + Qualified(k.Namespace, name)
	case k.Namespace != "":
		return all + resource + " in namespace " + k.Namespace
	}
	return all + resource
}

func (s *said) request() string { return s.k.Verb + " " + s.object() }

func (s *said) byNode() string { return s.request() + " by node " + s.k.Node }

func (s *said) bypass(outcome string) string {
	return s.byNode() + " " + outcome + " although NodeRestriction refuses it: " + s.p.Text(rules.ParamRefusal)
}

func (s *said) excess() string {
	return s.request() + " is allowed to node " + s.k.Node + " by " + s.binding() + " alone"
}

func (s *said) read(outcome string) string {
	why := "no pod on this node uses it"
	switch {
	case s.p.Text(rules.ParamState) == rules.StateUntold:
		why = "the state does not show whether a pod on this node uses it"
	case s.p.Has(rules.ParamState):
		why = "by the API server's word, though not by the given state, " + why
	}
	return s.byNode() + " " + outcome + ", and " + why
}

func (s *said) missing() string {
	return fmt.Sprintf("user %q: the cluster has no Node %q", nodeUser+s.k.Node, s.k.Node)
}

func (s *said) similar(in string) string {
	return fmt.Sprintf("; there is a Node %q, which differs in its %s", s.p.Text(rules.ParamSimilar), in)
}

func (s *said) identity(what string) string {
	if by := s.p.Text(rules.ParamBy); s.k.Apart == rules.Impersonated {
		return what + fmt.Sprintf(" (impersonated by %q)", by)
	}
	return what
}

// counted splits a parameter that is a count, a space and a text.
func counted(value string) (n, text string) {
	n, text, _ = strings.Cut(value, " ")
	return n, text
}

func (s *said) spike() string {
	who := "node " + s.k.Node
	if s.k.Node == "" {
		who = fmt.Sprintf("%d nodes at once", s.p.Int(rules.ParamNodes))
	}
	goes := "continues"
	if s.p.Has(rules.ParamUntil) {
		goes = "over since " + s.time(rules.ParamUntil)
	}
	var denied, clients, nodes []string
	for _, v := range s.p.All(rules.ParamDenied) {
		n, text := counted(v)
		if kind, isEmpty := strings.CutSuffix(text, ": "); isEmpty {
			text = kind + ": no reason"
		}
		denied = append(denied, text+" ("+n+")")
	}
	for _, v := range s.p.All(rules.ParamClient) {
		n, text := counted(v)
		clients = append(clients, strconv.Quote(text)+" ("+n+")")
	}
	for _, v := range s.p.All(rules.ParamNode) {
		n, text := counted(v)
		if text == "" {
			text = "others"
		}
		nodes = append(nodes, text+" ("+n+")")
	}
	out := fmt.Sprintf("%s: %d denials from %s on, at the most %d a minute at %s, where up to %d are usual; %s; mostly %s; by %s",
		who, s.p.Int(rules.ParamCount), s.time(rules.ParamSince), s.p.Int(rules.ParamPeak), s.time(rules.ParamPeakAt), s.p.Int(rules.ParamUsual), goes,
		strings.Join(denied, ", "), strings.Join(clients, ", "))
	if s.k.Node == "" {
		out += "; most on " + strings.Join(nodes, ", ")
	}
	return out
}

func (s *said) persistent() string {
	return fmt.Sprintf("node %s was denied %s %d times from %s to %s, and never allowed it in between", s.k.Node, s.request(), s.p.Int(rules.ParamCount),
		s.time(rules.ParamSince), s.time(rules.ParamUntil))
}

func (s *said) enumeration(within string) string {
	n := s.p.Int(rules.ParamObjects)
	many := fmt.Sprint(n)
	if s.p.Has(rules.ParamAtLeast) {
		many += " or more"
	}
	examples := s.p.All(rules.ParamObject)
	out := fmt.Sprintf("node %s asked for %s different objects within %s that no pod on it uses, and got %d of them: %s",
		s.k.Node, many, within, s.p.Int(rules.ParamAllowed), strings.Join(examples, ", "))
	if n > int64(len(examples)) {
		out += " and others"
	}
	var clients []string
	for _, c := range s.p.All(rules.ParamClient) {
		clients = append(clients, strconv.Quote(c))
	}
	return out + "; by " + strings.Join(clients, ", ")
}

// birth is what a user did about a certificate of a node.
func (s *said) birth(did string) string {
	return fmt.Sprintf("user %q ", s.p.Text(rules.ParamUser)) + fmt.Sprintf(did, s.node())
}

// node is the node that the finding names, apart from its subject. A store of before findings named one has it as the subject.
func (s *said) node() string {
	if name := s.p.Text(rules.ParamNode); name != "" {
		return name
	}
	return s.k.Node
}

// signs is what a user did about a certificate, and what it is for. The client chose that: it is quoted.
func (s *said) signs(did string) string {
	out := fmt.Sprintf("user %q %s for ", s.p.Text(rules.ParamUser), did)
	groups := s.p.All(rules.ParamGroup)
	name := s.p.Text(rules.ParamName)
	if name == "" && len(groups) == 0 {
		if object := s.p.Text(rules.ParamObject); object != "" {
			return out + fmt.Sprintf("the request %q", object)
		}
		return out + s.k.Node // as a store of before has it
	}
	out += fmt.Sprintf("CN=%q", name)
	for _, g := range groups {
		out += fmt.Sprintf(", O=%q", g)
	}
	return out
}
