package checks

const docWindowCovered = `Every node's requests are in the log, hour by hour

## What it claims
For every hour of the last '--min-window' (24 h by default) and every Node that existed, the log holds the node's requests.

## What proves it
A kubelet renews its Lease four times in each lease duration: every 10 seconds by default, and up to 4 % later. nodetrail looks for these
renewals of each node. One on which storage failed (5xx) or that the API server was too busy for (429) counts, too: the log has it. A
missing event shows as a gap of 20 seconds. So nodetrail measures how much of the log is
lost, and does not guess.

The report lists these cases, and does not count them as missing:

- renewals while the Node's condition Ready was Unknown, up to a minute before that, and up to a lease duration after it;
- renewals of a node that existed and was not Unknown for less than a minute of the hour;
- renewals of a node that vanished, in its last minute;
- renewals during a restart of all API servers, up to two minutes;
- one gap of at most a minute when the kubelet starts: it creates its Node, and the API server answers 201 or 409. The cluster notices a
  longer gap, and then the condition Ready is Unknown;
- one gap of at most 55 seconds, or a longer lease duration, for each node and hour. The log is not lost if a kubelet cannot reach its API
  server for 30 seconds, and only after 55 seconds the cluster has noticed: the condition Ready is Unknown after 50 seconds, 40 before 1.32.
  If the renewals of all nodes together are counted, these gaps count as missing, because nodes do not lose their connections all at once;
- all renewals of nodes of virtual-kubelet and KWOK. The log has no request of the node's own identity, and the Node has the label
  'type=virtual-kubelet' or 'type=kwok', or another identity renews its Lease all the time.

In the first lease duration after a Node was created, nodetrail expects no renewals. A kubelet that itself reports that its node is not
Ready is alive, and renews its Lease.

## What defeats it
The check is unproven in these cases:

- More than 1 % of the renewals of an hour is missing, of one node or of all nodes together.
- A kubelet renews its Lease at least every 5 seconds. nodetrail then cannot measure a loss.
- The state does not hold the Nodes of the whole window, or nobody watched the Nodes for a minute or longer.
- An hour has more than 20,000 nodes, so some names were dropped.

The length of the time that the log spans proves nothing. If the last line of a log has no end, the window ends before that line.

nodetrail assumes the default lease duration of 40 seconds. If a kubelet renews its Lease more often than that, nodetrail expects the
interval that it measures in each hour. A kubelet with a longer 'nodeLeaseDurationSeconds' looks like one whose log is lost.

## What to do
Look at the hours and nodes that are listed. Then do one of these:

- Add the logs of all API servers and all rotated files for these hours.
- Wait until the log covers the window.
- If a part is lost for good, wait until it has left the window, or waive it by node and hours.`

const docReadsLogged = `The reads of kubelets are in the log

## What it claims
The log holds what nodes read, not only what they write.

## What proves it
Every kubelet keeps watches of pods, nodes, services, csidrivers and runtimeclasses, and makes them again after 5 to 10 minutes. A watch
counts from its start to its end. nodetrail expects this of the watches in the log:

- In every hour in which a node was Ready for at least 15 minutes, a watch of each kind was live.
- No kind of watch is missing for half an hour.
- At most 1 % of the watches of one node, or of the watches of all nodes in an hour, is missing. So a loss that does not hit renewals shows
  as well.

nodetrail expects these reads of secrets and configmaps:

- When a pod comes to a node with a secret or a configmap that the node did not need before, a read of that kind follows within ten minutes,
  or within ten minutes of when the node is Ready again. If the pod goes, fails or ends within a minute, no read has to follow, because the
  kubelet may never have looked at the pod.
- As long as a pod mounts 'kube-root-ca.crt', which nearly every pod does, a configmap is read every 70 minutes, and after each start of the
  kubelet.
- A secret is read after each start of a kubelet that has a pod with a secret.

A filter can also drop one verb or one kind of request. So nodetrail also expects these requests:

- In every hour in which a node was Ready for at least 30 minutes, its kubelet reported the Node's status.
- A kubelet before 1.31 gets its Node before each report. Every kubelet gets its Node after a start at which it finds its Node there. A get
  is in the log at most ten minutes before or after.
- For the pods that came to nodes or went from them, kubelets get the pod, report its status, create a token if one is mounted, and delete
  the pod in the end. nodetrail looks for the gets and the reports by pod, so it also finds a filter for a namespace, or a sample. In an
  hour with thousands of pods, it takes some pods for others.

## What defeats it
An audit policy or a filter drops reads, or requests of one verb or kind. A log of writes only, such as 'kube-audit-admin' of AKS, never
passes.

The check is unproven if one of the requests for pods is missing:

- for all pods;
- for all pods of one node, if these are three or more;
- for all pods that came in one hour, if these are three or more;
- for three or more pods that are more than 1 % of all, if the request is a get or a status report.

Deletions count only if three or more pods went. A pod that is deleted without a grace period, as by force, does not count: the API server
does not wait for the kubelet. Only a watch or a journal shows that; nodetrail expects the deletion of every other pod.

These requests do not count as missing:

- requests that the audit policy that you give does not log;
- reads of the last 70 minutes, if the log has watches only when they end.

## What to do
Log all requests of the group 'system:nodes' at level 'Metadata', with a rule before all rules of level 'None'. The policy in
'deploy/audit-policy.yaml' does it.`

