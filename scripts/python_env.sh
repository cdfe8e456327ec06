#!/usr/bin/env bash
# Makes build/venv, where the tests find the official OpenAI client and make lint finds clang-tidy. Does nothing where it is there and up to date; the tests themselves are offline.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=scripts/python_requirements.txt
have=build/venv/requirements.txt
if [[ -x build/venv/bin/python ]] && cmp -s "$wanted" "$have"; then
  exit 0
fi
echo "setup: installing the Python packages of the tests"
mkdir -p build
rm -rf build/venv
python3 -m venv build/venv
build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --requirement "$wanted"
cp "$wanted" "$have"
