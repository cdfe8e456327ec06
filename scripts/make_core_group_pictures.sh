#!/usr/bin/env bash
# Makes the pictures of docs/core-groups.md: make_core_group_pictures.sh [PROGRAM]
# Those of played graphs are the same each time; that of a model is of a real run.
set -euo pipefail
program=$(realpath "${1:-$(dirname "$0")/../build/release/dovetail}")
cd "$(dirname "$0")/.."
images=docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$images"

for policy in strict per-core; do
  "$program" cores --topology '1x(1C2V)' --graph examples/core_groups/admission.yaml --policy "$policy" \
    --svg "$images/core-groups-$policy.svg" >/dev/null
done
python3 examples/core_groups/moe_layer.py 7 12 >"$work/moe_layer.yaml"
"$program" cores --topology '6x(1C2V)' --graph "$work/moe_layer.yaml" --svg "$images/core-groups-moe.svg" >/dev/null

# A real step of the bundled model: some sixty sums are read at once, two hundred times over. The first steps are cold, and
# others are held up by whatever else the machine does: the fastest one is drawn.
for i in $(seq 12000); do printf '{"prompt": "%d+%d="}\n' $((i * 7919 % 1000)) $((i * 104729 % 1000)); done >"$work/sums.jsonl"
"$program" run models/demo-arith --input "$work/sums.jsonl" --output "$work/out.jsonl" --threads 2 --max-num-seqs 64 \
  --max-tokens 1 --trace "$work/run.json" 2>/dev/null
scripts/lanes_svg.py "$work/run.json" --step fastest --title "The bundled model on two lanes" \
  --output "$images/core-groups-model.svg"
