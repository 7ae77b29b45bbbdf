#!/usr/bin/env bash
# Installs what the tests of this module run in addition to Go, Java and Maven: Prometheus with promtool, Alertmanager, PostgreSQL, and Chromium with two fonts,
# from Debian's packages; and axe-core, which looks for barriers in pages, from npm's registry at the version and checksum of
# e2e/web/axe/package-lock.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export DEBIAN_FRONTEND=noninteractive
missing=()
command -v prometheus >/dev/null || missing+=(prometheus)
command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
command -v chromium >/dev/null || missing+=(chromium fonts-liberation fonts-dejavu-core)
command -v npm >/dev/null || missing+=(npm)
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
if [ "${#missing[@]}" -gt 0 ]; then
	apt-get update -q
	apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
npm ci --prefix web/axe
