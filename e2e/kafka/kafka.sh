#!/usr/bin/env bash
# Runs Apache Kafka on the loopback interface, for tests. Java 17 and Maven are needed; Maven gets the broker.
#
#   kafka.sh jars                        gets the broker, if that is still to do, and prints the folder of its jars
#   kafka.sh prepare DIR PORT,PORT…      lays out a cluster in DIR: one broker and controller (KRaft) for each group of ports
#                                        given as PLAINTEXT:CONTROLLER:SASL:SSL, any of the last two empty
#   kafka.sh run DIR ID                  runs broker ID (1, 2, …) in the foreground; the process is the broker's own
#   kafka.sh start DIR [N]               prepares N brokers (1) on free ports, starts them in the background and prints their addresses
#   kafka.sh stop DIR                    ends the brokers that start has started in DIR, by their process ids
#
# The SASL listener knows the users of KAFKA_USERS ("name:password …") by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. The SSL listener uses the PEM
# files DIR/server.pem (certificate and PKCS#8 key) and, if it is there, DIR/clients.pem: then clients must have a certificate.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
heap=${KAFKA_HEAP:-256m}

die() { echo "kafka.sh: $*" >&2; exit 1; }

need() {
	command -v "$1" >/dev/null || die "$1 is not installed"
}

jars() {
	need java
	local lib fresh lock
	lib=$root/.cache/kafka/$(cksum <"$here/pom.xml" | cut -d' ' -f1)
	if [ ! -e "$lib/complete" ]; then
		need mvn
		mkdir -p "$root/.cache/kafka"
		# Tests of several packages may ask at once, and Maven's own cache is for one at a time.
		exec {lock}>"$root/.cache/kafka/lock"
		! command -v flock >/dev/null || flock "$lock"
	fi
	if [ ! -e "$lib/complete" ]; then
		fresh=$(mktemp -d "$root/.cache/kafka/fresh.XXXXXX")
		mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh" >&2 ||
			{ rm -rf "$fresh"; die "Maven could not get the broker"; }
		touch "$fresh/complete"
		# Without flock another one may have been as fast.
		mv -T "$fresh" "$lib" 2>/dev/null || rm -rf "$fresh"
	fi
	echo "$lib"
}

# java_exec CLASS ARGS… becomes a Java process.
java_exec() {
	local lib
	lib=$(jars)
	exec java -Xms64m -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xshare:auto \
		-Dlog4j2.configurationFile="$here/log4j2.properties" -cp "$lib/*" "$@"
}