const docPolicyKnown = `The audit policy is known and hides nothing

## What it claims
The audit policy in force logs every request of nodes, of those who act as nodes, and of others to whom a binding that will be deleted gives
something.

## What proves it
You give the policy ('--audit-policy', 'coverage.policyFile'). nodetrail evaluates it with the API server's own evaluation of policies, and
the policy logs all of these requests:

- requests of nodes: of each node that the policy names, and of any other node, with all groups that nodes have in the log. What every node
  may do without a binding, in this version and in the newest, does not count;
- requests of those who may act as nodes by RBAC, or as a user in the group 'system:nodes' under any name: the requests that kubelets and
  programs with their credentials make. Of a group, a rule may name its members, by a user name or by another group. Names that begin with
  'system:' do not count, except for service accounts of the group. Neither do members of a group that may do everything: an administrator
  needs no node's rights;
- if a binding that will be deleted lets nodes act as others: all requests of nodes, since the policy is evaluated for the node;
- if a binding that will be deleted is for 'system:nodes': the same requests of users in this group whose names are no node's, if a rule names
  the user or another group. Names that begin with 'system:' do not count: Kubernetes' own users have bindings of their own;
- requests of other subjects of bindings that will be deleted: what those bindings give them.

## What defeats it
The check is unproven in these cases:

- The policy hides a kind of request.
- The policy is not known.
- The policy is not the one in force: the log holds a request of a node that succeeded, and an API server of no version would have written it
  with this policy. nodetrail does not notice a wrong policy that would have written all of the log.

A policy that leaves out a stage hides requests in part:

- Without 'ResponseStarted', a watch or another request that lasts is not in the log while it is open. Its client decides for how long that
  is.
- Without both 'RequestReceived' and 'Panic', a request at which the API server panics is not in the log.

The group '*' of a rule stands for all groups since Kubernetes 1.36; before, it matches no request. The check is unproven if the policy hides
a request either way. Name the groups. As a verb, a namespace or a resource name, '*' matches no request in any version.

Whatever the policy, watches of nodes that end in the log must also begin in it. The beginning may be missing for at most 1 % of the watches
of each kind, and for at most 1 % of all watches in an hour. So nodetrail notices a log shipper that drops events under load. A watch counts
only if the node renewed its Lease in the five minutes in which the watch began, and in the five minutes before and after. Otherwise the
watch may have begun before the log, or in a break of the log, which 'window-covered' names.

Nodes make most of the requests that other checks expect. So nodetrail also looks for requests of others. A pod that comes to a node was made by
somebody who is no node, and in most cases the scheduler bound it. The check is unproven if the log does not show that:

- The log has who made the pods. It is missing for all pods, or for three or more pods and all that came in one hour. A pod can be made an hour
  before it comes to a node, or earlier if no node could take it.
- The log has who bound a pod, or made it for its node, ten minutes before or after it came. It is missing for all pods, for three or more
  pods and all that came in one hour, or for three or more pods that are more than 1 % of all.

If the log has neither for any pod, it is a log of nodes alone. The report lists that, and the answer then says nothing of what others do.

Mirror pods of static pods do not count, nor do pods that came when no node renewed its Lease. If the audit policy does not log these requests
of everybody, nodetrail cannot look for them. It does not notice a filter if no pod came, or if the filter drops only users who bring no pods,
such as people.

No log can show what kubelets seldom do. Since Kubernetes 1.31 they read their Node only when they start, when they repeat a failed report
of its status, and when they verify that a volume is attached.

## What to do
Give nodetrail the policy of the API servers. If it hides requests of a service account to which 'system:node' is bound, do one of these:

- Put a rule of level 'Metadata' with that user first in the policy.
- Delete the service account's binding.

'nodetrail policy check --fix' writes a policy that keeps the stages. If you cannot change the policy, waive each kind that is listed.`

