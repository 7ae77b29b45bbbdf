// Package port gives tests TCP ports of the loopback interface for programs that need to know theirs before they start.
//
// It imports no package of nodetrail.
package port

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// Ports are below those that the system gives to clients: a port is free again when what listens there is started anew.
const first, count = 20000, 10000

var (
	mu sync.Mutex
	// claims are UDP sockets with the numbers of the ports that were taken. Open until the process ends, they keep other processes from taking the same.
	claims []net.PacketConn
)

// Take returns a port on which nothing listens, and which no other call returns while this process runs, in this process or another one.
func Take() (int, error) {
	for range 1000 {
		if n := first + rand.IntN(count); claim(n) {
			return n, nil
		}
	}
	return 0, errors.New("no free port between 20000 and 30000")
}

// claim reports whether a port is this process's from now on.
func claim(n int) bool {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n)).String()
	held, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address)
	if err != nil || l.Close() != nil {
		_ = held.Close()
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	claims = append(claims, held)
	return true
}
