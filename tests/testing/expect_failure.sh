# SPDX-License-Identifier: Apache-2.0
# expect_failure.sh PATTERN COMMAND…: passes if the command fails and a line of what it says matches (grep's basic expressions).
pattern=$1
shift
output=$("$@" 2>&1 </dev/null)
status=$?
printf '%s\n' "$output" "status $status"
[ $status -ne 0 ] && printf '%s\n' "$output" | grep -q -- "$pattern"