const docEveryEventJudged = `Every event of the log was judged

## What it claims
nodetrail left out no request of a node because it could not read or decide the event.

## What proves it
nodetrail read every event. For every request whose verdict nodetrail needs, the state or the API server's own decision gives this verdict.

## What defeats it
The check is unproven in these cases:

- An event is torn, unreadable, or replaced by NUL bytes in a crash. Or it is too long to be judged by its fields.
- nodetrail does not have the state that the verdict of a request needs.

An event does not count if what is left of it shows that it is not of a node, nor of somebody who acts as one. If the API server cut a body
off, this affects only the check 'node-restriction-on'.

## What to do
- Read the lines that are listed.
- Raise '--max-event-bytes' for events that are too long.
- For requests without a verdict, give the state of their time.`

const docServersSeen = `Every API server's log is here

## What it claims
Every API server wrote to this log in every hour of the window.

## What proves it
Each API server renews its own identity Lease in kube-system every ten seconds, through itself. Only its own audit log has these renewals.
nodetrail measures them like the renewals of nodes.

The state has the identity Leases of all API servers, so nodetrail notices a server whose log is missing. A server that only the log shows
must have renewals in the whole window.

These renewals do not count as missing:

- renewals in the two minutes before a server starts. The report lists these restarts. nodetrail recognizes a start because the server then
  gets or creates its Lease;
- renewals in one gap of at most 40 seconds for each server and hour;
- renewals in the first 40 seconds after the Lease was created, and in the last minute of a server.

nodetrail finds the end of a server in two ways:

- If somebody watched when the Lease was deleted, the Lease shows the last renewal.
- Otherwise the journal has the last renewal only to within ten minutes. The server ended with the last renewal in the log, if the Lease has
  no later renewal and the log lacks at most the last 36 seconds of these ten minutes.

## What defeats it
The check is unproven in these cases:

- More than 1 % of the renewals of a server in an hour is missing.
- Neither the log nor the state has an identity Lease.
- The state does not have the identity Leases of the whole window, and you do not say how many servers there are. There may be more
  servers, whose logs are missing.
- At some time in the window, fewer servers are there than you say with '--apiserver-count' of 'analyze', or 'readiness.apiserverCount' in the
  configuration.
- An hour has more than 64 API servers or 256 sources of events, so some names were dropped.

Two servers on one host share one Lease, and count as one.

If you do not say how many servers there are, a server without an identity Lease is not seen if another one has one: the addresses of the
Service 'default/kubernetes' are not read. Do not turn the feature gate 'APIServerIdentity' off.

Only the metric 'apiserver_audit_error_total' of a server shows batches that the server dropped.

## What to do
Log the Leases 'apiserver-…' of the user 'system:apiserver' at level 'Metadata', as 'deploy/audit-policy.yaml' does, and record the state
with 'nodetrail record'. Add the logs of the servers and hours that are listed.`

