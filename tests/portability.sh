#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/portability.sh [pocl|small|rusticl|all]...: a line of every operation on OpenCL drivers that are unlike each
# other (default all). What is not here counts as skipped.
#   pocl     the CPU driver PoCL with each way of making loops of work-groups that the installed one has
#   small    the simulator oclgrind as a device of 32 KiB of local memory, and of 8 KiB: what engines do not refuse must run
#   rusticl  Mesa's driver on its software device llvmpipe: the library in RUSTICL, else the one that rusticl.icd names
#            (package mesa-opencl-icd). Its OCL_ICD_VENDORS is set here, so it need not be among the system's drivers
# The build is the one in BUILD (default build), which is brought up to date. Logs are kept in build/portability. On two
# cores: pocl and small about four minutes each, rusticl two. The last line is "N passed, N failed, N skipped"; exit code
# 0: something passed, nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build} passed=0 failed=0 skipped=0
logs=$PWD/build/portability
mkdir -p "$logs"
export ANYDNN_CACHE_DIR='' POCL_MEMORY_LIMIT=4 POCL_WORK_GROUP_SPECIALIZATION=0

# result NAME CODE LOG: counts and prints; 77 is a skip.
result() {
    case $2 in
    0) passed=$((passed + 1)) && echo "passed   $1: $(tail -n 1 "$3")" ;;
    77) skipped=$((skipped + 1)) && echo "skipped  $1: $(tail -n 1 "$3")" ;;
    *) failed=$((failed + 1)) && echo "FAILED   $1 (exit code $2; $3)" && grep -v '^$' "$3" | tail -n 30 | sed 's/^/    /' ;;
    esac
}
skip() {
    skipped=$((skipped + 1))
    echo "skipped  $1: $2"
}
# try NAME COMMAND...: runs it, its output in a log.
try() {
    local name=$1 log
    log="$logs/$(echo "$1" | tr -c 'a-z0-9_=.\n' _ | cut -c1-100).log"
    shift
    timeout 1200 "$@" >"$log" 2>&1 </dev/null
    result "$name" $? "$log"
}

lines() {
    cat <<'LINES'
conv_forward x=2x3x9x8/f32 w=5x3x3x3/f32 bias=1x5x1x1/f32 pad=1,1
conv_forward x=2x4x9x8/f16 w=4x2x3x3/f16 groups=2 stride=2,2
conv_forward x=1x4x9x8/f32 w=4x1x3x3/f32 groups=4 pad=1,1
conv_backward_data dy=1x5x3x3/f32 w=5x3x3x3/f32 dx=1x3x5x5/f32 pad=1,1 stride=2,2
conv_backward_filter x=2x3x5x5/f32 dy=2x5x5x5/f32 dw=5x3x3x3/f32 pad=1,1
conv_backward_bias dy=2x6x7x6/f32
matmul a=37x19/f32 b=19x35/f32
matmul a=1x133/f32 b=133x35/f32
matmul a=33x40/bf16 b=40x24/bf16
pool_forward x=2x3x7x9/f32 mode=max window=3,3 stride=2,2 pad=1,1
pool_backward dy=2x3x4x5/f32 indices=2x3x4x5/i32 dx=2x3x7x9/f32 mode=max window=3,3 stride=2,2 pad=1,1
batchnorm_training x=2x3x3x4/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32
batchnorm_backward x=2x3x3x4/f32 dy=2x3x3x4/f32 gamma=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32
softmax_forward x=5x37/f32 mode=softmax
softmax_backward y=5x37/f32 dy=5x37/f32 mode=softmax
cross_entropy_forward x=9x11/f32 labels=9x1/i32 reduction=mean
cross_entropy_backward x=9x11/f32 labels=9x1/i32 reduction=mean
reduce x=5x7x9/f32 mode=sum
reduce x=70x7/f32 mode=max axes=0
activation_forward x=3x67/f16 mode=tanh
binary a=5x7x3/f32 b=1x7x1/f32 mode=mul
copy x=5x67/f32 y=5x67/f16
dropout_forward x=777/f32 ratio=0.25
adam grad=9x13/f32 param=9x13/f32 moment1=9x13/f32 moment2=9x13/f32 lr=0.1
LINES
}

bring_up() {
    local generator=()
    command -v ninja >/dev/null && [ ! -f "$build/Makefile" ] && generator=(-G Ninja)
    { cmake -S . -B "$build" "${generator[@]}" && cmake --build "$build" -j"$(nproc)" --target anydnn_command; } \
        >"$logs/build.log" 2>&1 && return
    result build 1 "$logs/build.log"
    return 1
}

