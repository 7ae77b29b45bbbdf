package plane

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// networkEnv says that OwnNetwork has done its work.
const networkEnv = "NODETRAIL_E2E_NETWORK"

// OwnNetwork starts the program again in a network of its own, that is Linux's network and mount namespaces, and returns there. The network has the
// loopback interface alone, with the given addresses by host name: so nodes can have addresses that are not loopback's, and nothing is left of them when
// the program ends. The network leads nowhere else: what is downloaded has to be there. The program needs to be root, or allowed to make user namespaces.
func OwnNetwork(hosts map[string]string) error {
	if os.Getenv(networkEnv) != "" {
		return nil
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return fmt.Errorf("making a network: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("making a network: %w", err)
	}
	var script strings.Builder
	script.WriteString("set -e; ip link set lo up; f=$(mktemp); echo 127.0.0.1 localhost >$f\n")
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&script, "ip addr add %s/32 dev lo; echo %[1]s %s >>$f\n", hosts[name], name)
	}
	script.WriteString(`mount --bind $f /etc/hosts; rm $f; exec "$0" "$@"`)
	args := []string{"unshare", "--net", "--mount"}
	if os.Geteuid() != 0 {
		args = append(args, "--map-root-user")
	}
	args = append(append(args, "sh", "-c", script.String(), self), os.Args[1:]...)
	if err := syscall.Exec(unshare, args, append(os.Environ(), networkEnv+"=own")); err != nil {
		return fmt.Errorf("making a network: %w", err)
	}
	return nil
}
