package pipeline

// Alone has the stream judge each request in its turn, none in parallel.
func (s *Stream) Alone() { s.sched.bench.alone = true }
