#!/usr/bin/env bash
# Runs tests/e2e/clients: programs of others against the server, in an environment of their own, build/clients, which is
# made anew where the list of packages has changed.
#   check_clients.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/clients
list=tests/e2e/clients/requirements.txt
if ! cmp -s "$list" "$venv/requirements.txt"; then
  echo "check-clients: installing $(grep -hv '^#' "$list" | tr '\n' ' ')"
  rm -rf "$venv"
  mkdir -p build
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --requirement "$list"
  cp "$list" "$venv/requirements.txt"
fi
for test in tests/e2e/clients/*.py; do
  "$venv/bin/python" "$test" "$1" models/demo-arith
done
