#!/usr/bin/env bash
# Installs what Dovetail needs. Does nothing where all is there.
#   setup.sh build      the Debian packages to build and run it
#   setup.sh database   also the PostgreSQL server of make run-endpoints
#   setup.sh model      also a real model for make run-chat, under build/venv
#   setup.sh peers      also the runtimes that make bench-peer compares with
#   setup.sh all        also what tests and lint need; Python tools and a real model under build/venv
set -euo pipefail
cd "$(dirname "$0")/.."

lists=(scripts/packages/build.txt)
case ${1:-all} in
  build) ;;
  database) lists+=(scripts/packages/database.txt) ;;
  model) lists+=(scripts/packages/model.txt) ;;
  peers) lists+=(scripts/packages/peers.txt) ;;
  all) lists+=(scripts/packages/database.txt scripts/packages/develop.txt) ;;
  *) echo "setup: '$1' is none of build, database, model, peers, all" >&2; exit 2 ;;
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
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then
    # The package would start a server of its own, now and whenever this machine starts; nobody here needs it.
    no_server=/etc/postgresql-common/createcluster.d/dovetail-setup.conf
    trap '"${as_root[@]}" rm -f "$no_server"' EXIT
    "${as_root[@]}" mkdir -p "${no_server%/*}"
    echo 'create_main_cluster = false' | "${as_root[@]}" tee "$no_server" >/dev/null
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

case ${1:-all} in
  model) scripts/python_env.sh models ;;
  all) scripts/python_env.sh tools models ;;
esac