const docNodeAuthorizerOn = `The Node authorizer is asked before RBAC

## What it claims
Every API server has the Node authorizer, before RBAC and all others.

## What proves it
One of these proves it:

- The configuration of each API server ('--authorization-mode'). If the configuration is in a file of '--authorization-config', give
  '--authorization-mode' to nodetrail as well.
- The API servers' own decisions in every hour. The Node authorizer always allows a node to renew its own Lease. If it did, the event has a
  decision without a reason.

The audit log does not name the API server that wrote an event, so these decisions prove it only for the API servers that kubelets used. A
server that no kubelet used may not have the Node authorizer. When a kubelet connects to it, for example because another server restarts,
it refuses all that the binding allowed. So if several API servers were there at the same time, and you do not give their configuration, the
check lists this ('mode-of-some-servers'). Before you delete a binding, look at the configuration of each server.

## What defeats it
The check fails if RBAC allowed a node to renew its own Lease, or if no authorizer allowed it. The API server then does not ask the Node
authorizer first, or does not have it. The same applies to any other request that the Node authorizer allows every node, such as a report of
its status. One such request is enough.

The check is unproven in these cases:

- You give no configuration, and events have no decision. One renewal of a node's Lease without a decision is enough, because it may be of
  an API server whose other events have no decision either.
- The log shows that the API server asks another authorizer first, such as ABAC or a webhook, or that something changed the reasons. Either
  a request was allowed without a reason, and neither RBAC nor Node allows it, such as a request of a service account that no binding
  allows. Or RBAC allows a node's request, and the reason is not RBAC's.
- No version and feature gates fit all hours between two starts of an API server. Feature gates do not change while an API server runs, so
  another authorizer may have allowed what does not fit.
- The clock of the machine that recorded the state was behind, and requests next to changes do not fit.

In the last three cases, what another authorizer or RBAC allows nodes looks like a decision of the Node authorizer, or like one that needs
no binding. If you give '--authorization-mode' and it names another authorizer, that explains these cases.

## What to do
Set '--authorization-mode=Node,RBAC' on the servers that are listed. With '--authorization-config', put the type Node before RBAC in that
file instead: the two flags exclude each other.

If this is done already, keep the annotations of events in the log.

With several API servers, look at the configuration of each one, and give it to nodetrail with '--authorization-mode'. For 'nodetrail run',
set 'authorization.mode' in the configuration file.`

const docVersionKnown = `The Kubernetes version is known

## What it claims
For every hour of the window, nodetrail judges requests as the API server of that hour did.

## What proves it
One of these proves it:

- The decisions and reasons in the log fit one version with its feature gates.
- They fit several versions, and one of these sources names the right one: the user agents of the API servers, the API server itself, or
  '--kubernetes-version'.
- They fit several versions, nothing names one, and every request has the API server's decision.

## What defeats it
- Nothing shows the version of an hour, or nodetrail does not support the version (unproven).
- API servers made decisions that the version would not make (failed). The log takes precedence over a flag.

## What to do
If the log contradicts '--kubernetes-version' and '--feature-gates', remove these flags. If no version fits, look at the requests that are
listed, and check '--authorization-mode'.`