prepare() {
	local dir=$1 groups=() voters="" id=0 g
	IFS=, read -ra groups <<<"$2"
	[ ! -e "$dir/1" ] || die "there is a cluster in $dir already"
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	for g in "${groups[@]}"; do
		id=$((id + 1))
		voters+=${voters:+,}$id@127.0.0.1:$(cut -d: -f2 <<<"$g")
	done
	local copies=$((id < 3 ? id : 3))
	id=0
	for g in "${groups[@]}"; do
		id=$((id + 1))
		local plain controller sasl ssl listeners
		IFS=: read -r plain controller sasl ssl <<<"$g"
		listeners=PLAINTEXT://127.0.0.1:$plain
		[ -z "$sasl" ] || listeners+=,SASL_PLAINTEXT://127.0.0.1:$sasl
		[ -z "$ssl" ] || listeners+=,SSL://127.0.0.1:$ssl
		mkdir -p "$dir/$id"
		cat >"$dir/$id/server.properties" <<-PROPERTIES
			process.roles=broker,controller
			node.id=$id
			controller.quorum.voters=$voters
			controller.listener.names=CONTROLLER
			listeners=$listeners,CONTROLLER://127.0.0.1:$controller
			advertised.listeners=$listeners
			listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
			inter.broker.listener.name=PLAINTEXT
			log.dirs=$dir/$id/data
			auto.create.topics.enable=false
			num.partitions=1
			default.replication.factor=$copies
			min.insync.replicas=$((copies > 1 ? 2 : 1))
			offsets.topic.replication.factor=$copies
			offsets.topic.num.partitions=4
			transaction.state.log.replication.factor=$copies
			transaction.state.log.min.isr=$((copies > 1 ? 2 : 1))
			transaction.state.log.num.partitions=2
			share.coordinator.state.topic.replication.factor=$copies
			share.coordinator.state.topic.min.isr=1
			group.initial.rebalance.delay.ms=0
			group.min.session.timeout.ms=1000
			broker.session.timeout.ms=6000
			controller.quorum.election.timeout.ms=1000
			controller.quorum.fetch.timeout.ms=2000
			replica.lag.time.max.ms=6000
			log.cleaner.backoff.ms=200
			log.cleaner.dedupe.buffer.size=4194304
			log.retention.check.interval.ms=1000
			log.segment.delete.delay.ms=1000
			log.initial.task.delay.ms=1000
			num.network.threads=2
			num.io.threads=2
			num.recovery.threads.per.data.dir=2
			controlled.shutdown.enable=true
		PROPERTIES
		if [ -n "$sasl" ]; then
			local users="" u
			for u in ${KAFKA_USERS:-}; do
				users+=" user_${u%%:*}=\"${u#*:}\""
			done
			cat >>"$dir/$id/server.properties" <<-PROPERTIES
				sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
				listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required$users;
				listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
				listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
			PROPERTIES
		fi
		if [ -n "$ssl" ]; then
			cat >>"$dir/$id/server.properties" <<-PROPERTIES
				ssl.keystore.type=PEM
				ssl.keystore.location=$dir/server.pem
			PROPERTIES
			if [ -e "$dir/clients.pem" ]; then
				cat >>"$dir/$id/server.properties" <<-PROPERTIES
					ssl.truststore.type=PEM
					ssl.truststore.location=$dir/clients.pem
					ssl.client.auth=required
				PROPERTIES
			fi
		fi
		local scram=() m
		for u in ${KAFKA_USERS:-}; do
			for m in 256 512; do
				scram+=(--add-scram "SCRAM-SHA-$m=[name=${u%%:*},password=${u#*:}]")
			done
		done
		(java_exec kafka.tools.StorageTool format --cluster-id bm9kZXRyYWlsLXRlc3RzMQ \
			--config "$dir/$id/server.properties" ${scram[@]+"${scram[@]}"}) >"$dir/$id/format.log" 2>&1 ||
			{ grep -v '^[[:space:]]*at ' "$dir/$id/format.log" | tail -n 5 >&2; die "formatting the storage of broker $id failed"; }
	done
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port puts a port into p that is free and not among those it has put there before.
given=,
free_port() {
	while p=$((20000 + RANDOM % 10000)); [[ $given == *,$p,* ]] || taken "$p"; do :; done
	given+=$p,
}

start() {
	local dir=$1 n=${2:-1} groups="" addresses="" id p
	for ((id = 1; id <= n; id++)); do
		free_port
		addresses+=${addresses:+,}127.0.0.1:$p
		groups+=${groups:+,}$p
		free_port
		groups+=:$p::
	done
	prepare "$dir" "$groups"
	for ((id = 1; id <= n; id++)); do
		"${BASH_SOURCE[0]}" run "$dir" "$id" >"$dir/$id/server.log" 2>&1 &
		echo $! >"$dir/$id/pid"
	done
	for ((id = 1; id <= n; id++)); do
		for _ in $(seq 600); do
			! grep -q 'Kafka Server started' "$dir/$id/server.log" || continue 2
			kill -0 "$(cat "$dir/$id/pid")" 2>/dev/null || break
			sleep 0.2
		done
		tail -n 20 "$dir/$id/server.log" >&2
		stop "$dir"
		die "broker $id did not start"
	done
	echo "$addresses"
}

stop() {
	local f pid
	for f in "$1"/*/pid; do
		[ -e "$f" ] || continue
		pid=$(cat "$f")
		# The id may be another process's by now.
		if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "kafka.Kafka $(cd "$1" && pwd)/"; then
			kill "$pid"
			while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
		fi
		rm -f "$f"
	done
}

case ${1:-} in
jars) jars ;;
prepare) [ $# -eq 3 ] || die "prepare DIR PORTS"; prepare "$2" "$3" ;;
run)
	[ $# -eq 3 ] || die "run DIR ID"
	java_exec kafka.Kafka "$(cd "$2" && pwd)/$3/server.properties"
	;;
start) [ $# -ge 2 ] || die "start DIR [N]"; start "$2" "${3:-1}" ;;
stop) [ $# -eq 2 ] || die "stop DIR"; stop "$2" ;;
*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
