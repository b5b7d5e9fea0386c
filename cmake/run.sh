#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command where the tool chain is, in the working directory; without one, a shell.

. "$(dirname -- "$0")/toolchain.sh"

if [ $# = 0 ]; then set -- "${KERKIS_SHELL:-sh}"; fi
exec "$@"
