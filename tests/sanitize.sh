#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/sanitize.sh [cpu|threads|opencl|cuda|all]...: runs the library under tools that watch memory, threads and kernels
# (default all). A part whose tool or device is not here counts as skipped.
#   cpu      preset asan (address, leak and undefined behaviour sanitizers), built in build/asan: every program in
#            tests/unit and tests/abi, every case file on the CPU, and training for one epoch
#   threads  preset tsan, built in build/tsan: the same, without OpenCL
#   opencl   kernels in the simulator oclgrind (a package of that name) as on a GPU: a training step with bounds, data
#            races and API calls checked, and lines for each engine with uninitialised values checked as well
#   cuda     a training step on cuda:0, and the lines through every engine, in compute-sanitizer: memcheck, racecheck
# opencl and cuda use the build in BUILD (default build), which they bring up to date. SHARD=I/N thins the case files of
# cpu and threads. Reports are kept in build/sanitize. On two cores cpu and threads take some minutes each after their
# build, opencl about ten. The last line is "N passed, N failed, N skipped"; exit code 0: something passed, nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} logs=build/sanitize passed=0 failed=0 skipped=0 simulated=0
shard=(${SHARD:+--shard "$SHARD"})
mkdir -p "$logs"
jobs=$(nproc 2>/dev/null || echo 2)
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)

# Programs report leaks of the OpenCL drivers that they load; what the library holds is counted by its own tests.
printf 'leak:%s\n' libpocl libOpenCL libLLVM libclang libnvidia >"$logs/leaks.txt"
# Tests of running out of memory ask for more than there can be: the allocator must answer NULL as the real one does.
# LLVM, which PoCL loads, changes the signal stack of the thread that lists the devices: address sanitizer must have none.
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:use_sigaltstack=0
export LSAN_OPTIONS=suppressions=$PWD/$logs/leaks.txt:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1
export ANYDNN_CACHE_DIR='' POCL_MEMORY_LIMIT=4

