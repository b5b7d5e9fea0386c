#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing, builds everything, runs every test: as it is, and under the address and undefined-behaviour sanitizers;
# the Asio bridge also under the thread sanitizer, and what stands on MPI also with Open MPI.
# Arguments go to ctest:  sh cmake/check.sh -R comm
# Tests with the label product run only where the arguments name it:  sh cmake/check.sh -L product

extras="clang libomp-dev g++-12 openmpi-bin libopenmpi-dev doxygen iproute2 python3-venv"
. "$(dirname -- "$0")/toolchain.sh"

presets="check asan tsan"
if command -v mpicxx.openmpi >/dev/null; then presets="$presets openmpi"; else say "no mpicxx.openmpi: not tested with Open MPI"; fi
for preset in $presets; do
  configure $preset
  say "building build/$preset"
  cmake --build "$build/$preset" -j "$(nproc)"
done

# One run over all folders, so that its summary is about all tests.
mkdir -p "$build/all"
for preset in $presets; do echo "subdirs(\"$build/$preset\")"; done >"$build/all/CTestTestfile.cmake"
cd "$build/all"
# A -LE of the arguments decides alone: of several, ctest would want all to match.
case " $* " in *product* | *" -LE "*) ;; *) set -- -LE product "$@" ;; esac
exec ctest --output-on-failure -j "$(nproc)" "$@"
