// Package kafka reads audit events from topics of Apache Kafka, and writes them there for the gateway.
//
// What goes in: messages whose values are audit events, bare, as EventLists or in the envelopes of shippers (audit.Decoder.Message). What
// comes out: batches for a [source.Intake], a lane for each partition, named "kafka:<topic>/<partition>". It imports audit,
// pipeline/source, internal/credfile, github.com/segmentio/kafka-go and zerolog.
//
// # Positions
//
// The partitions are shared out by a consumer group, but how far one was read is the store's to say: a message counts when the pipeline has
// stored it together with its offset. Only then the offset is committed to the group, for other tools to see; it is read where the
// store knows nothing of the lane. So a group that was reset or deleted neither loses a message nor counts one twice.
//
// # Fences
//
// Who takes a lane over opens it with a fence, and the store refuses the commits of owners with lower ones. The fence begins with the group's
// generation, which the brokers count up. A group that was deleted, or forgotten by the brokers, begins at 1 again; so above the generation
// stands an epoch. If a lane is refused, the member asks the group's coordinator, by a heartbeat, whether it belongs to the group's
// present generation. Only if it does it tries a higher epoch. The store alone keeps the count right: whoever owns a lane began at the stored
// position and commits only while nobody else took it over. The heartbeat keeps those out who lost their partitions without noticing. Two
// groups that share one store and topic would take lanes from each other indefinitely; that is logged.
//
// # Faults of the client
//
// Of kafka-go only the protocol and the membership of the group are used, not its Reader, and these of its known faults are avoided:
//
//   - Readers that stall after a broker is lost (#955, #847, #387): every request has a deadline, and when a partition got no
//     answer for a while all connections are made anew.
//   - Commits of a past generation that move another member's offset (#1308): commits carry the generation, a lane's commits end with it, and
//     positions come from the store.
//   - An offset ahead of the log (#1276): looked at again for a while, then reported as a gap, and reading resumes at the first message
//     that there is. Messages that were deleted before they were read are reported in the same way.
//   - A topic that was deleted and created again goes for the old one, since a request names it by its name alone: whenever reading begins, after each
//     error, and after each pause in which another log may have grown as long, the last message that was read must still be there, or none in its place.
//   - MaxWait as the deadline of a read, and time-outs logged as errors (#574, #726): the deadline is well beyond the broker's wait,
//     and an empty answer is no error.
//   - Delays with the default settings (#102, #136): a broker answers as soon as there is a byte.
//   - An error of a partition in the group's offsets taken for "none": they are asked for again, with their errors.
//   - A group that is never joined because the first of the brokers takes connections and says nothing: they are asked in turn.
//   - A rebalance for each look at a topic that does not exist: the group's leader looks for new partitions itself.
//   - Messages of aborted transactions are handed out: they are left out here.
//
// What is left: kafka-go decompresses a batch of messages as a whole, so the brokers' max.message.bytes bounds what a hostile producer can
// make of memory only up to the rate of compression.
package kafka
