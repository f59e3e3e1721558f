#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# example.sh PROGRAM: the example of README.md is api/examples/minimal.c, and prints what it says when it runs on the CPU.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0
check() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $2"; fi; }
diff <(sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '1d;$d') <(sed '1,/\*\//d' "$root/api/examples/minimal.c")
check $? "README.md and api/examples/minimal.c differ"
[ "$("$1" cpu)" = "4 6 4
6 9 6
4 6 4" ]
check $? "what minimal.c prints"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
