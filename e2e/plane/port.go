package plane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddress is one of the loopback interface that nobody listens on, below the ports that the system gives to clients: so it is free again when
// what listens there is started anew.
func FreeAddress() (string, error) {
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err == nil {
			return address, nil
		}
	}
	return "", errors.New("no free port between 20000 and 30000")
}
