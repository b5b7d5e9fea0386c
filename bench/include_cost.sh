#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What including kerkis costs a translation unit: the time to compile one that includes it and nothing else, beside one with Kokkos_Core.hpp and
# mpi.h. Medians of interleaved runs. Run it by `sh cmake/bench.sh include_cost`.

set -eu

rounds=${1:-5}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=$(sed -n 's/.*"command": "[^ ]* \(.*\) -o .*train_step.*/\1/p' "$build/release/compile_commands.json" | head -n 1)
[ -n "$flags" ] || { echo "include_cost: no compile command in $build/release" >&2 && exit 1; }

printf '#include <Kokkos_Core.hpp>\n#include <mpi.h>\n' >"$folder/base.cpp"
printf '#include <kerkis/comm/all_reduce.hpp>\n' >"$folder/comm.cpp"
printf '#include <kerkis/kerkis.hpp>\n' >"$folder/kerkis.cpp"

round=0
while [ "$round" -lt "$rounds" ]; do
  for unit in base comm kerkis; do
    start=$(date +%s%N)
    # shellcheck disable=SC2086
    g++ $flags -c "$folder/$unit.cpp" -o "$folder/$unit.o"
    echo $((($(date +%s%N) - start) / 1000000)) >>"$folder/$unit.times"
  done
  round=$((round + 1))
done
median() { sort -n "$folder/$1.times" | sed -n "$(((rounds + 1) / 2))p"; }
base=$(median base)
echo "Kokkos_Core.hpp and mpi.h: $base ms; kerkis/comm/all_reduce.hpp: $(median comm) ms; kerkis/kerkis.hpp: $(median kerkis) ms"
for unit in comm kerkis; do awk -v name="$unit" -v base="$base" -v ours="$(median "$unit")" 'BEGIN { printf "ratio include_cost/%s %.2f\n", name, base / ours }'; done
