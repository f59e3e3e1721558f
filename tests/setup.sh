#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tests/setup.sh: asks apt for what a build and the tests want and is not here; sourced, or run alone. Without network,
# apt or root it goes on and says what is lacking. Exit code (and setup_lacking): whether everything is here.

setup_has() {
    case $1 in
    build-essential) command -v cc >/dev/null && command -v make >/dev/null ;;
    cmake) command -v cmake >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    zlib1g-dev) echo '#include <zlib.h>' | cc -E - >/dev/null 2>&1 ;;
    ocl-icd-libopencl1) ldconfig -p 2>/dev/null | grep -q 'libOpenCL\.so\.1' ;;
    pocl-opencl-icd) ls /etc/OpenCL/vendors/*pocl*.icd >/dev/null 2>&1 ;;
    libclblast1) ldconfig -p 2>/dev/null | grep -q 'libclblast\.so\.1' ;;
    esac
}

setup_missing() {
    setup_lacking=
    for setup_package in build-essential cmake ninja-build zlib1g-dev ocl-icd-libopencl1 pocl-opencl-icd libclblast1; do
        setup_has "$setup_package" || setup_lacking="$setup_lacking $setup_package"
    done
}

setup_missing
if [ -n "$setup_lacking" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Asking apt for:$setup_lacking"
    setup_options="-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=60"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get $setup_options update >/dev/null 2>&1
    for setup_package in $setup_lacking; do # one by one: a name that a release lacks must not stop the others
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get $setup_options install -y --no-install-recommends "$setup_package" >/dev/null 2>&1
    done
    setup_missing
fi
[ -z "$setup_lacking" ] || echo "Lacking (Debian and Ubuntu names):$setup_lacking"
[ -z "$setup_lacking" ]
