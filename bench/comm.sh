#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collectives and hand-offs beside raw MPI, and what the headers cost to include. Run it by `sh cmake/bench.sh comm`.
#   sh cmake/bench.sh comm -- PART…     of: operations views crowded hosts asio include
# Two cores for each pair of ranks: the figures mean something on a machine that does nothing else.

set -eu

parts=${*:-operations views crowded hosts asio include}
rate=1gbit bits=1e9
cores=$(env -u OMP_NUM_THREADS nproc)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
echo "OPENBLAS_CORETYPE: ${OPENBLAS_CORETYPE:-not set}; $cores cores; load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
"$mpiexec" --version 2>/dev/null | sed -n 's/^ *Version: */MPICH /p'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$folder/ratios"

part() { # TITLE COMMAND…: prints the table, keeps the ratios for the end
  echo
  echo "$1"
  shift
  status=0
  "$@" >"$folder/output" 2>"$folder/errors" || status=$?
  grep -v '^ratio ' "$folder/output" || true
  grep '^ratio ' "$folder/output" >>"$folder/ratios" || true
  cat "$folder/errors" >&2
  [ $status = 0 ] || [ $status = 77 ] || exit $status
}

programs=$build/release/bench
for name in $parts; do
  case $name in
    operations) part "2 ranks, blocks of so many bytes; the nonblocking rival waits as kerkis does" "$mpiexec" -n 2 "$programs/comm" ;;
    views) part "Views with gaps, there and back, beside MPI's derived types" "$mpiexec" -n 2 "$programs/comm" --views ;;
    crowded)
      ranks=$((2 * cores))
      part "$ranks ranks on $cores cores, beside the blocking calls" "$mpiexec" -n $ranks "$programs/comm" --crowded
      ;;
    hosts)
      part "64 MiB between two hosts, $rate each way" env MPIEXEC="$mpiexec" \
        sh "$source/tests/hosts/hosts.sh" run --hosts 2 --rate $rate --time-limit 120 -- "$programs/comm" --line $bits
      ;;
    asio) part "Boost.Asio: co_await beside wait" "$mpiexec" -n 2 "$programs/comm_asio" ;;
    include) part "time to compile" sh "$source/bench/include_cost.sh" 3 ;;
    *) echo "comm: no part named $name" >&2 && exit 2 ;;
  esac
done
echo
cat "$folder/ratios"
