package checks

const docNodeRestrictionOn = `NodeRestriction is in force

## What it claims
On every API server, the admission plugin NodeRestriction limits what a node may write.

## What proves it
The cluster has one API server. In every hour, its plugin refused something with a message of its own, for example the request of a probe.
The same applies to the time between two starts of the API server, because a start can change the plugins. The log shows when the API server
starts: it then reads its identity Lease.

The audit log does not name the API server that wrote an event. With several API servers, or an unknown number of them, a refusal proves
nothing about the other API servers.

## What defeats it
The check fails if a write of a node passed that the plugin refuses. See the rules 'noderestriction-bypass' and 'foreign-node-write'.

The check is unproven in these cases:

- Nothing in the log shows that the plugin is in force.
- The API server started, and there was no refusal between this start and the next one. A refusal in the minute before a start does not
  count, because the API server may have refused it after the start.
- The log has no requests of the API server for its identity Lease.
- The event of a write was too long. The API server cut its body off, or nodetrail did not read it.
- A write may be of a pod of another node. Or it may be of a pod of the same name on the node, if the clock of an API server is wrong by
  minutes.

## What to do
Add 'NodeRestriction' to '--enable-admission-plugins' of every API server, and run the probe in docs/node-restriction.md. The probe is a dry
run and creates nothing. Repeat it after each restart of the API server.`

const docNoExcessRights = `Nodes have no rights beyond their own

## What it claims
RBAC gives nodes only what every authenticated user has, and what nodes need to join and to renew certificates. No other authorizer gives
them more.

## What proves it
The state holds all bindings, and the log shows the groups of nodes' certificates.

No binding gives more if its subject is a node, 'system:nodes' or another group of nodes. This includes the bindings that are only for
machines that join (see 'bindings-inventoried'), if nodes are in the group of these machines. It also includes the two bindings of OpenShift
that stay. No binding that a node has gives one of these rights:

- to impersonate;
- 'nodes/proxy', 'pods/exec' or the like;
- to approve or sign certificates;
- to have the certificate of any node approved ('certificatesigningrequests/nodeclient');
- any audience of tokens.

A binding that you keep ('--keep') gives none of the rights that the check 'tokens-on-node' looks for. It also gives nothing that the Node
authorizer allows a node only for its own objects: Nodes, pods, ConfigMaps, ServiceAccounts, claims, volumes, volume attachments, Leases in
'kube-node-lease', CSINodes, ResourceSlices and requests for certificates of pods, and their subresources. Only a ConfigMap, a
ServiceAccount, a claim or a volume that the role names ('resourceNames') does not count.

A named audience does not count as more, because the tokens are those of pods on the node. The API server's own audience (such as
'https://kubernetes.default.svc') counts.

What everybody has ('system:authenticated', 'system:unauthenticated' or 'system:anonymous') does not include any right that the check
'tokens-on-node' looks for, such as to read secrets. In all namespaces, it also includes nothing that a binding that you keep must not give,
such as all pods or all ConfigMaps. In one namespace, such as 'kube-public', it may include that.

In the window, no binding gave nodes, and then took away, a right of which no request shows whether it was used: to reach kubelets
('nodes/proxy', 'nodes/log'), to get tokens for any audience or for the API server's own, or to have certificates of nodes approved or signed.

If you give '--authorization-mode', it names no authorizer but Node, RBAC and AlwaysDeny. Without it, nodetrail sees another authorizer only
if this authorizer allows a request in the log (see node-authorizer-on).

## What defeats it
The check fails in these cases:

- There is such a binding.
- A node's certificate has the group 'system:masters'.
- The authorization mode that you give names AlwaysAllow.

The check is unproven in these cases:

- API servers answer as with the feature gate AuthorizeNodeWithSelectors off. This is possible in Kubernetes 1.32 and 1.33. Each node can
  then list and read the pods of all nodes.
- The feature gate ServiceAccountNodeAudienceRestriction is off, as it is by default in Kubernetes 1.32, or does not exist, as before 1.32.
  NodeRestriction then lets each node get tokens for any audience, of the service accounts of its pods. The log does not show this gate: if
  you turned it on or off, give it with '--feature-gates'.
- The authorization mode that you give names ABAC or Webhook. nodetrail does not know what these authorizers allow.

## What to do
Delete the bindings that are listed, or remove the rights from their roles. Issue certificates without other groups.

In Kubernetes 1.32, set '--feature-gates=ServiceAccountNodeAudienceRestriction=true' on API servers and give it to nodetrail, or waive the
check.

Remove AlwaysAllow. If the API server asks ABAC or a webhook, check that it allows nodes, and the service accounts of their pods, nothing
more. Then waive the check.`

