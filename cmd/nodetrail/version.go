package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// version is set by the linker for releases.
var version = ""

func newVersion(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the Kubernetes versions whose authorizer it knows",
		Args:  cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(std.out, versionText())
			return err
		},
	}
}

// versionText is what the command and the flag print.
func versionText() string {
	return fmt.Sprintf("nodetrail %s\n%s, %s/%s\nKubernetes 1.%d to 1.%d\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		nodeauthz.OldestMinor, nodeauthz.NewestMinor)
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v") // releases are named without it
	}
	return "development"
}
