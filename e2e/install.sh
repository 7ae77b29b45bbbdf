#!/usr/bin/env bash
# Installs what the tests of this module run beside Go: Prometheus with promtool, and Alertmanager, from Debian's packages.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
missing=()
command -v prometheus >/dev/null || missing+=(prometheus)
command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
if [ "${#missing[@]}" -gt 0 ]; then
	apt-get update -q
	apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
