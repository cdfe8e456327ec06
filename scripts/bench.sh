#!/usr/bin/env bash
# Measures a build: bench.sh BUILD_FOLDER [MODEL...]. Without models: the bundled one, and random weights of a size that does not fit a cache; 7 GB on the disk.
# Two canaries (kernels_bench: one that computes, one that reads memory) say how fast the machine was meanwhile.
set -euo pipefail
build=$(realpath "${1:?usage: bench.sh BUILD_FOLDER [MODEL...]}")
shift
cd "$(dirname "$0")/.."
models=("$@")
((${#models[@]})) || models=(models/demo-arith models/demo-arith/demo-arith-Q8_0.gguf random:BF16 random:Q8_0)

grep -m1 'model name' /proc/cpuinfo || true
"$build/bench/kernels_bench" --benchmark_min_time=0.1
"$build/bench/schedule_bench"
"$build/bench/frontier_bench"
"$build/bench/grammar_bench"
"$build/bench/run_bench"
"$build/bench/executor_bench"
for model in "${models[@]}"; do
  "$build/bench/engine_bench" "$model"
done
# DeepSeek-V2-Lite's sizes. A mixed step is held to the sum of the two steps that it takes the place of.
latent=build/bench/v2-lite-6.gguf
[ -f "$latent" ] || scripts/random_gguf.py v2-lite "$latent" --layers 6
"$build/dovetail" bench "$latent" --runs 3 --only "prefill 512,decode,mixed 512 + x32 at 128"
# DeepSeek-V4-Flash's attention, a file for each kind of layer: what a token costs behind 4,096 to 65,536 others.
for kind in window 4 128; do
  compressed=build/bench/v4-flash-$kind.gguf
  [ -f "$compressed" ] || scripts/random_gguf.py "v4-flash-$kind" "$compressed"
  "$build/dovetail" bench "$compressed" --runs 3 --repeat-context --depth 4096,16384,65536 \
    --only "decode x1 at 4096,decode x1 at 16384,decode x1 at 65536"
done
scripts/bench_server.py "$build/dovetail"
