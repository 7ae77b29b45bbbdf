package conns

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// from is a connection from an address.
type from struct {
	net.Conn
	address string
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }
func (f *from) Close() error         { f.closed = true; return nil }

type queue struct{ next *from }

func (q *queue) Accept() (net.Conn, error) {
	if q.next == nil {
		return nil, net.ErrClosed
	}
	c := q.next
	q.next = nil
	return c, nil
}
func (q *queue) Close() error   { return nil }
func (q *queue) Addr() net.Addr { return nil }

// However many connections hostile addresses open, those that have proven themselves stay open, each newcomer of another address gets in, and the
// bounds hold.
func TestAttack03HostileConnections(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		most, refused := 16+r.IntN(64), 0
		q := &queue{}
		l := New(q, most, func() { refused++ })
		ctx := func(c net.Conn) context.Context { return l.Context(t.Context(), c) }
		dial := func(address string) (*from, net.Conn) {
			raw := &from{address: address}
			q.next = raw
			c, err := l.Accept()
			if err != nil {
				return raw, nil
			}
			return raw, c
		}
		hostile := 1 + r.IntN(50)
		var trusted []*from
		opened := 0
		for i := range 3000 {
			if i%500 == 250 {
				raw, c := dial(fmt.Sprintf("10.0.0.%d", i/500))
				if c == nil {
					t.Fatalf("seed %d: an API server is turned away", seed)
				}
				for range l.share / 2 { // what comes while it shakes hands
					dial(fmt.Sprintf("198.51.100.%d", r.IntN(hostile)))
				}
				if raw.closed {
					t.Fatalf("seed %d: an API server's connection was closed while it was new", seed)
				}
				Trust(ctx(c))
				trusted = append(trusted, raw)
				continue
			}
			_, c := dial(fmt.Sprintf("198.51.100.%d", r.IntN(hostile)))
			opened++
			if c != nil && r.IntN(5) == 0 {
				_ = c.Close()
				_ = c.Close()
			}
			if l.Open() > most || l.Open() < 0 {
				t.Fatalf("seed %d: %d are open, %d may be", seed, l.Open(), most)
			}
		}
		for _, raw := range trusted {
			if raw.closed {
				t.Fatalf("seed %d: a proven connection was closed", seed)
			}
		}
		if refused == 0 || len(trusted) == 0 {
			t.Errorf("seed %d: %d refused, %d trusted", seed, refused, len(trusted))
		}
	}
}

// A server full of proven connections turns others away, and takes one in when one of them ends.
func TestFullOfProven(t *testing.T) {
	q := &queue{}
	l := New(q, 3, func() {})
	var all []net.Conn
	for i := range 3 {
		q.next = &from{address: fmt.Sprintf("10.0.0.%d", i)}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		Trust(l.Context(t.Context(), c))
		all = append(all, c)
	}
	late := &from{address: "10.0.0.9"}
	q.next = late
	if c, err := l.Accept(); err == nil || !late.closed {
		t.Errorf("%v was taken in", c)
	}
	_ = all[0].Close()
	q.next = &from{address: "10.0.0.9"}
	if _, err := l.Accept(); err != nil || l.Open() != 3 {
		t.Errorf("%v, %d open", err, l.Open())
	}
	Trust(t.Context())
}