const docNothingDepends = `No request needs a binding that will be deleted

## What it claims
No client notices when the bindings are deleted.

## What proves it
Some requests are let through by RBAC and not by the Node authorizer, because of a binding that will be deleted. Every such request is harmless,
for one of these reasons:

- Admission refused it anyway. A refusal that passes does not count: by a quota ('exceeded quota'), or because the namespace is deleted.
- A kubelet asked for an object that its node could reach until at most a minute before, or before the node was cut off. The object was
  gone (404), the API server failed (429 or 5xx), or the request is a list or a watch by name, or a get of a volume or its claim.
- A kubelet got a pod with the name of one that was on its node within the last 24 hours.
- kubeadm read the ConfigMap kube-proxy, and continues without it.
- A kubelet listed or watched an image pull secret whose name cannot exist, such as 'registry/team'. It continues without the secret. If a
  variable or a volume of any pod has that name, or if the state has no such pod, the request counts.
- The API server lagged: it refused a kubelet what the graph allows, at most a minute after a start, and allowed the same later.

A request of a kubelet that succeeded, such as a watch or a get of a pod that exists, is harmless only if it came from an address of the
kubelet's Node.

The report lists requests by bindings that stay, and does not count them. The bindings at the end of the log decide. A request also counts
if its binding is not about nodes at the end, but was one that would be deleted at the time of the request. The same applies if the log does not
name the binding, or if the state does not have it.

From Kubernetes 1.32 on, the Node authorizer lets a node read only its own Node and pods. If the API servers have this limit at the end of
the log, a request that they allowed before without it counts like the others. If they do not have it yet, the report lists such requests:
their clients need RBAC after the upgrade.

nodetrail also judges the requests of bootstrap groups, service accounts and users to whom a binding that will be deleted is bound. The check
races-decided judges requests in races.

## What defeats it
The check fails if such a request is not harmless:

- The request succeeded.
- The request ended in 404, and without the binding it would end in 403.

A request through a proxy always counts, whatever the answer. Impersonation counts unless admission refused the request, both of nodes and
by nodes.

Some requests need a second right, which the log does not name. If an update or an apply made its object (201), the client needs 'create'
for it, too. So does a client that connects to a pod ('exec', 'attach', 'portforward') by GET, since Kubernetes 1.35. The check fails if only
a binding that will be deleted gives this right.

nodetrail does not know of two kinds of rights that the API server may ask about in addition. If the admission plugin
OwnerReferencesPermissionEnforcement is on, as on OpenShift, a client that changes the owner references of an object also needs 'delete' for
it. And CEL expressions of admission policies and webhooks can ask about any right ('authorizer').

The check is unproven in these cases:

- The log does not hold the answer to such a request.
- A subject of a binding that will be deleted created or changed a role or a binding. RBAC lets a client give others only rights that it has
  itself, so it may need the binding for that. This does not apply if the client has all these rights by other bindings, or the verb 'escalate'
  or 'bind'.
- Such a client created or changed an admission policy with parameters, or a binding of one. It may do so only if it may read the parameters.
  The log has to hold the response to show that there are no parameters.
- A client acted as somebody else (impersonation), and only a binding that will be deleted allows it to ask for a group that the API server
  also adds itself, such as 'system:authenticated'. The log does not show whether the client asked for the group.
- A kubelet asked for an object that was not there (404), and the state does not cover the minute before: it may have been the node's own.
- A kubelet listed or watched one object, and the state does not tell whether its node used the object. Such a request from an address that
  the node never had fails the check.
- A binding that stays allowed such a request at a time when its role gave more than is documented. It does not allow the request at the end
  of the log, and a binding that will be deleted may. This does not apply to a binding that you keep with '--keep'.
- Something else allowed such a request, but has ended since: another binding was deleted, or its role gives less. At the end of the state,
  only a binding that will be deleted allows it. The client may have ended with it, or may need the binding from then on.
- The state does not hold the bindings and roles of the whole window.

## What to do
Move each client that is listed to a service account of its own. 'nodetrail suggest' writes the role for it.`

