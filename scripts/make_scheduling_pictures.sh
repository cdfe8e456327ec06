#!/usr/bin/env bash
# Makes the pictures of docs/scheduling.md from traces of simulated runs: make_scheduling_pictures.sh [PROGRAM]
# The same program gives the same pictures.
set -euo pipefail
program=$(realpath "${1:-$(dirname "$0")/../build/release/dovetail}")
cd "$(dirname "$0")/.."
images=docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$images"

# picture NAME REQUESTS "OPTIONS OF SIMULATE" OPTIONS OF THE PICTURE...
picture() {
  local name=$1 requests=$2 options=$3
  shift 3
  # shellcheck disable=SC2086  # several words
  "$program" simulate --requests-file "$requests" --trace "$work/$name.json" $options >"$work/$name.txt"
  scripts/timeline_svg.py "$work/$name.json" --output "$images/scheduling-$name.svg" "$@"
}

cat >"$work/long-prompt.csv" <<'END'
arrival,prompt_tokens,output_tokens
0,64,50
0,96,50
0.01,64,40
0.08,1152,8
END
names=(--name "0=A" --name "1=B" --name "2=C" --name "3=D (1,152 tokens)")
picture no-mixed "$work/long-prompt.csv" --no-mixed --to-ms 450 "${names[@]}" \
  --title "A long prompt, --no-mixed: answers stand still while it is read"
picture mixed "$work/long-prompt.csv" "" --to-ms 450 "${names[@]}" \
  --title "The same requests with mixed steps: every answer grows in every step"

# 13 blocks of 16 positions; each of the first three grows to 7 blocks.
cat >"$work/small-pool.csv" <<'END'
arrival,prompt_tokens,output_tokens
0,48,64
0,48,64
0,48,64
0.15,48,24
END
picture preemption "$work/small-pool.csv" "--kv-blocks 13 --max-model-len 128" \
  --name "0=A" --name "1=B" --name "2=C" --name "3=D" \
  --title "A small cache: the youngest gives way and returns to its old place, before D"
