package main

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages are for Debian and for Red Hat, and those that follow them.
func (r *release) packages(b binary) error {
	for _, format := range []string{"deb", "rpm"} {
		content := func(source, destination string, mode int64) *files.Content {
			return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: fs.FileMode(mode), MTime: r.Time, Owner: "root", Group: "root"}}
		}
		link := &files.Content{Source: "nodetrail", Destination: "/usr/bin/kubectl-nodetrail", Type: files.TypeSymlink, FileInfo: &files.ContentFileInfo{MTime: r.Time, Owner: "root", Group: "root"}}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "nodetrail", Arch: b.Arch, Platform: "linux", Version: r.Version, MTime: r.Time, Section: "admin", Priority: "optional", License: "Apache-2.0",
			Homepage: "https://github.com/nodetrail/nodetrail", Maintainer: "nodetrail maintainers <https://github.com/nodetrail/nodetrail>", Vendor: "nodetrail",
			Description: "Judge every kubelet request of a Kubernetes audit log as of its own time",
			Overridables: nfpm.Overridables{
				RPM: nfpm.RPM{BuildHost: "nodetrail", Summary: "Kubernetes audit logs and the Node authorizer"},
				Contents: files.Contents{
					content(b.Path, "/usr/bin/nodetrail", 0o755),
					link,
					content(filepath.Join(r.Root, completer), "/usr/bin/kubectl_complete-nodetrail", 0o755),
					content(filepath.Join(r.Root, "LICENSE"), "/usr/share/doc/nodetrail/copyright", 0o644),
				},
			},
		})
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		if err := writeFile(r.name(b, "."+format), func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}
