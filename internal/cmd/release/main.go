// Command release makes all files of a release from the sources: archives, packages, SBOMs, an OCI image layout, the krew manifest and checksums.
// The same sources and version give the same bytes, wherever and whenever they are built.
//
//	go run -C internal/cmd/release . -version 1.2.3 -out ../../../dist
//
// It is a module of its own because of the libraries that write packages.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	r := release{Log: os.Stderr}
	var platforms string
	var epoch int64
	flag.StringVar(&r.Root, "root", "../../..", "the `folder` of the sources")
	flag.StringVar(&r.Out, "out", "../../../dist", "the `folder` to write to; it must not have files yet")
	flag.StringVar(&r.Version, "version", "", "the version, such as 1.2.3, without v")
	flag.StringVar(&platforms, "platforms", strings.Join(allPlatforms, ","), "what to build, as `OS/ARCH`, with commas between")
	flag.Int64Var(&epoch, "epoch", 0, "the time of all files, in `seconds` since 1970: that of the commit")
	flag.Parse()
	r.Platforms, r.Time = strings.Split(platforms, ","), time.Unix(epoch, 0).UTC()
	if err := r.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}
