#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD: installs the build into a fresh folder, then builds and runs a ten-line program against that copy
# alone: by find_package(anydnn) (shared and static), and by pkg-config where that is found. A project that adds the
# sources as a folder of its own is configured, not built.
set -u
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
check() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $2"; cat "$work/log"; fi; }

cat >"$work/main.c" <<'END'
#include <anydnn/anydnn.h>
int main(void)
{
    float data[4] = { -1, 2, -3, 4 };
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 4);
    const anydnn_mem m = anydnn_host_mem(data, sizeof data);
    anydnn_context *context;
    anydnn_stream *stream;
    if (anydnn_open("cpu", NULL, &context) || anydnn_stream_create(context, 0, &stream)) return 1;
    if (anydnn_activation_forward(stream, ANYDNN_RELU, &t, m, &t, m) || anydnn_stream_sync(stream)) return 2;
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return data[0] == 0 && data[1] == 2 && data[2] == 0 && data[3] == 4 ? 0 : 3;
}
END
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES C)
find_package(anydnn 0.1 REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared anydnn::anydnn)
add_executable(static main.c)
target_link_libraries(static anydnn::anydnn_static)
END

cmake --install "$build" --prefix "$work/copy" >"$work/log" 2>&1
check $? "cmake --install"
cmake -S "$work" -B "$work/b" -DCMAKE_PREFIX_PATH="$work/copy" >"$work/log" 2>&1 && cmake --build "$work/b" >>"$work/log" 2>&1
check $? "a program built by find_package(anydnn)"
"$work/b/shared" >"$work/log" 2>&1
check $? "the program linked to the shared library"
"$work/b/static" >"$work/log" 2>&1
check $? "the program linked to the static library"

mkdir "$work/outer" && cat >"$work/outer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(outer LANGUAGES C)
add_subdirectory($source anydnn)
add_executable(shared ../main.c)
target_link_libraries(shared anydnn::anydnn)
add_executable(static ../main.c)
target_link_libraries(static anydnn::anydnn_static)
if(TARGET format OR TARGET anydnn_command)
  message(FATAL_ERROR "targets for those who work on anydnn itself")
endif()
END
cmake -S "$work/outer" -B "$work/outer/b" -DANYDNN_CUDA=OFF >"$work/log" 2>&1
check $? "a project that adds the sources as a folder"

if command -v pkg-config >/dev/null; then
  pc=$(dirname "$(find "$work/copy" -name anydnn.pc)")
  flags=$(PKG_CONFIG_PATH=$pc pkg-config --define-prefix --cflags --libs anydnn)
  libs=$(PKG_CONFIG_PATH=$pc pkg-config --define-prefix --variable=libdir anydnn)
  # shellcheck disable=SC2086
  cc -std=c11 "$work/main.c" $flags -Wl,-rpath,"$libs" -o "$work/pc" >"$work/log" 2>&1 && "$work/pc" >>"$work/log" 2>&1
  check $? "a program built by pkg-config"
else
  skipped=$((skipped + 1))
  echo "skipped: no pkg-config here"
fi
[ -x "$work/copy/bin/anydnn" ] && "$work/copy/bin/anydnn" --version >"$work/log" 2>&1
check $? "the installed command anydnn runs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
