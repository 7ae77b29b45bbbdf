package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// usage is what has been used so far, over all starts of a process.
func (s *stack) usage(t *testing.T, from source) map[string]result.Usage {
	t.Helper()
	all := map[string]result.Usage{"PostgreSQL": postgresUsage(t, s.dir)}
	for name, processes := range map[string][]*plane.Process{
		"Kafka": s.brokers.started, "gateway": s.started["gateway"], "analyzer": append(s.started["analyzer-1"], s.started["analyzer-2"]...),
		"Prometheus": {s.others[0]}, "Alertmanager": {s.alerts.Process},
	} {
		u := result.Usage{Processes: 1}
		switch name {
		case "Kafka":
			u.Processes = copies
		case "analyzer":
			u.Processes = len(s.analyzers)
		}
		for _, p := range processes {
			cpu, peak := p.Used()
			u.CPU, u.Peak = u.CPU+cpu, max(u.Peak, peak)
		}
		all[name] = u
	}
	for name, p := range from.processes() {
		cpu, peak := p.Used()
		all[name] = result.Usage{Processes: 1, CPU: cpu, Peak: peak}
	}
	return all
}

// postgresUsage reads /proc, as the server's processes are not ours: it has one for each connection. The memory is that of now, what they share counted
// once.
func postgresUsage(t *testing.T, dir string) result.Usage {
	t.Helper()
	u := result.Usage{Processes: 1}
	found := plane.Must(filepath.Glob(filepath.Join(dir, "pgtest*", "data", "postmaster.pid")))(t)
	if len(found) != 1 {
		t.Fatalf("%d servers of PostgreSQL", len(found))
	}
	first, _, _ := strings.Cut(string(plane.Must(os.ReadFile(found[0]))(t)), "\n")
	server := plane.Must(strconv.Atoi(first))(t)
	for _, path := range plane.Must(filepath.Glob("/proc/[0-9]*"))(t) {
		pid := plane.Must(strconv.Atoi(filepath.Base(path)))(t)
		b, err := os.ReadFile(filepath.Join(path, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything. Behind it are the fields from the third on: the parent is the 4th, times are from the 14th on.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) < 15 || pid != server && f[1] != strconv.Itoa(server) {
			continue
		}
		times := f[11:13]
		if pid == server {
			times = f[11:15] // and of those of its children that have ended
		}
		for _, ticks := range times {
			u.CPU += time.Duration(plane.Must(strconv.ParseInt(ticks, 10, 64))(t)) * 10 * time.Millisecond
		}
		rollup, err := os.ReadFile(filepath.Join(path, "smaps_rollup"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(rollup)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				u.Peak += plane.Must(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(t) << 10
			}
		}
	}
	return u
}
