#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh [--device D] [--shard I/N] [--full] [-- CMAKE-OPTIONS]: builds to build/ and runs every test: unit tests,
# ABI tests and the case files on each kind of device (D: cpu, opencl, cuda or all; default all).
#   --shard I/N   only every N-th test, beginning with the I-th
#   --full        also the lines marked !full in tests/cases, and without --shard tests/sanitize.sh
# The last line is "N passed, N failed, N skipped", summed over all programs. A test without a line of that form counts
# as one, and so does a device that is not here (skipped). Exit code: 0 only if something passed and nothing failed.
# The whole output: build/tests.log. BUILD names another build folder.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} device=all shard= full=OFF options=()
while [ $# -gt 0 ]; do
    case $1 in
    --device) device=${2:?} && shift ;;
    --shard) shard=${2:?} && shift ;;
    --full) full=ON ;;
    --) shift && options=("$@") && break ;;
    *) sed -n '3,9s/^# //p' "$0" && exit 2 ;;
    esac
    shift
done
case $device in cpu | opencl | cuda) labels="^(unit|abi|$device)$" ;; all) labels=. ;; *)
    echo "--device wants cpu, opencl, cuda or all, not $device" && exit 2 ;;
esac
[[ -z $shard || $shard =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || { echo "--shard wants I/N, not $shard" && exit 2; }
stride=()
[ -z "$shard" ] || stride=(-I "${BASH_REMATCH[1]},,${BASH_REMATCH[2]}")

# shellcheck source=tests/setup.sh
. tests/setup.sh || echo "Going on with what is here."
for path in "${CUDA_HOME:-}/bin" /usr/local/cuda/bin /opt/cuda/bin; do
    command -v nvcc >/dev/null || { [ -x "$path/nvcc" ] && PATH=$PATH:$path; }
done
command -v nvcc >/dev/null || echo "nvcc is not here: the build has no CUDA backend."

jobs=$(nproc 2>/dev/null || echo 2)
generator=()
command -v ninja >/dev/null && [ ! -f "$build/Makefile" ] && generator=(-G Ninja)
mkdir -p "$build"
if ! { cmake -S . -B "$build" "${generator[@]}" -DANYDNN_TESTS_FULL=$full "${options[@]}" &&
    cmake --build "$build" -j"$jobs"; } >"$build/build.log" 2>&1; then
    tail -n 60 "$build/build.log"
    echo "The build failed; the whole output: $build/build.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
grep -h '^-- anydnn:' "$build/build.log"
"$build/bin/anydnn" info

ctest --test-dir "$build" -V -L "$labels" "${stride[@]}" -j"$((jobs > 4 ? 4 : jobs))" 2>&1 | tee "$build/tests.log" |
    grep --line-buffered -E 'Test +#[0-9]+:|FAILED|failed:|tolerance|no device'

if [ $full = ON ] && [ -z "$shard" ]; then
    parts=("$device")
    [ "$device" != cpu ] || parts=(cpu threads)
    BUILD=$build tests/sanitize.sh "${parts[@]}" 2>&1 | tee -a "$build/tests.log"
fi

awk '
/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5 }
/^[0-9]+: [0-9]+ passed, [0-9]+ failed/ { id = $1 + 0; passed[id] = $2; failed[id] = $4; skipped[id] = $6 + 0 }
/ Test +#[0-9]+: .*( sec|Not Run)/ {
    id = $0; sub(/^.* Test +#/, "", id); id += 0
    if (/Skipped/) s++
    else if (/Passed/) { p += id in passed ? passed[id] : 1; s += skipped[id] }
    else { p += passed[id]; f += failed[id] > 0 ? failed[id] : 1; s += skipped[id] }
}
END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || p == 0 }' "$build/tests.log"
