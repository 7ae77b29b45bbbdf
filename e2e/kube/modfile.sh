#!/usr/bin/env bash
# Writes the module file, with its checksums, of a version of Kubernetes: go.mod for the newest minor, and for an older one such as 1.36.4 go.1.36.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
version=${1:?a version of Kubernetes such as 1.37.1} file=go.${1%.*}.mod tag=k8s${1%.*}
newest=$(sed -nE 's/^\tk8s.io\/kubernetes v(1\.[0-9]+)\..*/\1/p' go.mod)
if [ "$(printf '%s\n' "$newest" "${version%.*}" | sort -V | tail -1)" = "${version%.*}" ]; then
	file=go.mod tag=
fi
upstream=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -nE 's/.*"GoMod": "(.*)".*/\1/p')
{
	sed -n '1,/^)/p' go.mod
	printf 'require k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
	# Kubernetes' own modules are folders in its repository, and modules of their own for others.
	sed -nE "s,^\t(k8s.io/[a-z0-9-]+) => \./staging/.*,\t\1 => \1 v0.${version#1.},p" "$upstream"
	printf ')\n'
} >"$file.new"
mv "$file.new" "$file"
: >"${file%.mod}.sum"
GOWORK=off CGO_ENABLED=0 GOFLAGS=-mod=mod go list -modfile="$file" -tags="${tag/./_}" -deps -f '{{with .Error}}{{.}}{{end}}' \
	k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler} ./hollow
