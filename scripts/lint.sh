#!/usr/bin/env bash
# Format, order of folders, and clang-tidy over the sources. Prints what is wrong and where; exit code 1 if anything is.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0

mapfile -t files < <(git ls-files '*.h' '*.cpp')
if ! clang-format --dry-run --Werror "${files[@]}"; then
  echo 'lint: run "make format"' >&2
  status=1
fi

python3 tools/lint/include_order.py || status=1
python3 tools/lint/include_order_test.py || status=1
python3 tools/docs/sampler_table.py --check || status=1

cmake --preset lint >/dev/null || status=1
python3 tools/lint/tidy.py build/lint || status=1
exit $status
