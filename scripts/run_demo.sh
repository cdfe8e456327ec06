#!/usr/bin/env bash
# Solves examples/arithmetic.jsonl with a model and says how fast and how well: run_demo.sh BINARY MODEL
set -euo pipefail
if (($# != 2)); then
  echo "usage: $0 BINARY MODEL" >&2
  exit 2
fi
binary=$(realpath "$1")
model=$(realpath "$2")
cd "$(dirname "$0")/.."
answers=build/arithmetic-answers.jsonl
mkdir -p build

echo "Solving the $(grep -c . examples/arithmetic.jsonl) sums of examples/arithmetic.jsonl, 64 at a time:"
"$binary" run "$model" --input examples/arithmetic.jsonl --max-num-seqs 64 --output "$answers"
echo "The first answers, all are in $answers:"
head -n 3 "$answers"
