#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pipelines of two ranks: measured steps beside simulated ones, and PyTorch's torch.distributed.pipelining over Gloo beside both, turn by turn
# in one run. Run it by `sh cmake/bench.sh pipeline`.
#   sh cmake/bench.sh pipeline -- --microbatches "2 4 8 16" --schedules "1f1b zb-v" --steps 3 --rounds 2 --rival no
#   sh cmake/bench.sh pipeline -- --width 256 --layers 8 --context 128 --batch 4 --limit 120
# One thread per rank; stages of transformer blocks and nothing else; forward and backward of all microbatches, no optimizer.

set -eu

microbatches="2 4 8 16" steps=2 rounds=2 pairs=12 limit=30 rival=yes
schedules="gpipe 1f1b interleaved bfs zb-h1 zb-h2 zb-v v-half v-min dualpipe-v zero-bubble"
width=256 layers=8 heads=4 context=128 batch=1
while [ $# -gt 0 ]; do
  case $1 in
    --microbatches | --schedules | --steps | --rounds | --pairs | --limit | --rival | --width | --layers | --heads | --context | --batch)
      [ $# -gt 1 ] || { echo "pipeline: $1 needs a value" >&2 && exit 2; }
      eval "${1#--}=\$2"
      ;;
    *) echo "pipeline: unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done

if [ "$rival" = yes ] && ! python3 -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null; then
  rival=no
  echo "pipeline: there is no PyTorch here: kerkis runs alone"
fi
echo "OPENBLAS_CORETYPE: ${OPENBLAS_CORETYPE:-not set}; $(env -u OMP_NUM_THREADS nproc) cores; OMP_NUM_THREADS: 1"
"$mpiexec" --version 2>/dev/null | sed -n 's/^ *Version: */MPICH /p'
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
echo "width $width, layers $layers, heads $heads, context $context, microbatches of $batch × $context tokens, 2 ranks"

folder=$(mktemp -d)
trap 'exec 3>&- 5>&-; rm -rf "$folder"' EXIT
trap '' PIPE # a program that has ended shows by its missing answer
mkfifo "$folder/our_orders" "$folder/our_answers" "$folder/their_orders" "$folder/their_answers"
: >"$folder/results"

# Reads the rest of the line that begins with WORD; libraries may write lines of their own before.
hear() { # us|them WORD
  heard=
  while [ "$heard" != "$2" ]; do
    if [ "$1" = us ]; then read -r heard answer <&4; else read -r heard answer <&6; fi || {
      echo "pipeline: $1: no answer" >&2
      exit 1
    }
  done
}
ask() { # us|them ORDER…; the answer begins with the order's first word
  who=$1
  shift
  if [ "$who" = us ]; then echo "$*" >&3; else echo "$*" >&5; fi 2>/dev/null || true
  hear "$who" "$1"
}

size="--width $width --layers $layers --heads $heads --context $context --batch $batch"
# shellcheck disable=SC2086
"$mpiexec" -n 2 "$build/release/bench/pipeline" $size <"$folder/our_orders" >"$folder/our_answers" 3>&- 4>&- &
exec 3>"$folder/our_orders" 4<"$folder/our_answers"
hear us ready
if [ "$rival" = yes ]; then
  # shellcheck disable=SC2086
  python3 "$source/bench/pipeline_torch.py" --limit "$limit" $size <"$folder/their_orders" >"$folder/their_answers" 3>&- 4>&- 5>&- 6>&- &
  exec 5>"$folder/their_orders" 6<"$folder/their_answers"
  hear them ready
fi

ask us overhead
echo "$answer" | awk '{ printf "an action that does nothing: %.2f µs outside MPI\n", 1e6 * $1 }'
for bytes in 4096 65536 $((4 * width * context * batch)) 1048576; do
  ask us hand_off "$bytes"
  echo "$answer" | awk -v bytes="$bytes" -v results="$folder/results" '{
    printf "round trip of %7d bytes: %8.1f µs, MPI alone %8.1f µs\n", bytes, 1e6 * $1, 1e6 * $2
    printf "ratio pipeline/hand_off/%d %.2f\n", bytes, $2 / $1 >>results
  }'
done
ask us pair 8 "$pairs"
echo "$answer" | awk -v pairs="$pairs" -v results="$folder/results" '{
  printf "zb-h1 is faster than 1f1b by %.2f ms, simulated %.2f ms (8 microbatches, medians of %d pairs)\n", 1e3 * $1, 1e3 * $2, pairs
  printf "ratio pipeline/gain_of_zb-h1/simulated %.2f\n", ($2 == 0) ? 0 : $1 / $2 >>results
}'

# What PyTorch has under our names; zero-bubble is its own order of actions, which we run too.
has() { # SCHEDULE
  case $1 in gpipe | 1f1b | interleaved | zb-v | zero-bubble) [ "$rival" = yes ] ;; *) false ;; esac
}
turn_of_us() {
  ask us step "$ours_is" "$m" "$steps"
  echo "us $answer" >>"$folder/turns"
}
turn_of_them() {
  ! has "$schedule" || {
    ask them step "$schedule" "$m" "$steps"
    echo "them $answer" >>"$folder/turns"
  }
}

echo "milliseconds        m  measured simulated   ratio   forward  backward/input  weights   PyTorch"
for m in $microbatches; do
  for schedule in $schedules; do
    ours_is=$schedule
    if [ "$schedule" = zero-bubble ]; then
      has zero-bubble || continue
      ask them table zero-bubble "$m" "$folder/zero-bubble.csv"
      case $answer in none*) echo "zero-bubble: PyTorch has no table for $m microbatches" && continue ;; esac
      ours_is=csv:$folder/zero-bubble.csv
    fi
    : >"$folder/turns"
    round=0
    while [ $round -lt "$rounds" ]; do
      if [ $((round % 2)) = 1 ]; then turn_of_them; fi
      turn_of_us
      if [ $((round % 2)) = 0 ]; then turn_of_them; fi
      round=$((round + 1))
    done
    awk -v name="$schedule" -v m="$m" -v results="$folder/results" '
      $1 == "us" && (!ours || $2 < ours) { ours = $2; simulated = $3; f = $4; b = $5; w = $6 }
      $1 == "them" && $2 != "none" && (!theirs || $2 < theirs) { theirs = $2 }
      $1 == "them" && $2 == "none" { $1 = $2 = ""; why = $0 }
      END {
        printf "%-16s %4d %9.1f %9.1f %7.3f %9.2f %15.2f %8.2f ", name, m, 1e3 * ours, 1e3 * simulated, simulated / ours, 1e3 * f, 1e3 * b, 1e3 * w
        if (theirs) printf "%9.1f", 1e3 * theirs
        else if (why) printf "  %s", why
        printf "\n"
        printf "ratio pipeline/%s/%d/simulated %.3f\n", name, m, simulated / ours >>results
        if (theirs) printf "ratio pipeline/%s/%d/torch %.2f\n", name, m, theirs / ours >>results
      }' "$folder/turns"
  done
done
exec 3>&- 4<&-
[ "$rival" = no ] || exec 5>&- 6<&-
wait
cat "$folder/results"
