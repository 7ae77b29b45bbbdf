// Package conns bounds the connections of a server, so that nobody without credentials can take the place of those who have them.
//
// What goes in: a listener. What comes out: a [Listener] whose connections are unproven until [Trust] is called for one of their requests. An address has a
// share of the unproven ones, of which the oldest goes first; where the server is full, the oldest unproven connection of the address with the most of
// them makes room, of several such addresses the oldest of all. Proven connections are never closed for others. The package imports nothing of ours.
package conns

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// Listener is a listener with bounds. Its methods are safe for concurrent use.
type Listener struct {
	net.Listener
	most, share int
	refused     func()

	mu       sync.Mutex
	open     int
	number   int64                 // of the latest connection
	unproven map[string]*list.List // by address, the oldest first; no list is empty
}

// conn is a connection of a Listener.
type conn struct {
	net.Conn
	l       *Listener
	address string
	number  int64         // in the order in which they came
	place   *list.Element // among the unproven, nil if it is none
	closed  bool
}

// New returns a listener with at most so many open connections. A quarter of them may be unproven ones of one address. refused is called for each
// connection that was turned away or closed for another one.
func New(l net.Listener, most int, refused func()) *Listener {
	const quarter = 4
	return &Listener{Listener: l, most: most, share: max(1, most/quarter), refused: refused, unproven: map[string]*list.List{}}
}

// Open is how many connections are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, l: l, address: hostOf(accepted.RemoteAddr())}
		victim, ok := l.enter(c)
		if victim != nil {
			l.refused()
			_ = victim.Close() // it has proven nothing, and loses nothing that was promised
		}
		if ok {
			return c, nil
		}
		l.refused()
		_ = accepted.Close() // it was never used
	}
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

func oldest(unproven *list.List) *conn { return unproven.Front().Value.(*conn) }

// enter takes a connection in, and says which one has to go for it.
func (l *Listener) enter(c *conn) (victim *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.unproven[c.address]
	switch {
	case own != nil && own.Len() >= l.share:
		victim = oldest(own)
	case l.open >= l.most:
		var most *list.List
		for _, others := range l.unproven {
			n := others.Len()
			if most == nil || n > most.Len() || n == most.Len() && oldest(others).number < oldest(most).number {
				most = others
			}
		}
		if most == nil {
			return nil, false
		}
		victim = oldest(most)
	}
	if victim != nil {
		l.leave(victim)
	}
	l.open++
	l.number++
	c.number = l.number
	if own = l.unproven[c.address]; own == nil {
		own = list.New()
		l.unproven[c.address] = own
	}
	c.place = own.PushBack(c)
	return victim, true
}

// leave counts a connection as closed; the caller holds mu.
func (l *Listener) leave(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	l.open--
	l.prove(c)
}

// prove takes a connection from the unproven; the caller holds mu.
func (l *Listener) prove(c *conn) {
	if c.place == nil {
		return
	}
	own := l.unproven[c.address]
	own.Remove(c.place)
	if c.place = nil; own.Len() == 0 {
		delete(l.unproven, c.address)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.leave(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

type key struct{}

// Context is for http.Server.ConnContext: it lets Trust find the connection of a request.
func (l *Listener) Context(ctx context.Context, c net.Conn) context.Context {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	return context.WithValue(ctx, key{}, c)
}

// Trust says that the sender of the request with this context has proven who it is. Without a Listener it does nothing.
func Trust(ctx context.Context) {
	c, is := ctx.Value(key{}).(*conn)
	if !is {
		return
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.prove(c)
}
