// Package cluster is where the state comes from: it turns what is known of a cluster's objects into the graph of [nodeauthz], the
// roles of [rbac] and a registry of nodes.
//
// What goes in: journals of watch events and snapshots ([State.Load]), and the bodies in audit events ([State.ApplyAudit]). What comes
// out: a [State] with the filled parts, and with what a report says of it: counts, the time it covers, warnings and the places of
// entries that could not be read. [Record] writes journals from a live cluster; [Live] keeps a State up to date with one, and a journal of its
// own, so that what was before is known after a restart.
//
// It may import audit, nodeauthz, rbac and internal/jscan. It is the only package that imports client-go.
//
// # When something happened
//
// Each input knows it differently well. In order of how far they are believed:
//
//   - An audit event carries the API server's own clock, which is also that of the requests that are judged.
//   - A journal's observedAt is the moment at which a watcher saw a change. It is taken wherever it agrees with the object's own
//     timestamps. For an object that was there before the journal began, those serve alone: they have whole seconds.
//     Where the watcher's clock is behind those of the API servers, it is moved first: see behind.
//   - A notBefore next to observedAt (which [Record] writes after it lost sight of the cluster) says that the change happened somewhere
//     between the two.
//   - A journal without observedAt, as kubectl writes it, is dated by its objects: an event cannot be earlier than the latest timestamp
//     that was written into an object before it, nor later than the next one.
//   - A snapshot is from the latest time found in any of its objects. That is somewhat early on a quiet cluster.
//   - In both, times that a kubelet wrote do not count where its clock is ahead of most others: see nodeClocks.
//   - Snapshots of etcd become one journal of all revisions since the first compaction (etcdHistory). A revision has no time: it is later than all times
//     that were written before it and earlier than those written after it (etcdTimes), and these two are notBefore and observedAt. What was compacted
//     between two snapshots is a hole, and after the last one nothing is known (nodeauthz.Graph.EndsAt).
//
// # What the absence of an object means
//
// From its first observation on, the state is complete: an object that is not in it does not exist. That first observation is
// the beginning of the earliest input that holds pods (for roles: ClusterRoles). When a later input lists a kind again, what is
// missing from the list was deleted in between; a list whose objects all have one namespace says this of that namespace only.
//
// After the last input, the state stays as it is, but for audit events, of which not all may have a body: [State.InputsEnd].
//
// # Holes
//
// While nobody watches, objects may be made and deleted of which there is never a trace. A journal says so by the BOOKMARK that ends a list
// (annotation k8s.io/initial-events-end): a notBefore next to its observedAt is the last moment before it of which all is known of the kind,
// and from there to observedAt absence proves nothing: see nodeauthz.Graph.Uncovered. A BOOKMARK without a
// resourceVersion, as Record and Live write it, says that a list begins.
//
// A time in which none of the inputs shows the kind, after one that did and before another one, is a hole as well. So is the time before a list in the
// middle of a journal whose end has no notBefore: another recorder continued it, and what it did not list any more is gone. Where the journal does not say that a
// list begins, it begins with the objects that come one after the other as ADDED, after the longest pause between them.
//
// API servers send a BOOKMARK of each watch every minute, and Record writes one itself where they send none. In inputs that have such BOOKMARKs,
// ten minutes without one of a kind and without a change of it are a hole, too: the kind was not watched, or what was seen is missing.
//
// A watch that was interrupted leaves no hole if the API server still knows the version where it stopped: all that was missed comes, with
// notBefore. That holds for a restart of Live too, which resumes where its journal ends, be it cut off by a crash. In the meantime nothing is
// known of what happens: requests of then should wait for [Live.CaughtUp], and are unknown if they do not.
package cluster