const docTokensOnNode = `Pods' service accounts on a node cannot do more than a node may

## What it claims
The service accounts of pods on a node have no rights that reach beyond this node. A kubelet may ask for a token of any service account
whose pod is on its node. So whoever has the kubelet's credential can do what these service accounts may do.

## What proves it
The state has the pods of every node, and all roles and bindings of the window. No service account of a pod on a node has one of these
rights, which reach beyond that node:

- to read or write secrets;
- to make tokens;
- to request certificates of pods ('podcertificaterequests');
- to impersonate;
- to run commands in pods;
- to reach pods, services or nodes through the API server's proxy;
- to create, change, bind, evict or delete pods, or to write their status;
- to change workloads, also with a HorizontalPodAutoscaler, or to delete workloads that are made again;
- to create or change DeploymentConfigs, MachineConfigs, KubeletConfigs and ContainerRuntimeConfigs of OpenShift, or HelmCharts and
  HelmChartConfigs of k3s and RKE2;
- to change PersistentVolumeClaims or their status;
- to change or delete nodes, to write PersistentVolumes, or to change ServiceAccounts;
- to read the logs of nodes ('nodes/log'), or of API servers (path '/logs/');
- to offer or taint devices ('resourceslices', 'devicetaintrules');
- to create or change RuntimeClasses, CSIDrivers, StorageClasses and DeviceClasses;
- to change namespaces or CustomResourceDefinitions;
- to create VolumeAttachments;
- to approve certificates;
- to change RBAC, admission webhooks and API services;
- to request certificates and to have those of nodes approved ('certificatesigningrequests/nodeclient'), if an account has both rights.

A right also counts if it is only for some names. A RoleBinding gives nothing of what is in no namespace, such as PersistentVolumes or the
impersonation of users.

Everybody ('system:authenticated', 'system:unauthenticated' or 'system:anonymous') had none of these rights for a part of the window only.
The check 'no-excess-rights' looks at the rights that everybody has at the end.

No account may create, update or patch one of these ConfigMaps in 'kube-system', or any ConfigMap of that namespace. They give rights or say
what runs on nodes:

- 'aws-auth' and 'aws-iam-authenticator';
- 'extension-apiserver-authentication';
- 'kubeadm-config';
- 'kubelet-config';
- 'kube-proxy';
- 'worker-config-*' of k0s.

These rights do not count:

- to read the logs of pods;
- to write Services, Endpoints and EndpointSlices, by which traffic goes elsewhere;
- to write the ConfigMaps of other namespaces;
- to write CSINodes and CSIStorageCapacities. They can only say that volumes fit on fewer nodes, and agents of CSI drivers write them;
- to create namespaces or CustomResourceDefinitions: there are no objects of them yet;
- to write 'resourceclaims/status' and 'resourceclaims/binding', as schedulers and drivers of dynamic resource allocation do. Whoever has them
  can choose the nodes for pods that use the claim;
- to write custom resources, besides those above. A controller of a custom resource may make pods or change machines by what it says, with
  any rights: look at the operators of your cluster.

A pod may use a Secret that has the token of another service account, such as one that Kubernetes made before 1.24. That account does not
count: the state does not have the contents of Secrets.

## What defeats it
A DaemonSet or another pod has a service account with such rights. Some of these rights are less obvious:

- An account that may only create secrets can make a bootstrap token in 'kube-system'. In other namespaces it can make a token for a service
  account. The node may read this token if one of its pods names a secret that does not exist.
- An account that can evict pods elsewhere can move them to the stolen node. This includes deschedulers and autoscalers. It also includes
  accounts that can delete a ReplicaSet, because its Deployment creates it again.
- An account that can update or patch 'pods/status' can say that a pod elsewhere has failed. Its controller then creates another pod, maybe
  on the stolen node. The account can also change the address to which Services send the traffic of that pod. This includes some network
  agents: such an agent needs the right only for pods of its own node, but RBAC gives it for all pods.

- An account that can change a RuntimeClass can give its new pods a node selector, so that they come to the stolen node.
- An account that can change a CSIDriver can add audiences ('tokenRequests'). The node may then get tokens for these audiences, of accounts
  whose pods use the driver.
- An account that can change a StorageClass can change 'allowedTopologies', so that pods with new claims come to the stolen node. An account
  that can create one can make it the default. A DeviceClass chooses devices of nodes in the same way.
- An account that can change a PersistentVolumeClaim, or its status, can write where the pod of a new claim has to run (annotation
  'volume.kubernetes.io/selected-node').
- An account that can change a namespace can give its new pods a node selector. This is so on OpenShift, and with the admission plugin
  PodNodeSelector.
- An account that can change a CustomResourceDefinition can add a webhook for conversion, which sees and changes all objects of its kind.
- An account that can create VolumeAttachments can have a volume attached to the stolen node.

## What to do
Give such pods a smaller role, or keep them on separate nodes. For leader election, Leases are enough, in a Role of the pod's own namespace.`

