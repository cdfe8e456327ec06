#!/usr/bin/env bash
# Talks with a model, the real one of the tests unless another is named: run_chat.sh BINARY [MODEL]
set -euo pipefail
if (($# < 1 || $# > 2)); then
  echo "usage: $0 BINARY [MODEL]" >&2
  exit 2
fi
binary=$(realpath "$1")
model=${2:-$("${0%/*}/real_model.py")}
"$binary" chat "$model" || {
  status=$?
  # Ctrl-C ends a talk as well as /quit does.
  ((status == 130)) || exit "$status"
  echo
}
