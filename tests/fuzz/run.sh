#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/run.sh [SECONDS]: runs each libFuzzer target of this folder for SECONDS (default 60) under the address and
# undefined behaviour sanitizers. It needs clang with libFuzzer (Debian and Ubuntu: clang and libclang-rt-N-dev). What a
# target finds is kept in build/fuzz (BUILD names another folder), as is its corpus, which later runs go on from; the
# first begins with the lines of tests/cases. The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-60} build=${BUILD:-build/fuzz} passed=0 failed=0 skipped=0
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { sed -n '3,6s/^# //p' "$0" && exit 2; }
mkdir -p "$build"
flags=(-std=c11 -O1 -g -D_GNU_SOURCE -Iapi/include -I. -fsanitize=fuzzer,address,undefined
    -fno-sanitize-recover=all)

# Each target is linked with the part of the library that it needs.
sources_text=(api/problem.c common/{os,status,tensor,text,problem}.c common/ops/*.c)
sources_opencl_cache=(backends/opencl/cache.c common/{os,status}.c)
sources_tuning=(common/{tune,select,run,os,status,tensor,text,problem}.c common/ops/*.c)

seed_text() { cat tests/cases/*.cases | sed 's/^\(![a-z:]* \)*//' | grep '^[a-z]' | split -l 1 -a 5 - "$1/line."; }
seed_tuning() {
    printf '# comment\n%s | %s\n' "matmul_tile:64x64 1 8123 opencl:pocl" "matmul a=8x8/f32 b=8x8/f32" >"$1/entry"
}
seed_opencl_cache() { printf 'ADNCLBIN\1\0\0\0' >"$1/magic"; }

words() {
    local word
    grep -hoE '[a-z0-9_]+=|^[a-z_]+ |:nhwc|:s|/[a-z]+[0-9]+|device:|&[a-z0-9_]+|=[a-z_]+' tests/cases/*.cases | sort -u |
        while IFS= read -r word; do echo "\"$word\""; done
}

fuzz() {
    local name=$1 corpus=$build/$1.corpus
    local -n sources=sources_$name
    if ! clang "${flags[@]}" "tests/fuzz/fuzz_$name.c" "${sources[@]}" -o "$build/fuzz_$name" -lm; then
        echo "fuzz_$name: does not build" && failed=$((failed + 1))
        return
    fi
    [ -d "$corpus" ] || { mkdir -p "$corpus" && "seed_$name" "$corpus"; }
    if "$build/fuzz_$name" -max_total_time="$seconds" -max_len=4200 -timeout=10 -dict="$build/words" -print_final_stats=1 \
        -artifact_prefix="$build/fuzz_$name." "$corpus" >"$build/fuzz_$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "fuzz_$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz_$name.log") runs"
    else
        failed=$((failed + 1))
        echo "FAILED: fuzz_$name (whole output: $build/fuzz_$name.log)"
        grep -vE '^#[0-9]+|^NEW_FUNC|^INFO' "$build/fuzz_$name.log" | head -n 40
    fi
}

targets=(tests/fuzz/fuzz_*.c)
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 1 ? 0 : 0; }' >"$build/probe.c"
if ! clang "${flags[@]}" "$build/probe.c" -o "$build/probe" 2>"$build/probe.log"; then
    echo "clang with libFuzzer is not here (Debian and Ubuntu: clang and libclang-rt-14-dev, or of clang's version):"
    head -n 3 "$build/probe.log"
    echo "0 passed, 0 failed, ${#targets[@]} skipped"
    exit 77
fi
words >"$build/words"
for target in "${targets[@]}"; do
    name=${target##*/fuzz_}
    fuzz "${name%.c}"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