const docNoExcessUse = `No node used rights beyond its own

## What it claims
Nobody used the credentials of nodes for anything that the Node authorizer does not allow.

## What proves it
- Every request of a node that only RBAC allowed was made by a binding that stays, or was harmless. The check nothing-depends says what is
  harmless. A binding that gave too much at the time of the request does not stay, and one that you keep
  is no reason if it then gave what the check no-excess-rights does not allow. A request of a kubelet in a race is harmless, too.
- No service account, user or bootstrap group used a right that only a binding that will be deleted gives, or its use was harmless.
- The verdicts are right: the checks version-known, agreement, state-complete and rules-on passed too.

## What defeats it
The check fails if one of these requests succeeded, or would get another answer without RBAC. A request in a race counts if its client is
not a kubelet.

The check is unproven in these cases:

- The log does not hold the answer to such a request.
- A kubelet asked for an object that was not there (404), and the state does not cover the minute before: it may have been the node's own.
- A kubelet listed or watched one object, and the state does not tell whether its node used the object. Such a request from an address that
  the node never had fails the check.
- The state does not hold the bindings and roles of the whole window.
- The check version-known, agreement, state-complete or rules-on did not pass.

## What to do
Move the client to a service account of its own. If you do not know the client, treat the credential as stolen.`

const docOneHolder = `Each credential has one user

## What it claims
Nothing but the kubelet itself uses the kubelet's credential.

## What proves it
All of these hold:

- The log holds all requests of nodes: the checks window-covered, reads-logged, policy-known, every-event-judged and servers-seen passed.
- Each request of a node names its credential and its source address.
- Each address is one that the Node object has or had in the state, for ten minutes or from the first, and no other node used it in the
  same time.
- No rule found that something other than the kubelet uses the credential, and no rule is disabled.

## What defeats it
The check fails if a finding of high or critical severity shows a second user of the credential:

- another client;
- a second address;
- two certificates at once;
- something that a kubelet does not do, such as a read of another node's secret.

The check is unproven in these cases:

- There are findings of lower severity.
- The user name of a kubelet is not exactly that of its Node (see identities-conform). The kubelet then asks for what belongs to another
  name.
- Kubernetes is older than 1.32. It logs no ID of certificates.
- The log goes back in time by more than two minutes, and the rules that look at several requests left requests of nodes out. This happens
  if one input holds the logs of several API servers one after the other.
- The log does not show where a request came from: a load balancer or a gateway hides addresses, or a kubelet reaches its API server by
  loopback.

Requests of somebody who impersonates a node do not count, because they are not made with the node's credential.

The log cannot distinguish some programs from the kubelet: a program on the node that uses the kubelet's present certificate, calls itself a
kubelet and asks for nothing but what its node may have.

## What to do
Keep source addresses and the extra field 'authentication.kubernetes.io/credential-id' in the log, and record Nodes ('nodetrail record').

Look at each finding that is listed. If nobody knows what uses the credential, treat it as stolen. 'nodetrail reach --node' lists what the
credential could read.`

