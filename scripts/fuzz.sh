#!/usr/bin/env bash
# Builds the fuzz targets with the asan preset and runs each for a while, from its seeds: fuzz.sh [SECONDS [TARGET...]]. Ends with an
# error where one of them crashes, hangs or takes too much memory; the input that did it is kept under build/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: '$seconds' is no number of seconds, expected 1 or more" >&2; exit 2; }
programs=build/asan/tests/fuzz
work=build/fuzz

test -f build/asan/build.ninja || cmake --preset asan >/dev/null
known=$(find tests/fuzz -name 'fuzz_*.cpp' ! -name fuzz_seeds.cpp -printf '%f\n' | sed 's/\.cpp$//' | sort)
targets=("${@:2}")
((${#targets[@]})) || mapfile -t targets <<<"$known"
for target in "${targets[@]}"; do
  grep -qxF "$target" <<<"$known" || { echo "fuzz: '$target' is none of" $known >&2; exit 2; }
done
cmake --build build/asan -j "${JOBS:-$(nproc)}" --target fuzz_seeds "${targets[@]}"

"$programs/fuzz_seeds" "$work/seeds"
mkdir -p "$work/found"
# Runs one target, at most as many at a time as there are cores, and says what came of it.
run_target() {
  local target=$1 what=${1#fuzz_}
  # What an earlier run found worth keeping is where the next one begins.
  mkdir -p "$work/corpus/$what" "$work/seeds/$what"
  if "$programs/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$work/found/$what-" \
      "$work/corpus/$what" "$work/seeds/$what" >"$work/$what.log" 2>&1; then
    echo "$target: $(grep '^Done ' "$work/$what.log" || tail -1 "$work/$what.log")"
  else
    tail -60 "$work/$what.log" >&2
    echo "$target: failed; once more: $programs/$target INPUT, with the input named above" >&2
    return 1
  fi
}
export -f run_target
export programs work seconds
if ! printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-$(nproc)}" -I {} bash -c 'run_target {}'; then
  echo "fuzz: failed; see above" >&2
  exit 1
fi