# Methods are words of the library; each has a cache of its own. workitemloops is called loops in later versions.
pocl() {
    local library method icd=(/etc/OpenCL/vendors/*pocl*.icd)
    [ -f "${icd[0]}" ] || { skip pocl "PoCL is not here" && return; }
    library=$(head -n 1 "${icd[0]}")
    [ -f "$library" ] || library=$(PATH=$PATH:/sbin ldconfig -p | awk '$1 ~ /^libpocl\.so/ { print $NF; exit }')
    lines >"$logs/lines.cases"
    for method in loopvec loops workitemloops workitemrepl cbs; do
        if [ ! -f "$library" ] || ! grep -aqP "\x00$method\x00" "$library"; then
            skip "pocl $method" "this PoCL has no such method"
            continue
        fi
        mkdir -p "$logs/pocl_$method"
        OCL_ICD_VENDORS=${icd[0]} POCL_WORK_GROUP_METHOD=$method POCL_CACHE_DIR=$logs/pocl_$method \
            try "pocl $method" "$build/bin/anydnn" check --device opencl:0 -f "$logs/lines.cases"
    done
}

# simulate BYTES LINE: oclgrind preloads itself, but the library opens libOpenCL.so.1 by name.
simulate() {
    LD_LIBRARY_PATH=$logs/oclgrind${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} try "small $1 $2" oclgrind --build-options -fno-inline \
        --local-mem-size "$1" --max-wgsize 256 "$build/bin/anydnn" check --device opencl:0 "$2"
}

# Engines with several sets of parameters run one for each of these lines but the first of matmul: each takes half a
# minute. The 8 KiB leave the small tiles alone.
small() {
    local library line
    command -v oclgrind >/dev/null || { skip small "oclgrind is not here" && return; }
    for library in /usr/lib/oclgrind /usr/lib/*/oclgrind "$(dirname "$(command -v oclgrind)")"/../lib*{,/oclgrind}; do
        [ -f "$library/liboclgrind-rt.so" ] && break
    done
    [ -f "$library/liboclgrind-rt.so" ] || { skip small "liboclgrind-rt.so was not found" && return; }
    mkdir -p "$logs/oclgrind" && ln -sf "$(realpath "$library/liboclgrind-rt.so")" "$logs/oclgrind/libOpenCL.so.1"
    while read -r line; do
        case $line in
        conv_backward_bias*) ;;
        conv_*) line="$line engine=conv_igemm:32x64x16" ;;
        "matmul a=1x"*) line="$line engine=matmul_vector:16x1" ;;
        matmul*bf16*) line="$line engine=matmul_tile:32x64x16" ;;
        esac
        simulate 32768 "$line"
    done < <(lines | grep -v 'groups=')
    while read -r line; do
        simulate 8192 "$line"
    done <<'LINES'
conv_forward x=1x3x4x5/f32 w=5x3x3x3/f32 pad=1,1
matmul a=17x19/f32 b=19x15/f32
softmax_forward x=5x37/f32 mode=softmax
reduce x=5x7x9/f32 mode=sum
LINES
}

# Mesa 22 (Debian 12) crashes in the code that it makes of matrix products and elementwise kernels, and counts only the
# outer extent of arrays of arrays in parameter structs, so that batchnorm and conv_igemm cannot be given theirs.
rusticl() {
    local library=${RUSTICL:-/etc/OpenCL/vendors/rusticl.icd} line
    [ -f "$library" ] || { skip rusticl "neither RUSTICL nor /etc/OpenCL/vendors/rusticl.icd is there" && return; }
    export OCL_ICD_VENDORS=$library RUSTICL_ENABLE=llvmpipe,swrast
    if ! "$build/bin/anydnn" info >"$logs/rusticl_info.log" 2>&1 || ! grep -q 'rusticl' "$logs/rusticl_info.log"; then
        skip rusticl "it shows no device: $(grep '^opencl' "$logs/rusticl_info.log" | head -n 1)"
    else
        while read -r line; do
            if grep -q 'rusticl 22' "$logs/rusticl_info.log"; then
                case $line in
                matmul* | batchnorm* | activation* | binary* | copy* | dropout* | adam*)
                    skip "rusticl $line" "Mesa 22 does not get through it"
                    continue
                    ;;
                conv_backward_bias*) ;;
                conv_*) line="$line engine=conv_direct" ;;
                esac
            fi
            try "rusticl $line" "$build/bin/anydnn" check --device opencl:0 "$line"
        done < <(lines)
    fi
    unset OCL_ICD_VENDORS RUSTICL_ENABLE
}

for part in "${@:-all}"; do
    case $part in
    pocl | small | rusticl | all) ;;
    *) sed -n '3,13s/^# //p' "$0" && exit 2 ;;
    esac
done
if bring_up; then
    for part in "${@:-all}"; do
        [ "$part" = all ] && pocl && small && rusticl
        [ "$part" = all ] || "$part"
    done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
