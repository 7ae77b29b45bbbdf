package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user runs the program in the image: it is nobody else's.
const user = 65532

// image writes an OCI image layout with an index of an image for each binary, as one tar file: skopeo, crane, podman and containerd read it.
func (r *release) image(binaries []binary) error {
	blobs := map[string][]byte{}
	add := func(mediaType string, data []byte) v1.Descriptor {
		d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		blobs["blobs/sha256/"+d.Digest.Encoded()] = data
		return d
	}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: r.annotations()}
	for _, b := range binaries {
		platform := v1.Platform{OS: b.OS, Architecture: b.Arch}
		layer, plain, err := r.layer(b)
		if err != nil {
			return err
		}
		config, err := json.Marshal(v1.Image{
			Created: &r.Time, Platform: platform,
			Config: v1.ImageConfig{
				User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{"/nodetrail"}, WorkingDir: "/", Labels: r.annotations(),
				Env: []string{"PATH=/"}, Volumes: map[string]struct{}{"/var/lib/nodetrail": {}},
			},
			RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{plain}},
			History: []v1.History{{Created: &r.Time, CreatedBy: "internal/cmd/release"}},
		})
		if err != nil {
			return err
		}
		manifest, err := json.Marshal(v1.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
			Config: add(v1.MediaTypeImageConfig, config), Layers: []v1.Descriptor{add(v1.MediaTypeImageLayerGzip, layer)}, Annotations: r.annotations(),
		})
		if err != nil {
			return err
		}
		d := add(v1.MediaTypeImageManifest, manifest)
		d.Platform = &platform
		index.Manifests = append(index.Manifests, d)
	}
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	// The layout's own index names the image's index, so that one digest is that of the image for all platforms.
	top := add(v1.MediaTypeImageIndex, text)
	top.Annotations = map[string]string{v1.AnnotationRefName: r.Version}
	layout, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{top}})
	if err != nil {
		return err
	}
	files := []file{
		{name: v1.ImageLayoutFile, mode: 0o644, data: []byte(`{"imageLayoutVersion":"` + v1.ImageLayoutVersion + `"}`)},
		{name: v1.ImageIndexFile, mode: 0o644, data: layout},
		{name: "blobs", mode: 0o755, dir: true}, {name: "blobs/sha256", mode: 0o755, dir: true},
	}
	for _, name := range sorted(blobs) {
		files = append(files, file{name: name, mode: 0o644, data: blobs[name]})
	}
	return writeFile(filepath.Join(r.Out, "nodetrail_"+r.Version+"_image.tar"), func(w io.Writer) error { return writeTar(w, files, r.Time) })
}

func (r *release) annotations() map[string]string {
	return map[string]string{
		v1.AnnotationTitle: "nodetrail", v1.AnnotationVersion: r.Version, v1.AnnotationLicenses: "Apache-2.0", v1.AnnotationSource: "https://github.com/nodetrail/nodetrail",
	}
}

// layer is the only one: the program, certificate authorities, a user, and the folders that it writes to. It returns the digest of the plain tar, too.
func (r *release) layer(b binary) ([]byte, digest.Digest, error) {
	program, err := os.ReadFile(b.Path)
	if err != nil {
		return nil, "", err
	}
	license, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return nil, "", err
	}
	files := []file{
		{name: "etc", mode: 0o755, dir: true},
		{name: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnodetrail:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nnodetrail:x:65532:65532:nodetrail:/var/lib/nodetrail:/sbin/nologin\n")},
		{name: "etc/ssl", mode: 0o755, dir: true}, {name: "etc/ssl/certs", mode: 0o755, dir: true},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities()},
		{name: "LICENSE", mode: 0o644, data: license},
		{name: "nodetrail", mode: 0o755, data: program},
		{name: "tmp", mode: 0o1777, dir: true},
		{name: "var", mode: 0o755, dir: true}, {name: "var/lib", mode: 0o755, dir: true},
		{name: "var/lib/nodetrail", mode: 0o755, dir: true, user: user},
		{name: "var/lib/play", mode: 0o755, dir: true, user: user},
	}
	var plain, layer bytes.Buffer
	if err := writeTar(&plain, files, r.Time); err != nil {
		return nil, "", err
	}
	if err := writeTarGz(&layer, files, r.Time); err != nil {
		return nil, "", err
	}
	return layer.Bytes(), digest.NewDigestFromBytes(digest.SHA256, sum(plain.Bytes())), nil
}

func sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}

// authorities are those that Mozilla trusts without conditions: a file of certificates cannot say conditions.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}
