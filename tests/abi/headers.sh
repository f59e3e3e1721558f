#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# headers.sh: every public header compiles alone, without a warning, in C11, C++11 and C++17, with each compiler found.
set -u
include=$(cd "$(dirname "$0")/../../api/include" && pwd)
passed=0 failed=0 skipped=0
try() { # language standard compiler header
  if echo "#include <anydnn/$4>" | "$3" -x "$1" -std="$2" -Wall -Wextra -pedantic -Werror -Wconversion -Wshadow \
    -I "$include" -fsyntax-only -; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $3 -std=$2 $4"; fi
}
for header in "$include"/anydnn/*.h; do
  name=$(basename "$header")
  for compiler in gcc clang; do
    if command -v $compiler >/dev/null; then try c c11 $compiler "$name"; else skipped=$((skipped + 1)); fi
  done
  for compiler in g++ clang++; do
    if command -v $compiler >/dev/null && echo '' | $compiler -x c++ -fsyntax-only - 2>/dev/null; then
      try c++ c++11 $compiler "$name"
      try c++ c++17 $compiler "$name"
    else
      skipped=$((skipped + 2))
    fi
  done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
