#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing, builds the example and trains it on 8 ranks: 2 replicas x 2 tensor ranks x 2 pipeline stages.
# Arguments go to the program:  sh cmake/demo.sh --text my.txt --steps 500

. "$(dirname -- "$0")/toolchain.sh"

configure release
say "building the example"
quietly cmake --build "$build/release" -j "$(nproc)" --target train_gpt
# Under mpiexec the program writes to a pipe: whether a person looks on is known here.
if [ -t 1 ]; then export KERKIS_PROGRESS=live; fi
exec "$mpiexec" -n 8 "$build/release/examples/train_gpt" --tensor 2 --pipeline 2 --verify 20 "$@"
