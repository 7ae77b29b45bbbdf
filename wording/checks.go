package wording

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
)

// Check implements Words.
func (English) Check(i *checks.Item) string {
	say := string(i.Code) // of a newer program
	if s := items[i.Code]; s != nil {
		say = s(i)
	} else if s := identities[rules.Reason(i.Code)]; s != "" {
		say = fmt.Sprintf("identity %s has a wrong user or group: %s", i.Object, s)
	}
	return say + where(i)
}

// Next implements Words.
func (English) Next(n *checks.Next) string {
	if s := nexts[n.Code]; s != "" {
		return s
	}
	return string(n.Code)
}

// where ends a sentence with whom and what it is about, as far as the sentence does not say it.
func where(i *checks.Item) string {
	var out []string
	add := func(format, s string) {
		if s != "" {
			out = append(out, fmt.Sprintf(format, s))
		}
	}
	if strings.Contains(i.Node, ":") { // no name of a node has one
		add("user %s", i.Node)
	} else {
		add("node %s", i.Node)
	}
	add("API server %s", i.Server)
	switch i.Code {
	case checks.CodePolicyHides, checks.CodePolicyNoStart, checks.CodePolicyNoPanic, checks.CodePolicyOther:
		add("line %s of the policy", i.Line)
	default:
		add("%s", i.Line)
	}
	add("%s", i.Request)
	add("client %q", i.Client)
	switch {
	case i.From.IsZero():
	case i.From.Before(i.To):
		add("%s", i.From.UTC().Format(time.RFC3339)+" to "+i.To.UTC().Format(time.RFC3339))
	default:
		add("%s", i.From.UTC().Format(time.RFC3339))
	}
	if i.Expected > 0 {
		out = append(out, fmt.Sprintf("%d of %d", i.Seen, i.Expected))
	}
	if i.Count > 1 {
		out = append(out, fmt.Sprintf("%d times", i.Count))
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

func says(s string) func(*checks.Item) string { return func(*checks.Item) string { return s } }

// about is a sentence with the item's object, and its value if there is one.
func about(format string) func(*checks.Item) string {
	return func(i *checks.Item) string {
		s := fmt.Sprintf(format, i.Object)
		if i.Value != "" {
			s += " (" + i.Value + ")"
		}
		return s
	}
}

// valued is a sentence with the item's value.
func valued(format string) func(*checks.Item) string {
	return func(i *checks.Item) string { return fmt.Sprintf(format, i.Value) }
}

// BeforeLog says that the log begins after a time that a check asks about.
func BeforeLog(from, to time.Time) string {
	return fmt.Sprintf("the log has no requests of %s to %s", stamp(from), stamp(to))
}

// items has a sentence for each code of an item, but for the reasons of the rule on identities.
var items = map[checks.Code]func(*checks.Item) string{
	checks.CodeNothingSeen:       says("nothing was seen that could show it"),
	checks.CodeNoLog:             says("there is no log of that time"),
	checks.CodeNodesUnknown:      says("the state does not hold the Nodes of the whole window"),
	checks.CodeOverflow:          says("there were too many names, of which some were dropped"),
	checks.CodeRenewalsMissing:   says("renewals of the node's Lease are missing from the log"),
	checks.CodeLossOfAll:         says("over all nodes, too many Lease renewals are missing"),
	checks.CodeLossMeasured:      says("renewals of Leases that are in the log, in the worst hour"),
	checks.CodeCadenceTooShort:   says("the node renews its Lease too often for a loss to be measured"),
	checks.CodeNodeNotReady:      says("renewals that are not expected, because the node's condition Ready was Unknown"),
	checks.CodeNodeBrief:         says("the node was Ready for less than a minute of the hour"),
	checks.CodeNodeVanished:      says("the node vanished"),
	checks.CodeShortGap:          says("one gap of at most a lease duration"),
	checks.CodeServerRestart:     says("an API server restarted"),
	checks.CodeKubeletRestart:    says("the kubelet started again"),
	checks.CodeVirtualNode:       says("a virtual node, whose Lease no node identity renews"),
	checks.CodeWatchMissing:      says("a watch that every kubelet keeps is not in the log"),
	checks.CodeWatchesLost:       says("too many of the watches that kubelets make again and again are missing from the log"),
	checks.CodeRequestMissing:    says("a request that every kubelet makes is not in the log"),
	checks.CodeReadMissing:       about("no read is in the log though a pod of the node uses %s"),
	checks.CodeNeedsUnknown:      says("the state does not say which secrets and configmaps the nodes came to need"),
	checks.CodePolicyUnknown:     says("the audit policy in force is not known"),
	checks.CodePolicyHides:       says("the audit policy keeps requests out of the log: of nodes, of users who can act as nodes, or of other subjects of bindings that will be deleted"),
	checks.CodePolicyNoStart:     says("the audit policy leaves out the stage ResponseStarted: a watch, or another request that lasts, is not in the log while it is open"),
	checks.CodePolicyNoPanic:     says("the audit policy leaves out the stages RequestReceived and Panic: a request at which the API server panics is not in the log"),
	checks.CodeStartsMissing:     says("watches end in the log that do not begin in it: the audit policy or a filter leaves out the stage ResponseStarted, so that a watch that is open is not in the log, or a shipper drops events"),
	checks.CodeOthersMissing:     says("pods came to nodes, and who brought them is not in the log: a filter drops requests of users that are no nodes"),
	checks.CodeOthersUnheard:     says("the log has no request by which somebody brings a pod to a node: it is a log of nodes alone, and says nothing of what others do"),
	checks.CodePolicyOther:       says("the audit policy is not the one in force: it would not have logged this event"),
	checks.CodeTooLong:           says("an event was too long to be read"),
	checks.CodeTorn:              says("an event was torn"),
	checks.CodeUnreadable:        says("a part of the log could not be read"),
	checks.CodeCut:               says("the API server cut what the verdict needs"),
	checks.CodeNoVerdict:         says("requests could not be judged"),
	checks.CodeOfNoNode:          valued("the event could not be read, and is not a request of a node (%s)"),
	checks.CodeServersUnknown:    says("how many API servers there are is not known"),
	checks.CodeServerMissing:     says("renewals of the API server's identity Lease are missing from the log"),
	checks.CodeServersTooFew:     says("fewer API servers wrote to the log than there are"),
	checks.CodeNodeNotFirst:      says("the Node authorizer was not asked first"),
	checks.CodeModeOff:           valued("the authorization mode is %s: the Node authorizer must come first"),
	checks.CodeModeUnknown:       says("nothing shows that the Node authorizer is asked first"),
	checks.CodeModeHidden:        says("renewals of nodes' Leases were logged without a decision, so that an API server may not ask the Node authorizer first"),
	checks.CodeModeOfSome:        says("several API servers are there at the same time, and the log does not show of each that it asks the Node authorizer first: look at each, or give --authorization-mode"),
	checks.CodeClockBehind:       about("the clock of the recorder of the state seems to be behind those of the API servers, by %s at most: before that showed, requests next to changes were judged by a state that was dated too early"),
	checks.CodeVersionMoved:      says("the decisions about nodes' requests do not fit any one version with its feature gates, and no API server started between them: another authorizer may be asked before the Node authorizer"),
	checks.CodeAnyPod:            says("the feature gate AuthorizeNodeWithSelectors is off, or API servers answered so: each node can read the pods of all nodes"),
	checks.CodeAnyAudience:       says("the feature gate ServiceAccountNodeAudienceRestriction is off or does not exist: each node can get tokens for any audience, of the service accounts of its pods"),
	checks.CodeModeUntold:        says("an authorizer that is neither Node nor RBAC allows requests before RBAC or without a reason, or reasons were changed, so that the log cannot show what Node and RBAC allow"),
	checks.CodeVersionUnknown:    says("the API servers' version is not known, or not the one by which requests were judged"),
	checks.CodeVersionDiffers:    valued("the API server made a decision that version %s does not make"),
	checks.CodeNeedsBinding:      used("%s needs %s"),
	checks.CodeNeedsSinceLimited: used("since nodes may read only their own Nodes and pods, %s needs %s"),
	checks.CodeNeedsLater:        used("when nodes may read only their own Nodes and pods, as from Kubernetes 1.32 on, %s will need %s"),
	checks.CodeAnswerUnknown:     used("%s may need %s: how the request ended is not known"),
	checks.CodeOwnUnknown:        used("nobody watched pods in the minute before, so %s may need %s"),
	checks.CodeOtherEnded:        used("what else allowed this has ended, so %s may need %s now"),
	checks.CodeGaveMore:          used("%s used %s, which stays but gave more at that time"),
	checks.CodeGivesRights:       used("a client can give rights, or the parameters of admission policies, only if it has them, so %s may need %s"),
	checks.CodeMayAsk:            used("the log does not tell whether the client asked for the group, so %s may need %s"),
	checks.CodeHarmlessUse:       used("%s used %s and would not notice that it is gone"),
	checks.CodeStayingUse:        used("%s used %s, which stays"),
	checks.CodeBindingsUnknown:   says("the state does not hold all bindings of the whole window"),
	checks.CodeBindingGoes:       about("%s goes"),
	checks.CodeBindingStays:      about("%s stays"),
	checks.CodeBindingEmpty:      about("%s has no subjects and gives nobody anything"),
	checks.CodeBindingNotInState: about("the log names %s, which the state does not have"),
	checks.CodeRoleUnknown:       says("the rules of the ClusterRole system:node are not known"),
	checks.CodeUsesUnjudged: func(i *checks.Item) string {
		if i.Object == "" {
			return "requests that a binding which goes may have let through were not judged"
		}
		return i.Object + " goes and has subjects that are no nodes, whose requests were not judged"
	},
	checks.CodeRightUnseen: func(i *checks.Item) string {
		return fmt.Sprintf("%s goes and gives %s, which may be in use without a request that shows it", i.Object, i.Value)
	},
	checks.CodeAccountSilent: func(i *checks.Item) string {
		return fmt.Sprintf("%s goes and is for %s: kubelets create tokens for it, and the log has no request with one", i.Object, i.Value)
	},
	checks.CodeNobodyJoined:     about("%s goes and is for machines that join, and none joined in the window"),
	checks.CodeBindingGrown:     about("whether anything needs %s is known only from then on: before, it did not exist or gave less, or another binding gave the same"),
	checks.CodeIdentityHarmless: about("identity %s has a wrong user or group, and its requests failed anyway"),
	checks.CodeIdentityGone:     about("identity %s has no Node, as a machine whose Node was deleted: these requests name no other node and get nothing"),
	checks.CodeRaceNotExcused:   about("a binding allowed a client that is not a kubelet, within --skew of a change: %s"),
	checks.CodeRaceUndecided:    about("nothing tells how a request within the skew of a change was decided: %s"),
	checks.CodeManyRaces:        about("many requests of one client within the skew of a change: %s"),
	checks.CodeDisagreement: func(i *checks.Item) string {
		return strings.TrimSuffix("nodetrail and the API server disagree on "+i.Object, " on ")
	},
	checks.CodeLag:         about("the API server did not know yet what allows a request for %s"),
	checks.CodeNotCompared: says("no decision of the API server is there to compare with"),
	checks.CodeNotWatched:  about("nodetrail and the API server disagree on a request of a time when nobody watched the cluster: %s"),
	checks.CodeWholeSeconds: func(i *checks.Item) string {
		on := strings.TrimSuffix("nodetrail and the API server disagree on "+i.Object, " on ")
		return on + ", and all times of the log are whole seconds: nothing tells which of the changes and the requests of a second came first"
	},
	checks.CodeNoKubeletStart:  says("no kubelet started in the window"),
	checks.CodeStartIncomplete: says("a kubelet started and did not make all requests of a start"),
	checks.CodeKubeletStarted:  says("a kubelet started"),
	checks.CodeNodeJoined:      says("a node joined"),
	checks.CodeStateMissing:    says("no state of the cluster was given"),
	checks.CodeStateGap:        stateGap,
	checks.CodeRuleOff:         about("the rule %s was not checked"),
	checks.CodeRuleUnknown:     about("whether the rule %s was checked is not known"),
	checks.CodeNotLookedAt:     says("this check was not evaluated"),
	checks.CodeOtherAuthorizer: valued("the authorization mode is %s: another authorizer than Node and RBAC can give nodes any right"),
	checks.CodeExcessRight:     about("%s gives nodes more than everybody has"),
	checks.CodeEndedRight: func(i *checks.Item) string {
		return fmt.Sprintf("%s gave nodes %q for some time, and the log does not show whether somebody used it", i.Object, i.Value)
	},
	checks.CodeDangerousRight: about("%s lets a node act beyond its own objects"),
	checks.CodeDangerousGroup: about("a node's identity is in the group %s"),
	checks.CodeRestrictionBypassed: func(i *checks.Item) string {
		return strings.TrimSuffix("a write passed that NodeRestriction refuses: "+i.Object, ": ")
	},
	checks.CodeBirthWrong:         valued("a certificate was requested or issued in an unexpected way (%s)"),
	checks.CodeBirthDoubtful:      valued("a certificate may have been requested or issued in an unexpected way (%s)"),
	checks.CodeBirthUnread:        says("certificate requests whose body the log does not hold"),
	checks.CodeBirthUnapproved:    about("a certificate of a node was issued, and the log has no approval of the request: %s"),
	checks.CodeBirthsNotLogged:    says("the audit policy is not known to log certificate requests with their bodies"),
	checks.CodeNoBirth:            says("no request for a certificate of a node is in the log; kops and EKS issue credentials outside of the Kubernetes API"),
	checks.CodeBirthOutside:       says("a node joined, and the log does not show a valid request for its certificate"),
	checks.CodeSecondUser:         valued("something other than its kubelet uses the node's credential (%s)"),
	checks.CodeSecondUserDoubtful: valued("something other than its kubelet may use the node's credential (%s)"),
	checks.CodeCredentialUnnamed:  says("the log does not name the credential of requests"),
	checks.CodeAddressUnnamed:     says("the log does not name the address of requests"),
	checks.CodeAddressShared: func(i *checks.Item) string {
		return fmt.Sprintf("the node's credential was used from %s, and so was that of %s", i.Value, i.Object)
	},
	checks.CodeAddressForeign:     valued("the node's credential was used from %s, which is not an address of its Node object"),
	checks.CodeAddressesMore:      says("credentials were used from more addresses than nodetrail keeps"),
	checks.CodeLeftOut:            says("the log goes back in time by more than two minutes, and the rules that look at several requests left requests out there"),
	checks.CodeRestsOn:            about("it depends on the check %s, which is not passed"),
	checks.CodeRestsOnUnwaivable:  about("it depends on the check %s, which is not passed and cannot be waived"),
	checks.CodeRestrictionNotSeen: says("nothing in the log shows that NodeRestriction is in force"),
	checks.CodeRestrictionCut: func(i *checks.Item) string {
		return strings.TrimSuffix("the event of a node's write was too long, so that its body is not known, nor what NodeRestriction says of it: "+i.Object, ": ")
	},
	checks.CodeRestrictionUnanswered: func(i *checks.Item) string {
		return strings.TrimSuffix("the API server failed on a write that NodeRestriction refuses, and may have carried it out: "+i.Object, ": ")
	},
	checks.CodeRestrictionUnclear: func(i *checks.Item) string {
		return strings.TrimSuffix("a write passed that NodeRestriction refuses unless the clock of an API server is wrong: "+i.Object, ": ")
	},
	checks.CodeRestrictionOfOne:     says("NodeRestriction refused a request, and the log does not show on which API server"),
	checks.CodeRestrictionNotInLife: says("a start of the API server can change its admission plugins, and nothing in the log shows that NodeRestriction was on at this time"),
	checks.CodeRestrictionNoStarts:  says("NodeRestriction refused a request, and the log does not show when the API server starts: requests for its identity Lease are missing"),
	checks.CodeAccountPower: func(i *checks.Item) string {
		return fmt.Sprintf("the service account %s of pods on %s reaches beyond its node by %s", i.Object, Plural(i.Count, "node"), i.Value)
	},
	checks.CodeEverybodyPower: func(i *checks.Item) string {
		return fmt.Sprintf("everybody (%s) could %s by %s, and so could whoever has a node's credential", i.Object, i.Request, i.Value)
	},
	checks.CodeExcessUse: used("%s did what Node does not allow its node, through %s"),
}

// stateGap says why the state is incomplete. The value is a code, and for some a kind of objects after it.
func stateGap(i *checks.Item) string {
	code, kind, _ := strings.Cut(i.Value, " ")
	switch codes.Code(code) { // is of the log
	case codes.NamesTogether:
		return "the log has too many names of nodes, so that some requests count without theirs"
	case codes.WindowUncovered:
		return "the requests in the store do not cover the window"
	case codes.WindowEmpty:
		return "the window has no request"
	case codes.DenialsUnlogged:
		return "refusals in the API server's own log are not in the audit log"
	}
	why := map[codes.Code]string{
		codes.KindMissing: "it has no " + kind, codes.KindPartial: "it may not have every " + kind, codes.KindRefused: "the recorder may not list and watch " + kind,
		codes.KindUnlisted: kind + " was not listed yet", codes.WatchInterrupted: "the watch of " + kind + " is interrupted",
		codes.VolumesMissing: "it has no PersistentVolume, though pods use claims", codes.StateEndsEarly: "it ends before the log",
		codes.StateForgotten: "a restart forgot what bodies in the audit log had shown",
		codes.NotWatched:     "the cluster was not watched for some time", codes.NotWatchedMore: "the cluster was not watched several times",
		codes.WatchErrors: "a watch was interrupted", codes.StateUnreadable: "entries could not be read", codes.EntryUnreadable: "an entry could not be read",
	}[codes.Code(code)]
	if why == "" {
		why = i.Value // of a newer program, or a rule's reason
	}
	return "the state is incomplete: " + why
}

// used is a sentence about a client that used a binding for an object.
func used(format string) func(*checks.Item) string {
	return func(i *checks.Item) string {
		client, binding := "a client", i.Value
		if i.Client != "" {
			client = fmt.Sprintf("client %q", i.Client)
		}
		if strings.TrimSpace(binding) == "" {
			binding = "a binding that nobody names"
		}
		s := fmt.Sprintf(format, client, binding)
		if i.Object != "" {
			s += " for " + i.Object
		}
		return s
	}
}

// nexts has a sentence for each code of a next step.
var nexts = map[checks.Code]string{
	checks.NextGetLog:            "add the logs that are missing, or wait until their time is outside the window; you can waive what is lost",
	checks.NextLogReads:          "log all requests of the group system:nodes at level Metadata (deploy/audit-policy.yaml), and give the state",
	checks.NextGivePolicy:        "give the audit policy of the API servers (--audit-policy); you can waive what it hides if you cannot change it",
	checks.NextLogStarts:         "log the stage ResponseStarted (nodetrail policy check --fix), and let no filter or rate limit drop events; you can waive what you cannot change",
	checks.NextSetClock:          "keep the clock of nodetrail record, or of nodetrail run, together with those of the API servers, and ask again when the window begins after that; --skew allows for some seconds",
	checks.NextReadEvents:        "read these parts of the log from their source again, or waive each line",
	checks.NextLogServerLeases:   "log and record the renewals of the API servers' identity Leases (deploy/audit-policy.yaml, nodetrail record)",
	checks.NextTurnNodeOn:        "put Node before RBAC on every API server, and log its decisions",
	checks.NextGiveVersion:       "log the API servers' identity Leases, which name the version; remove --kubernetes-version if it is wrong",
	checks.NextLogOthers:         "let no filter drop requests of service accounts, of controllers or of other users; you can waive what you cannot change",
	checks.NextGivePolicyInForce: "give the file that kube-apiserver --audit-policy-file names: the policy that was given is another",
	checks.NextNotExamined:       "give the log and the state of the whole window, or let nodetrail run write them to its store for that long",
	checks.NextMoveClients:       "find out who runs each client: give it a service account with a role of its own (nodetrail suggest), or treat the nodes' credentials as stolen",
	checks.NextGiveBindings:      "record RBAC objects (nodetrail record), and look at who else uses the bindings that will be deleted",
	checks.NextFixIdentities:     "issue certificates with O=system:nodes and CN=system:node:<nodeName>",
	checks.NextLookAtRaces:       "find out what these clients are (nodetrail explain), and move those that are not kubelets",
	checks.NextKeepFractions:     "have the log shipper keep the times of events as the API server writes them, with microseconds",
	checks.NextCheckState:        "look at these requests (nodetrail explain): the state, the version or the mode may be wrong",
	checks.NextRestartKubelet:    "restart the kubelet of one node, and analyze a log that has it",
	checks.NextRecordState:       "record the state of the cluster (nodetrail record) for as long as the log",
	checks.NextTurnRulesOn:       "do not disable this rule",
	checks.NextProbePlugin:       "turn the admission plugin NodeRestriction on for every API server, and probe each of them (docs/node-restriction.md)",
	checks.NextLookAtOthers:      "remove AlwaysAllow; if ABAC or a webhook allows nodes and their pods' service accounts nothing more, waive the check",
	checks.NextTakeRights:        "take these rights away from nodes",
	checks.NextMovePods:          "give these service accounts smaller roles, or run their pods on dedicated nodes",
	checks.NextStopUse:           "stop what uses the kubelet's credential for this",
	checks.NextLogCredentials:    "log the credential ID (Kubernetes 1.32 and later) and the source address of each request of a node, and give the state of its Nodes",
	checks.NextFindHolder:        "find out which program uses the credential. If nobody knows, treat the credential as stolen: nodetrail reach --node lists what it could read",
	checks.NextOrderLogs:         "give the log of each API server as a file of its own, or sort the log by stageTimestamp, and analyze it again",
	checks.NextSettleFirst:       "first fix the checks that this check depends on",
	checks.NextLogBirths:         "log certificate signing requests and their approval",
}
