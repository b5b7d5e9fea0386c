# SPDX-License-Identifier: Apache-2.0
# Small functions of toolchain.sh and private_root.sh, which set `log`, the file that takes the output of quiet commands.

say() { echo "kerkis: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Output goes to the log, its end is shown on failure.
quietly() {
  "$@" >"$log" 2>&1 </dev/null || {
    status=$?
    tail -n 30 "$log" >&2
    fail "failed with status $status: $* (whole output: $log)"
  }
}

# Downloads fail now and then.
retry() {
  for pause in 2 5 10; do
    "$@" && return 0
    sleep $pause
  done
  "$@"
}

can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -E "$@"; fi
}

# One run at a time makes what others wait for. The lock lives in descriptor 9 and ends with the process at the latest.
with_lock() { # FILE
  command -v flock >/dev/null || return 0
  exec 9>"$1"
  flock -n 9 || { say "waiting for another run" && flock 9; }
}
release_lock() { exec 9>&-; }

# The Debian mirror that apt uses here, in whatever form its sources are written; none if there is none.
system_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    while read -r uri release component; do
      case "$release $component" in *-security* | *-updates* | *-backports* | */*) continue ;; *' main') ;; *) continue ;; esac
      case $uri in
        http://* | https://* | file:/*) echo "$uri" ;;
        mirror+file:*) # a file with one mirror a line
          list=${uri#mirror+file:}
          sed -n 's/^\([a-z]*:[^[:space:]]*\).*$/\1/p' "/${list#"${list%%[!/]*}"}" | head -n 1
          ;;
      esac
    done | head -n 1
}
