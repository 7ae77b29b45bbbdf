package main

import (
	"debug/buildinfo"
	"io"
	"maps"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom lists the modules that the binary itself says it is made of, and the Go release, in CycloneDX.
func (r *release) sbom(b binary) error {
	info, err := buildinfo.ReadFile(b.Path)
	if err != nil {
		return err
	}
	purl := func(path, version string) string { return "pkg:golang/" + path + "@" + version }
	main := cdx.Component{BOMRef: purl(info.Main.Path, "v"+r.Version), Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: "v" + r.Version,
		PackageURL: purl(info.Main.Path, "v"+r.Version), Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	components := []cdx.Component{{BOMRef: purl("std", info.GoVersion), Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: purl("std", info.GoVersion)}}
	for _, m := range info.Deps {
		c := cdx.Component{BOMRef: purl(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components = append(components, c)
	}
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.Time.Format("2006-01-02T15:04:05Z07:00"), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return writeFile(r.name(b, ".sbom.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