# result NAME CODE LOG: counts and prints; 77 is a skip.
result() {
    case $2 in
    0) passed=$((passed + 1)) && echo "passed   $1" ;;
    77) skipped=$((skipped + 1)) && echo "skipped  $1" ;;
    *) failed=$((failed + 1)) && echo "FAILED   $1 (exit code $2; $3)" && grep -v '^$' "$3" | tail -n 30 | sed 's/^/    /' ;;
    esac
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped  $1: $2"
}
# try NAME COMMAND...: runs it, its output in a log.
try() {
    local name=$1 log="$logs/${1//[ \/]/_}.log"
    shift
    timeout 1800 "$@" >"$log" 2>&1
    result "$name" $? "$log"
}
# compile NAME COMMAND...: as try, but prints only failures.
compile() {
    "${@:2}" >"$logs/$1.log" 2>&1 && return
    result "$1" 1 "$logs/$1.log"
    return 1
}
# host PRESET: what cpu and threads have in common.
host() {
    local folder=build/$1 file
    compile "build_$1" cmake --preset "$1" "${generator[@]}" || return
    compile "build_$1" cmake --build "$folder" -j"$jobs" || return
    for file in tests/unit/*.c tests/abi/*.c; do
        file=${file#tests/} && try "$1 ${file%.c}" "$folder/tests/${file%.c}"
    done
    for file in tests/cases/*.cases; do
        try "$1 $(basename "$file")" "$folder/bin/anydnn" check --device cpu "${shard[@]}" -f "$file"
    done
    # --steps waives the accuracy, which takes more than an epoch.
    try "$1 train" "$folder/bin/anydnn" train --device cpu --epochs 1 --steps 1000000
}

plain() {
    compile build cmake -S . -B "$build" "${generator[@]}" && compile build cmake --build "$build" -j"$jobs" --target anydnn_command
}

# oclgrind preloads itself, but the library opens libOpenCL.so.1 by name: a folder in which oclgrind bears that name
# goes first. simulate NAME BUILD-OPTIONS COMMAND...: oclgrind exits with 0 whatever it finds, so that
# the log must be empty but for clSetKernelArg refusing a size: the library finds out the size of a parameter struct
# by trying (backends/opencl/kernel.c), and a launch that is refused fails by itself. Optimised code calls LLVM's
# llvm.experimental.noalias.scope.decl, which comes from inlining and is unknown to oclgrind.
simulate() {
    local name=$1 options=$2 report="$logs/oclgrind_$((++simulated))" code
    shift 2
    ANYDNN_CACHE_DIR='' LD_LIBRARY_PATH=$simulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 1800 \
        oclgrind --build-options "$options" --local-mem-size 49152 --max-wgsize 256 --data-races --check-api \
        --log "$report.found" "$build/bin/anydnn" "$@" >"$report.log" 2>&1
    code=$?
    awk 'BEGIN { RS = ""; ORS = "\n\n" } !/Function: clSetKernelArg\n.*CL_INVALID_ARG_SIZE/' "$report.found" >"$report.rest"
    [ -s "$report.rest" ] && code=1 && head -n 200 "$report.rest" >>"$report.log"
    result "opencl $name" $code "$report.log"
}

# Small problems that reach each kernel, with one parameter set where an engine has several.
simulated_lines() {
    cat <<'LINES'
conv_forward x=1x3x4x5/f32 w=5x3x3x3/f32 bias=1x5x1x1/f32 pad=1,1 engine=conv_igemm:32x64x16
conv_backward_data dy=1x5x3x3/f32 w=5x3x3x3/f32 dx=1x3x5x5/f32 pad=1,1 stride=2,2 engine=conv_igemm:64x64x16
conv_backward_filter x=2x3x4x5/f32 dy=2x5x4x5/f32 dw=5x3x3x3/f32 pad=1,1 engine=conv_igemm:32x64x16
conv_forward x=2x4x5x5/f16 w=4x2x3x3/f16 groups=2 stride=2,2 engine=conv_direct
conv_forward x=2x4x5x5/f64 w=4x2x3x3/f64 groups=2 bias=1x4x1x1/f64 z=2x4x3x3/f64 activation=relu
conv_forward x=2x5x6x6/u8 w=6x5x3x3/i8 y=2x6x6x6/i8 pad=1,1 scales=1x6x1x1/f32 bias=1x6x1x1/i32 x_zero=3
conv_forward x=2x4x6x6/f32 w=4x1x3x3/f32 groups=4 pad=1,1 z=2x4x6x6/f32 activation=relu engine=conv_depthwise
conv_forward x=2x7x6x6:nhwc/f16 w=5x7x1x1/f16 bias=1x5x1x1/f16 engine=conv_1x1:32x64x16
conv_forward x=2x4x4x5/f32 w=6x2x3x3:s20,10,3,1/f32 bias=1x6x1x1/f32 groups=2 pad=1,1 engine=conv_explicit:32x64x16
conv_backward_data dy=1x5x3x3/f16 w=5x3x3x3/f16 dx=1x3x5x5/f16 pad=1,1 stride=2,2 engine=conv_explicit:32x64x16
conv_backward_filter x=2x3x4x5/f32 dy=2x5x4x5/f32 dw=5x3x3x3:s30,10,3,1/f32 pad=1,1 engine=conv_explicit:32x64x16
conv_backward_bias dy=2x6x7x6/f32
matmul a=37x19/f32 b=19x35/f32 engine=matmul_tile:32x64x16
matmul a=1x133/f32 b=133x35/f32 engine=matmul_vector:16x1
matmul a=133x35/f32 b=35x1/f32 engine=matmul_vector:32x1
pool_forward x=2x3x7x9/f32 mode=max window=3,3 stride=2,2 pad=1,1
pool_backward dy=2x3x4x5/f32 indices=2x3x4x5/i32 dx=2x3x7x9/f32 mode=max window=3,3 stride=2,2 pad=1,1
batchnorm_training x=2x3x3x4/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32 engine=batchnorm:2x16
batchnorm_backward x=2x3x3x4/f32 dy=2x3x3x4/f32 gamma=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32 engine=batchnorm:2x16
softmax_forward x=5x37/f32 mode=softmax engine=softmax:8
softmax_backward y=5x37/f32 dy=5x37/f32 mode=softmax engine=softmax:8
cross_entropy_forward x=9x11/f32 labels=9x1/i32 reduction=mean engine=cross_entropy:1
cross_entropy_backward x=9x11/f32 labels=9x1/i32 reduction=mean engine=cross_entropy:1
reduce x=5x7x9/f32 mode=sum
reduce x=70x7/f32 mode=max axes=0
activation_forward x=3x67/f16 mode=tanh
binary a=5x7x3/f32 b=1x7x1/f32 mode=mul
dropout_forward x=777/f32 ratio=0.25
adam grad=9x13/f32 param=9x13/f32 moment1=9x13/f32 moment2=9x13/f32 lr=0.1
LINES
}

# Uninitialised values are looked for in single operations: oclgrind takes the last write of the host for the whole
# buffer (Uninitialized::hostMemoryStore gives the shadow of a buffer that write's size), so that a buffer that is
# written in parts, as in training, gives false reports behind them. anydnn check writes each memory as one.
# This wants -O0, since "freeze" of optimised code is unknown to that check.
opencl() {
    local library line
    command -v oclgrind >/dev/null || { skip opencl "oclgrind is not here" && return; }
    for library in /usr/lib/oclgrind /usr/lib/*/oclgrind "$(dirname "$(command -v oclgrind)")"/../lib*{,/oclgrind}; do
        [ -f "$library/liboclgrind-rt.so" ] && break
    done
    [ -f "$library/liboclgrind-rt.so" ] || { skip opencl "liboclgrind-rt.so was not found" && return; }
    plain || return
    local simulator=$PWD/$logs/oclgrind
    mkdir -p "$simulator" && ln -sf "$(realpath "$library/liboclgrind-rt.so")" "$simulator/libOpenCL.so.1"
    simulate train -fno-inline train --device opencl:0 --judge --steps 1 --batch 2
    while read -r line; do
        OCLGRIND_UNINITIALIZED=1 simulate "$line" -O0 check --device opencl:0 "$line"
    done < <(simulated_lines)
}

cuda() {
    local tool
    command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin
    command -v compute-sanitizer >/dev/null || { skip cuda "compute-sanitizer is not here" && return; }
    plain || return
    "$build/bin/anydnn" info | grep -q '^cuda:0' || { skip cuda "there is no device cuda:0" && return; }
    for tool in memcheck racecheck; do
        try "cuda $tool" compute-sanitizer --tool $tool --error-exitcode 1 "$build/bin/anydnn" train --device cuda:0 \
            --judge --steps 1 --batch 8
        simulated_lines | sed 's/ engine=.*//' >"$logs/lines.cases"
        grep -h 'align=256' tests/cases/tiles.cases >>"$logs/lines.cases"
        try "cuda $tool lines" compute-sanitizer --tool $tool --error-exitcode 1 "$build/bin/anydnn" check --device cuda:0 \
            -f "$logs/lines.cases"
    done
}

for part in "${@:-all}"; do
    case $part in
    cpu) host asan ;;
    threads) host tsan ;;
    opencl | cuda) $part ;;
    all) host asan; host tsan; opencl; cuda ;;
    *) sed -n '3,15s/^# //p' "$0" && exit 2 ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