const docBindingsInventoried = `All bindings that will be deleted are known

## What it claims
nodetrail knows every binding that the migration deletes.

## What proves it
The state holds all bindings and roles.

The migration deletes a binding in each of these cases:

- Its role is 'system:node' or a copy of it, whoever its subjects are.
- One of its subjects is the group 'system:nodes', a user 'system:node:…' or a group of bootstrapping nodes.

These bindings stay:

- the bindings of kubeadm, the binding by which workers of k0s read their profiles, and the documented bindings of providers, as long as
  their roles give no more than is documented, also no more names. Some of them are only for machines that join ('kubeadm:get-nodes',
  'kubeadm:node-autoapprove-bootstrap', 'kube-proxy', 'kubeadm:kubeadm-certs'). If nodes are subjects of such a binding, it does not stay;
- 'node-credential-providers-binding' and 'host-networking-system-node' of OpenShift, under the same condition. OpenShift creates them again if
  you delete them. They give nodes more than their own: see 'no-excess-rights';
- ClusterRoleBindings of the API server's own ClusterRoles for TLS bootstrapping, under any name: 'system:node-bootstrapper', and
  'system:certificates.k8s.io:certificatesigningrequests:nodeclient' and ':selfnodeclient'. A binding of 'nodeclient' to nodes does not count;
- bindings that give only named audiences of tokens ('request-serviceaccounts-token-audience'). Image credential providers need them.
- bindings that you name with '--keep' of 'analyze', or 'readiness.keep' in the configuration. You cannot keep a binding that gives
  'system:node', or a copy of it, to the group 'system:nodes'.

A binding without subjects is harmless: the API server creates the binding 'system:node' again without subjects.

## What defeats it
The check is unproven in each of these cases:

- You do not give the RBAC state. Or the state holds the API server's own roles without their bindings, or the API server's own RoleBindings
  without their Roles.
- The log names a binding that would go, and the state does not have it.
- nodetrail did not judge the requests of the subjects of a binding that will be deleted.
- A binding that will be deleted is for a service account, kubelets created tokens for it, and it made no request in the window. The audit
  policy logs each request that it makes for a resource. Its requests are missing from the log, or its pods do not use the token.
- A binding that will be deleted is for a group of bootstrapping nodes, and no node joined in the window. A kubelet that restarts does not use
  the bootstrap token.
- Within the window, somebody created a binding that will be deleted, or it got more rights. The log shows only from then on who needs it.
- Within the window, somebody deleted another binding that gave the same rights as a binding that will be deleted. The log shows only from then
  on who needs the binding that will be deleted.
- A binding that will be deleted gives a right that no request shows in use, and no other binding gives that right. The binding's role names the
  right, or gives it by a wildcard. A binding for 'system:authenticated' does not give the right to those who do not say who they are
  ('system:unauthenticated').
- A binding that will be deleted gives a right that no other binding gives, and in the window somebody asked the API server what other users
  may do. For nodes, a right that 'system:node' gives does not count. For other subjects, it does. kube-rbac-proxy, for example, creates a
  SubjectAccessReview for each client, about any right that you configure. Reviews that kubelets and the programs of the control plane ask
  for do not count. If the audit policy does not log all reviews of others, somebody may have asked.

No request shows these rights in use:

- to have certificates approved ('certificatesigningrequests/selfnodeclient');
- to ask kubelets for something ('nodes/metrics');
- to ask other servers for a path ('/metrics' of kube-scheduler or kube-rbac-proxy);
- rights that admission asks about: finalizers if the role names them ('pods/finalizers'), 'endpoints/restricted' and 'routes/custom-host' of
  OpenShift, or a verb such as 'request-serviceaccounts-token-audience' with any audience or the API server's own. The verb '*' on a resource
  of the core group that Kubernetes does not have is such a right, because the name can be an audience. So are the verb '*' on 'signers' of
  'certificates.k8s.io' and on the signer of a pod's certificate ('example.com:mesh'), and on 'resourceclaims/driver' of 'resource.k8s.io';
- to change the allocation in the status of a ResourceClaim ('resourceclaims/binding'), since Kubernetes 1.36.

## What to do
Record RBAC objects with 'nodetrail record', or give the output of
'kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o yaml' with '--state'.

If a binding is for machines that join, let one join, or use a longer window.

If a service account of a binding made no request, look for a filter that drops its requests. If it needs nothing, delete the binding.

If a right is listed that no request shows in use, leave its binding in place and waive it, or find out who needs it.`

const docIdentitiesConform = `Every kubelet has the identity of its Node

## What it claims
Every kubelet is the user 'system:node:' followed by the name of its Node, in the group 'system:nodes'.

## What proves it
The rule 'node-identity' is on and finds no other identity that a kubelet used with success.

## What defeats it
- The group is missing.
- The name differs from the Node's name in its letter case or its domain.
- A kubelet has another user.
- Several nodes have one certificate.

The report lists identities with which every request failed anyway, and does not count them. If all requests of a kubelet with another user
are refused, the kubelet needs no binding, and its node is not Ready. Anybody can claim to be a kubelet and be refused.

It also lists a machine that is still on after its Node was deleted ('node-gone'). Its requests name no other node, and get nothing or what
needs no Node: it records events, and renews its certificate ('node-gone-renewed'). One request for another Node, or one that gets something
else, is enough for the check to fail.

## What to do
Issue a certificate with 'O=system:nodes' and 'CN=system:node:' followed by the Node's name to each kubelet that is listed.`

