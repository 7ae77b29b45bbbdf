package plane

import (
	"fmt"
	"io"
	"net"
)

// Forward listens on the loopback interface and hands each connection on to the API server, to which it comes from the given address of this machine:
// programs that choose none have one of their own so. It returns where it listens, and lasts as long as the process.
func (p *Plane) Forward(from string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("forwarding from %s: %w", from, err)
	}
	dialer := dialerFrom(from)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				if server, err := dialer.Dial("tcp", p.Address); err == nil {
					join(client, server)
				}
			}()
		}
	}()
	return l.Addr().String(), nil
}

// dialerFrom makes connections from an address; from any if it is empty.
func dialerFrom(address string) *net.Dialer {
	d := &net.Dialer{}
	if ip := net.ParseIP(address); ip != nil {
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	return d
}

// join copies between two connections until either ends, and closes the second.
func join(client, server net.Conn) {
	defer server.Close()
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // that a connection ended is all there is to know
			ended <- struct{}{}
		}()
	}
	<-ended
}
