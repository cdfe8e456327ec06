#!/usr/bin/env bash
# Runs the tests of clients that take long to install, or want other versions than build/venv has:
# check_clients.sh PROGRAM [NAME...]
# Each client has a venv of its own, made where its list (scripts/clients/NAME.txt) is new. Without
# names: all but guidellm and lm_eval_hf, which need torch, 6 GB.
set -euo pipefail
program=$(realpath "$1")
shift
cd "$(dirname "$0")/.."

names=("$@")
((${#names[@]})) || names=(aider cohere instructor litellm llama_index lm_eval)
failed=()
for name in "${names[@]}"; do
  list=scripts/clients/$name.txt
  venv=build/clients/$name
  [[ -e $list ]] || { echo "check_clients: there is no $list" >&2; exit 2; }
  if ! cmp -s "$list" "$venv/installed.txt"; then
    echo "check_clients: installing $name"
    rm -rf "$venv"
    mkdir -p build/clients
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
      --requirement "$list"
    cp "$list" "$venv/installed.txt"
  fi
  echo "check_clients: $name"
  test=(tests/e2e/clients/running.py "$program" "with_$name" snippets)
  case $name in
    # Its scores are compared with a forward pass in numpy, for which a model must be small.
    lm_eval) test=(tests/e2e/clients/lm_eval_tasks.py "$program" models/demo-arith) ;;
    # The same with torch, for a real model.
    lm_eval_hf) test=(tests/e2e/clients/lm_eval_hf.py "$program") ;;
  esac
  "$venv/bin/python" "${test[@]}" || failed+=("$name")
done
if ((${#failed[@]})); then
  echo "check_clients: ${failed[*]} failed" >&2
  exit 1
fi
