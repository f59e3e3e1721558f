#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/quickstart.sh: from a fresh checkout to a trained network and a first speed table.
#   1. asks apt for what is missing (tests/setup.sh);  2. builds to build/;  3. trains a small network on every device
#   found and compares them;  4. times a few problems on each.
# Options are passed to cmake, e.g. bench/quickstart.sh -DANYDNN_CUDA=OFF. Without network or root it goes on with
# what is there and says what is lacking. Exit code: 0 where training and answers are right.
cd "$(dirname "$0")/.." || exit 1

say() { printf '\n== %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

say "Looking for what is needed"
if [ -f tests/setup.sh ] && ! sh tests/setup.sh; then
    echo "Some packages could not be installed (no network, or not root): going on with what is there."
fi
lacking=
for tool in cmake cc; do
    have "$tool" || lacking="$lacking $tool"
done
if [ -n "$lacking" ]; then
    echo "Cannot build: lacking:$lacking (Debian, Ubuntu: apt-get install cmake gcc libc6-dev)"
    exit 1
fi
have nvcc || [ -x /usr/local/cuda/bin/nvcc ] || echo "nvcc is not here: no CUDA backend (CUDA toolkit 12 or 13)."
ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 ||
    echo "No OpenCL driver is registered: no OpenCL devices (for the CPU: apt-get install ocl-icd-libopencl1 pocl-opencl-icd)."

say "Building to build/"
mkdir -p build
log=build/quickstart.log
generator=
have ninja && [ ! -f build/Makefile ] && generator="-G Ninja"
# shellcheck disable=SC2086
cmake -S . -B build $generator "$@" >$log 2>&1 &&
    cmake --build build -j"$(nproc 2>/dev/null || echo 2)" >>$log 2>&1 || {
    tail -n 30 $log
    echo "The build failed; the whole log: $log"
    exit 1
}
build/bin/anydnn info

say "Training on every device"
build/bin/anydnn train --device all
trained=$?

say "Speed"
devices=$(build/bin/anydnn info | sed -n 's/^\([a-z]*:[0-9][0-9]*\): .*/\1/p')
for device in ${devices:-cpu}; do
    build/bin/anydnn bench --device "$device" --seconds 0.3 -f bench/shapes/quick.lines || trained=1
done
exit $trained
