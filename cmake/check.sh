#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing, builds everything, runs every test: optimised, and under the address and undefined-behaviour sanitizers;
# the Asio bridge also under the thread sanitizer.
# Arguments go to ctest:  sh cmake/check.sh -R comm

extras="clang libomp-dev iproute2 python3-venv"
. "$(dirname -- "$0")/toolchain.sh"

for preset in release asan tsan; do
  configure $preset
  say "building build/$preset"
  cmake --build "$build/$preset" -j "$(nproc)"
done

# One run over all folders, so that its summary is about all tests.
mkdir -p "$build/check"
printf 'subdirs("%s" "%s" "%s")\n' "$build/release" "$build/asan" "$build/tsan" >"$build/check/CTestTestfile.cmake"
cd "$build/check"
exec ctest --output-on-failure -j "$(nproc)" "$@"
