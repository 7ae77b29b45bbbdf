// Package port gives tests TCP ports of the loopback interface for programs that need to know theirs before they start.
//
// It imports no package of nodetrail.
package port

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// Ports are below those that the system gives to clients: a port is free again when what listens there is started anew.
const first, count = 20000, 10000

// Take returns a port on which nothing listens, and which no other call returns while this process runs, in this process or another one.
func Take() (int, error) {
	for range 1000 {
		if n := first + rand.IntN(count); claim(n) {
			return n, nil
		}
	}
	return 0, errors.New("no free port between 20000 and 30000")
}

// For is [Take] for a test, which ends if there is none.
func For(tb testing.TB) int {
	tb.Helper()
	n, err := Take()
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// claim reports whether a port is this process's from now on. A UDP socket with the number of the port keeps others from taking it.
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
	go keep(held)
	return true
}

// keep keeps a socket open until the process ends. Nobody sends anything to it.
func keep(held net.PacketConn) {
	for {
		if _, _, err := held.ReadFrom(make([]byte, 1)); err != nil {
			return
		}
	}
}
