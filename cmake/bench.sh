#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing and the rivals too, and runs benchmarks:  sh cmake/bench.sh NAME [NAME…] [-- ARGUMENT…]
# Without a name, says which there are. bench/NAME.sh, where there is one, runs the program beside its rivals; it gets the variables
# source, build and mpiexec.

benches=$(dirname -- "$0")/../bench
if [ $# = 0 ]; then
  echo "usage: sh cmake/bench.sh NAME [NAME…] [-- ARGUMENT…]; benchmarks:"
  for file in "$benches"/*.cpp "$benches"/*.sh; do
    [ ! -f "$file" ] || basename "${file%.*}"
  done | sort -u | sed 's/^/  /'
  exit 2
fi
for name in "$@"; do
  [ "$name" != -- ] || break
  [ -f "$benches/$name.cpp" ] || [ -f "$benches/$name.sh" ] || {
    echo "kerkis: no benchmark named $name; sh cmake/bench.sh lists them" >&2
    exit 2
  }
done

extras="python3 python3-torch"
. "$(dirname -- "$0")/toolchain.sh"

configure release
export source build mpiexec
names=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  names="$names $1"
  shift
done
[ $# = 0 ] || shift
say "building the benchmarks"
for name in $names; do
  [ ! -f "$source/bench/$name.cpp" ] || quietly cmake --build "$build/release" -j "$(nproc)" --target "bench_$name"
done
for name in $names; do
  if [ -f "$source/bench/$name.sh" ]; then sh "$source/bench/$name.sh" "$@"; else "$build/release/bench/$name" "$@"; fi
done
