#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kerkis and PyTorch train the same GPT, turn by turn in one run; each one's best time counts. Run it by `sh cmake/bench.sh train_step`.
#   sh cmake/bench.sh train_step -- --ranks "1 2" --widths "512 128 64 32" --rounds 4
# One thread per rank; the batch of a rank stays the same on more ranks (data parallel; PyTorch: DistributedDataParallel over Gloo).
# Operations per token, the same for both: 6 (12 L w² + 256 w) + 6 L w (T + 1), what causal attention needs at least.

set -eu

ranks="1 2" widths="512 128 64 32" rounds=4
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=$2 ;;
    --widths) widths=$2 ;;
    --rounds) rounds=$2 ;;
    *) echo "train_step: unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done

# layers heads context batch, and for a turn: blocks, steps of a block
settings() { # WIDTH
  case $1 in
    512) echo 6 8 256 8 2 1 ;;
    128) echo 4 4 64 16 4 4 ;;
    64) echo 2 4 32 8 10 20 ;;
    32) echo 2 4 16 4 10 100 ;;
    *) echo "train_step: widths are 512, 128, 64 and 32" >&2 && exit 2 ;;
  esac
}

rival=yes
python3 -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null || {
  rival=
  echo "train_step: there is no PyTorch here: kerkis runs alone"
}
echo "OPENBLAS_CORETYPE: ${OPENBLAS_CORETYPE:-not set}; $(env -u OMP_NUM_THREADS nproc) cores"
"$mpiexec" --version 2>/dev/null | sed -n 's/^ *Version: */MPICH /p'
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

folder=$(mktemp -d)
trap 'exec 3>&- 5>&-; rm -rf "$folder"' EXIT
trap '' PIPE # a program that has ended shows by its missing answer
mkfifo "$folder/our_orders" "$folder/our_answers" "$folder/their_orders" "$folder/their_answers"

less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }
# Reads the rest of the line that begins with WORD; libraries may write lines of their own before.
hear() { # us|them WORD
  heard=
  while [ "$heard" != "$2" ]; do
    if [ "$1" = us ]; then read -r heard answer <&4; else read -r heard answer <&6; fi || {
      echo "train_step: $1: no answer" >&2
      exit 1
    }
  done
}
ask() { # us|them WORD ORDER…
  who=$1 word=$2
  shift 2
  if [ "$who" = us ]; then echo "$*" >&3; else echo "$*" >&5; fi 2>/dev/null || true
  hear "$who" "$word"
}
turn() { # us|them: one turn, keeps the best time
  ask "$1" seconds "$blocks" "$steps"
  if [ "$1" = us ]; then
    if less "$answer" "$ours"; then ours=$answer; fi
  elif less "$answer" "$theirs"; then theirs=$answer; fi
}

compare() { # RANKS WIDTH
  settings=$(settings "$2")
  # shellcheck disable=SC2086
  set -- "$1" "$2" $settings
  blocks=$7 steps=$8
  size="--width $2 --layers $3 --heads $4 --context $5 --batch $6"
  # shellcheck disable=SC2086
  "$mpiexec" -n "$1" "$build/release/bench/train_step" --serve $size <"$folder/our_orders" >"$folder/our_answers" 3>&- 4>&- &
  exec 3>"$folder/our_orders" 4<"$folder/our_answers"
  hear us ready
  operations=${answer##* }
  echo "ranks $1, width $2, layers $3, heads $4, context $5, batch $6 per rank"
  echo "  kerkis:  parameters, first loss: ${answer% *}"
  if [ -n "$rival" ]; then
    # shellcheck disable=SC2086
    python3 "$source/bench/train_step_torch.py" --ranks "$1" $size <"$folder/their_orders" >"$folder/their_answers" 3>&- 4>&- 5>&- 6>&- &
    exec 5>"$folder/their_orders" 6<"$folder/their_answers"
    hear them ready
    echo "  PyTorch: parameters, first loss: $answer"
  fi

  product=0 ours=1e9 theirs=1e9 round=0
  while [ $round -lt "$rounds" ]; do
    ask us speed product
    if less "$product" "$answer"; then product=$answer; fi
    if [ $((round % 2)) = 1 ] && [ -n "$rival" ]; then turn them; fi
    turn us
    if [ $((round % 2)) = 0 ] && [ -n "$rival" ]; then turn them; fi
    round=$((round + 1))
  done
  exec 3>&- 4<&- 5>&- 6<&-
  wait

  awk -v tokens=$(($1 * $5 * $6)) -v operations="$operations" -v product="$product" -v ours="$ours" -v theirs="$theirs" \
    -v name="$1/$2" -v ratios="$folder/ratios" 'BEGIN {
      printf "  kerkis   %10.2f ms  %9.0f tokens/s  %3.0f %% of %.0f GFLOP/s\n", 1e3 * ours, tokens / ours, operations / ours / product / 1e7, product
      if (theirs == 1e9) exit
      printf "  PyTorch  %10.2f ms  %9.0f tokens/s  %3.0f %%\n", 1e3 * theirs, tokens / theirs, operations / theirs / product / 1e7
      printf "ratio train_step/%s %.2f\n", name, theirs / ours >>ratios
    }'
}

for count in $ranks; do
  for width in $widths; do compare "$count" "$width"; done
done
[ ! -f "$folder/ratios" ] || cat "$folder/ratios"
