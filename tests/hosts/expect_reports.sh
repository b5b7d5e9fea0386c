# SPDX-License-Identifier: Apache-2.0
# expect_reports.sh RANKS COMMAND…: passes if the command, which runs hosts.deadline, fails and exactly these ranks ("0 2") have said,
# once each and less than 6 s after their last success (the deadline is 3 s), what they have caught in an all_reduce.
ranks=$1
shift
output=$("$@" 2>&1 </dev/null)
status=$?
printf '%s\n' "$output" "status $status"
[ $status -ne 77 ] || exit 77
reports=$(printf '%s\n' "$output" | sed -n 's/^rank \([0-9]*\) caught .*/\1/p' | sort -n | tr '\n' ' ')
good=$(printf '%s\n' "$output" | sed -n 's/^rank \([0-9]*\) caught after [0-5]\.[0-9] s: .*all_reduce #[0-9].*/\1/p' | sort -n | tr '\n' ' ')
echo "reports of the ranks $reports; good ones: $good"
case $status in 1 | 9) ;; *) exit 1 ;; esac # a rank's own, or that of a frozen one that was killed
[ "$reports" = "$ranks " ] && [ "$good" = "$ranks " ]
