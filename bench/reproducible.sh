#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A reproducible all_reduce beside a plain one, on two ranks. Run it by `sh cmake/bench.sh reproducible`.
#   sh cmake/bench.sh reproducible -- --largest 1048576 --shards 8

set -eu

echo "OPENBLAS_CORETYPE: ${OPENBLAS_CORETYPE:-not set}; $(env -u OMP_NUM_THREADS nproc) cores; load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
"$mpiexec" --version 2>/dev/null | sed -n 's/^ *Version: */MPICH /p'
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
"$mpiexec" -n 2 "$build/release/bench/reproducible" "$@"