const docBirthGuarded = `No credential of a node was issued to somebody else

## What it claims
Certificates of nodes were requested, approved and issued as they should be.

## What proves it
All of these hold:

- Each certificate request for a node in the log was made by that node, or while the node joined. The controller approved it.
- You give the audit policy, and it logs all of these requests with their bodies.
- The rules 'node-bootstrap-impersonation' and 'bootstrap-token-misuse' ran.
- Each Node that was created in the window was created with a certificate that was approved and issued in the window or in the hour before
  it. Somebody who is no node requested this certificate, or the node did so with a certificate that was requested in this way at any time.
  If the log does not show which certificate created the Node, such a certificate must have been issued for the node before. Virtual nodes
  do not need certificates.

## What defeats it
The check fails if one of the two rules has a finding of high or critical severity, for example in these cases:

- Somebody else requested a certificate of a node that was alive.
- A node requested a certificate of another node.
- A node or a bootstrap token requested a certificate that is not a kubelet's, from a signer for kubelets or for clients of the API server.
  Or such a certificate of another signer was approved.
- Somebody unknown, or a node, approved a certificate.
- A kubelet's serving certificate has names that its Node does not have, or had only for a moment, and was approved. The state covers the
  time of the request. Or it has names of services, or of another node's machine.
- A token of a service account that one node got is used from another node's address, for more than reviews of tokens and of oneself.
- A bootstrap token was used for more than to join, or a node read the Secret of a bootstrap token.

The check is unproven in these cases:

- One of the two rules has a finding of medium severity. For example, a certificate was first used from another address, or two machines
  got a certificate of a node before its Node existed. Or a node asked for a certificate of a signer of your own, or for a serving
  certificate with names that the state does not have, before the state begins or after it ends. Or the certificate has an IP address that
  its Node had for less than ten minutes.
- Somebody else than the controller approved a request, and the log does not show which.
- A node changed to a certificate that no request in the log asked for.
- Somebody else requested a certificate of a node that exists and was silent. The log may lack what the node did.
- A node has a second certificate, as with OVN-Kubernetes. nodetrail does not examine what rights that certificate gives.
- A certificate was issued for a request whose approval is not in the log.
- A body is missing.
- The audit policy is not known, or does not log these requests with their bodies. The group '*' of a rule must not decide that: before
  Kubernetes 1.36 it matches no request.
- One of the two rules is disabled.
- A Node was created in the window, and the log does not show such a request for its certificate. A request that was not approved, or that
  the node made with a certificate of unknown origin, does not count.
- A Node was created before the window with a certificate of unknown origin, in the time for which the report counts findings. This is not
  the case if the node used the certificate for an earlier Node of its name before: it is the certificate of a Node that was registered
  again.
- The log goes back in time by more than two minutes, and the rules that look at several requests left requests out.
- The log has no request at all. On kops since 1.20 and on EKS, client credentials are issued outside of the Kubernetes API, and nothing in
  the log can prove how.

## What to do
Log certificate requests with their bodies, as 'deploy/audit-policy.yaml' does. Look at each request that is listed.

If no node joined and no kubelet renewed its certificate, use a longer window.

On kops and EKS, waive the check, and restrict who may issue credentials there.`
