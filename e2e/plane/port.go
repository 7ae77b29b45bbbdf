package plane

import (
	"fmt"

	"github.com/nodetrail/nodetrail/internal/test/port"
)

// FreeAddress is one of the loopback interface on which nothing listens, and which no other caller gets while this process runs.
func FreeAddress() (string, error) {
	n, err := port.Take()
	if err != nil {
		return "", fmt.Errorf("an address: %w", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", n), nil
}
