#!/usr/bin/env bash
# Makes the dataset of examples/arithmetic/pipeline.yaml and says how good it is: run_demo.sh BINARY
set -euo pipefail
if (($# != 1)); then
  echo "usage: $0 BINARY" >&2
  exit 2
fi
binary=$(realpath "$1")
cd "$(dirname "$0")/.."
out=build/arithmetic

echo "Sums that a model answers and a model judges, by examples/arithmetic/pipeline.yaml:"
rm -rf "$out"
"$binary" pipeline run examples/arithmetic/pipeline.yaml --output "$out"
echo "The first records, all are in $out/results.jsonl:"
head -n 3 "$out/results.jsonl"
echo "Open $out/report.html in a browser."
