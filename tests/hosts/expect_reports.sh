# SPDX-License-Identifier: Apache-2.0
# expect_reports.sh RANKS PATTERN COMMAND…: passes if the command, which runs hosts.deadline, fails and exactly these ranks ("0 2") have
# reported, once each and less than 10 s after their last success (the deadline is 3 s), that they have caught an all_reduce or a shift and the pattern.
ranks=$1 pattern=$2
shift 2
folder=$(mktemp -d -p "$PWD") && cd "$folder" || exit 1
"$@" </dev/null
status=$?
output=$(cat report.* 2>/dev/null)
cd .. && rm -r "$folder"
printf '%s\n' "$output" "status $status"
[ $status -ne 77 ] || exit 77
reports=$(printf '%s\n' "$output" | sed -n 's/^rank \([0-9]*\) caught .*/\1/p' | sort -n | tr '\n' ' ')
good=$(printf '%s\n' "$output" | sed -En "s/^rank ([0-9]*) caught after [0-9]\.[0-9] s: .*(all_reduce|shift) #[0-9].*($pattern).*/\1/p" | sort -n | tr '\n' ' ')
echo "reports of the ranks $reports; good ones: $good"
case $status in 1 | 9) ;; *) exit 1 ;; esac # a rank's own, or that of a frozen one that was killed
[ "$reports" = "$ranks " ] && [ "$good" = "$ranks " ]
