#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh LIBRARY: the shared library exports exactly the functions of tests/abi/exports.txt, and needs nothing but
# the C library at load time: no driver, no OpenCL loader, no vendor library.
set -u
export LC_ALL=C
here=$(dirname "$0")
passed=0 failed=0
check() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $2"; fi; }

nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//' | grep -v '^ANYDNN_' | sort -u >"exports.$$"
diff "$here/exports.txt" "exports.$$"
check $? "exported symbols differ from tests/abi/exports.txt (a function that is gone is an ABI break)"
rm -f "exports.$$"

needed=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|ld-linux.*|libasan|libubsan|libtsan|libclang_rt.*)\.so|^ld-linux')
[ -z "$needed" ]
check $? "the library needs at load time: $needed"
readelf -d "$1" | grep -q 'SONAME.*libanydnn\.so\.[0-9]*\]'
check $? "SONAME is not libanydnn.so.MAJOR"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
