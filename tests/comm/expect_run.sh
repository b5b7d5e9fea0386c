# SPDX-License-Identifier: Apache-2.0
# expect_run.sh STATUS LINES PATTERN COMMAND…: passes if the command ends with that status and so many lines of what it says match.
status=$1 lines=$2 pattern=$3
shift 3
output=$("$@" 2>&1 </dev/null)
got=$?
found=$(printf '%s\n' "$output" | grep -c -- "$pattern")
printf '%s\n' "$output" "status $got, $found lines match '$pattern'"
[ $got -eq "$status" ] && [ "$found" -eq "$lines" ]
