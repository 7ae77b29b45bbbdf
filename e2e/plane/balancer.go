package plane

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// balancer is what stands in front of several API servers: each connection goes to the next one.
type balancer struct {
	mu   sync.Mutex
	to   []backend
	next int
}

type backend struct {
	address string
	server  *Process
}

// newBalancer listens for as long as the process lives.
func newBalancer(address string) (*balancer, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("starting the balancer: %w", err)
	}
	b := &balancer{}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go b.connect(client)
		}
	}()
	return b, nil
}

func (b *balancer) add(address string, server *Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = append(b.to, backend{address, server})
}

func (b *balancer) remove(server *Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = slices.DeleteFunc(b.to, func(x backend) bool { return x.server == server })
}

func (b *balancer) pick() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.to) == 0 {
		return "", errors.New("no API server")
	}
	b.next++
	return b.to[b.next%len(b.to)].address, nil
}

// connect copies until either side ends.
func (b *balancer) connect(client net.Conn) {
	defer client.Close()
	address, err := b.pick()
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	join(client, server)
}
