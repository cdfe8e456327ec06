#!/usr/bin/env bash
# Installs what Dovetail needs. Does nothing where all is there.
#   setup.sh build   the Debian packages to build and run it
#   setup.sh all     also what tests and lint need, and Python tools under build/venv
set -euo pipefail
cd "$(dirname "$0")/.."

lists=(scripts/packages/build.txt)
case ${1:-all} in
  build) ;;
  all) lists+=(scripts/packages/develop.txt) ;;
  *) echo "setup: '$1' is neither build nor all" >&2; exit 2 ;;
esac

mapfile -t packages < <(grep -hv '^#' "${lists[@]}")
missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || missing+=("$package")
done
if ((${#missing[@]})); then
  echo "setup: installing ${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "setup: not root and no sudo; install these packages: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [[ ${1:-all} == all ]]; then
  scripts/python_env.sh
fi
