#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing and the rivals too, and runs benchmarks:
#   sh cmake/bench.sh NAME [NAME…] [-- ARGUMENT…]
#   sh cmake/bench.sh report [NAME…] [-- ARGUMENT…]   runs them, all that the README shows if none is named, and writes its tables and pictures
# Without a name, says which there are. bench/NAME.sh, where there is one, runs the program beside its rivals; it gets the variables
# source, build and mpiexec. With KERKIS_BENCH_RESULTS=FOLDER the times go to FOLDER/NAME.json too, in Google Benchmark's layout.

benches=$(dirname -- "$0")/../bench
if [ $# = 0 ]; then
  echo "usage: sh cmake/bench.sh [report] NAME [NAME…] [-- ARGUMENT…]; benchmarks:"
  for file in "$benches"/*.cpp "$benches"/*.sh; do
    [ ! -f "$file" ] || basename "${file%.*}"
  done | sort -u | sed 's/^/  /'
  echo "report writes what they measure into the README: comm pipeline reproducible train_step, if none is named"
  exit 2
fi
for name in "$@"; do
  [ "$name" != -- ] || break
  [ "$name" = "$1" ] && [ "$name" = report ] || [ -f "$benches/$name.cpp" ] || [ -f "$benches/$name.sh" ] || {
    echo "kerkis: no benchmark named $name; sh cmake/bench.sh lists them" >&2
    exit 2
  }
done

extras="python3 python3-torch"
. "$(dirname -- "$0")/toolchain.sh"

configure release
export source build mpiexec
report=
if [ "$1" = report ]; then
  report=yes KERKIS_BENCH_RESULTS=$source/docs/measured
  shift
fi
names=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  names="$names $1"
  shift
done
[ $# = 0 ] || shift
if [ -n "$report" ]; then
  names=${names:-comm pipeline reproducible train_step}
  for name in $names; do
    grep -q "^<!-- measured: $name -->" "$source/README.md" || fail "the README has no place for $name: <!-- measured: $name --> … <!-- end -->"
  done
fi
say "building the benchmarks"
for name in $names; do
  [ ! -f "$source/bench/$name.cpp" ] || quietly cmake --build "$build/release" -j "$(nproc)" --target "bench_$name"
done

run() { # NAME ARGUMENT…
  bench=$1
  shift
  if [ -f "$source/bench/$bench.sh" ]; then sh "$source/bench/$bench.sh" "$@"; else "$build/release/bench/$bench" "$@"; fi
}
for name in $names; do
  if [ -z "${KERKIS_BENCH_RESULTS-}" ]; then
    run "$name" "$@"
    continue
  fi
  mkdir -p "$KERKIS_BENCH_RESULTS"
  file=$KERKIS_BENCH_RESULTS/$name
  # A pipe's status is that of its end.
  { run "$name" "$@" || echo "$?" >"$file.failed"; } | tee "$file.txt"
  if [ -f "$file.failed" ]; then
    status=$(cat "$file.failed")
    rm "$file.failed" "$file.txt"
    exit "$status"
  fi
  python3 "$source/bench/results.py" "$name" <"$file.txt" >"$file.json.new"
  mv "$file.json.new" "$file.json"
  rm "$file.txt"
  [ -z "$report" ] || python3 "$source/bench/plot.py" "$source/README.md" "$KERKIS_BENCH_RESULTS" "$name"
done