const docRacesDecided = `No request hides in a race

## What it claims
Some requests are so close to a change that both answers are possible. These requests hide nothing that breaks when the bindings are
deleted.

## What proves it
Inside the skew of a change, the API server's own decision counts if the log has it. Kubelets act at once on a change, so races of kubelets
are ordinary.

## What defeats it
- Inside a race, RBAC let a request through, and the client is not a kubelet (failed).
- The client is not a kubelet, and the log does not have the decision on its request (unproven).
- One client has more than 20 such races on one object (unproven). Kubelets do not have so many.

## What to do
Look at the requests that are listed, as you look at any request that needs a binding. Keep the annotations of events in the log.`

const docAgreement = `nodetrail and the API servers agree

## What it claims
You can trust the verdicts that rest on nodetrail's own evaluation.

## What proves it
nodetrail compares its verdict with the API server's own decision for every request that is outside of races and has both. The two are
always the same. The API server refused nothing that a binding of the state has allowed for a minute. nodetrail tolerates no share of
disagreements.

## What defeats it
One disagreement makes the check fail.

Lag does not count as a disagreement. Lag means that an API server's Node authorizer refused a kubelet what the graph allows, at most a
minute after the API server started, and allowed the same later. nodetrail recognizes the start because the API server then looks at its own
identity Lease.

The check is unproven in these cases:

- Verdicts rest on evaluation alone, and nothing could be compared.
- All disagreements are about objects that a node reaches through pods, and are from times that the state does not cover: before a journal
  begins, after it ends (lists: more than five minutes after that), or between two journals.
- All times of nodes' requests in the log are whole seconds, because some log shippers cut the fractions, and at each disagreement the API
  server's decision could be right a second before or after. Nothing then shows in which order the changes and the requests of one second
  came. One request with a fraction of a second shows that the times are not cut.

## What to do
Configure log shippers to keep 'requestReceivedTimestamp' and 'stageTimestamp' as the API server writes them, with microseconds.

A disagreement shows that the state, the version, the feature gates or the order of authorizers is not what nodetrail assumes. Look at the
requests that are listed with 'nodetrail explain'.`

const docRarePathsSeen = `A kubelet started while the log was written

## What it claims
The log shows what kubelets and nodes' scripts do only when they start.

## What proves it
In the window, a kubelet created its Node, and the API server answered 201 (the node joined) or 409 (the kubelet restarted). The kubelet's
watches followed.

## What defeats it
The check is unproven in these cases:

- No kubelet started. The log then does not show scripts that use the kubelet's credential at boot.
- The state shows that a Node came, and the log has no kubelet that registered it.

## What to do
Do one of these:

- Restart the kubelet of one node of each kind, or better, let one join.
- If you know what runs at start, waive the check.`

const docStateComplete = `The state of the cluster is complete

## What it claims
The state has every kind of object that verdicts depend on, without a gap from its beginning to the end of the log.

## What proves it
You give the state, and its recorder never stopped watching in the window. The report counts the objects that the state holds.

The state may begin after the log. Requests from before the state have no verdict, unless the API server's own decision gives it. The check
'every-event-judged' is unproven because of them.

## What defeats it
The check is unproven in these cases:

- You do not give a state.
- Kinds of objects are missing.
- At some times nobody watched the cluster.
- The state ends before the log.

A journal of 'nodetrail record' has a bookmark of each kind every minute. Ten minutes without a bookmark and without a change are a time in
which nobody watched. If the recorder may list a kind and not watch it, all time after the list also counts as a time in which nobody
watched. The recorder's log says so.

## What to do
Run 'nodetrail record' all the time, and give its journal with '--state'.`

const docRulesOn = `The rules that decide are on

## What it claims
The rules on which this answer rests ran.

## What proves it
The rules 'rbac-excess-access', 'node-identity' and 'audit-coverage-gap' are on. The report lists how many findings an exception covers.

## What defeats it
One of these rules is disabled, or 'nodetrail run' had it disabled in the window: what the rule did not look at then is not known.

## What to do
Remove these rules from '--disable' and from 'rules.disable'. To ignore single findings, use exceptions.`
