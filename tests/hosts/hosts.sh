# SPDX-License-Identifier: Apache-2.0
# Several hosts on one machine: runs an MPI program over real TCP between network namespaces.
#
#   sh hosts.sh run [OPTION…] -- PROGRAM [ARGUMENT…]
#     --hosts N                 2 unless given; rank r is on host r / ranks-per-host
#     --ranks-per-host K        1 unless given
#     --rate RATE               of each host's link, in each direction, as tc writes it (1gbit); full speed unless given
#     --mtu BYTES               9000 unless given
#     --mark TEXT               the seconds below count from the first line on stdout that has TEXT, else from the launcher's start
#     --cut-after SECONDS HOST  then that host's link goes down
#     --freeze-after SECONDS RANK  then the processes of that rank are stopped (SIGSTOP), and killed when all other ranks have left
#     --time-limit SECONDS      then everything is ended, with status 124
#
# stdout and stderr are the program's; stdin is empty. The status is the launcher's; 77, with a reason, where tools or rights (root, or
# user namespaces for everybody) are missing; 2 for arguments that make no sense; 99 if the hosts could not be set up all the same.
# Environment: MPIEXEC (MPICH's, mpiexec unless set), UCX_TLS (tcp,self unless set), OMP_NUM_THREADS (1 unless set).
#
# Each host is a set of namespaces (net, pid, uts, ipc, mount) with a name (host0, host1, …, which /etc/hosts resolves), a /sys and a
# /dev/shm of its own. Its interface eth0, 10.0.0.N+1, is joined to the others' by a bridge and shaped at both ends, as a switch would.
# The launcher reaches the hosts by a second network, so that it hears a host that is cut off and takes nothing from the links. There
# the hosts see the launcher only, not each other.
# All of this lives in one outer set of namespaces without a name: runs at the same time cannot collide, and when its first process
# ends, or is killed with this script, the kernel ends every process in it and removes every interface.

# Lists of words are split on purpose.
# shellcheck disable=SC2086

set -eu
script=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/hosts.sh
here=$(pwd -P)

say() { printf 'hosts.sh: %s\n' "$*" >&2; }
fail() { # STATUS TEXT…
  status=$1
  shift
  say "$*"
  exit "$status"
}

is_count() { case $1 in '' | 0* | *[!0-9]*) return 1 ;; esac; }
is_index() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }
is_seconds() { case $1 in '' | . | *[!0-9.]* | *.*.*) return 1 ;; esac; }

parse() { # OPTION… -- PROGRAM…: sets the variables, and `options` to the number of words before the program
  hosts=2 ranks_per_host=1 rate='' mtu=9000 mark='' cuts='' freezes='' limit='' options=0
  while [ $# -gt 0 ]; do
    case $1 in
      --)
        options=$((options + 1))
        [ $# -gt 1 ] || fail 2 "no program after --"
        break
        ;;
      --hosts) hosts=${2-} ;;
      --ranks-per-host) ranks_per_host=${2-} ;;
      --rate) rate=${2-} ;;
      --mtu) mtu=${2-} ;;
      --mark) mark=${2-} ;;
      --time-limit) limit=${2-} ;;
      --cut-after | --freeze-after)
        is_seconds "${2-}" && is_index "${3-}" || fail 2 "$1 takes seconds and an index"
        if [ "$1" = --cut-after ]; then cuts="$cuts $2 $3"; else freezes="$freezes $2 $3"; fi
        options=$((options + 1))
        shift
        ;;
      *) fail 2 "unknown option $1" ;;
    esac
    [ $# -gt 1 ] || fail 2 "$1 needs a value"
    options=$((options + 2))
    shift 2
  done
  [ $# -gt 1 ] || fail 2 "no -- before the program"
  is_count "$hosts" && [ "$hosts" -le 200 ] || fail 2 "--hosts $hosts: 1 to 200"
  is_count "$ranks_per_host" || fail 2 "--ranks-per-host $ranks_per_host: 1 or more"
  is_count "$mtu" || fail 2 "--mtu $mtu"
  [ -z "$limit" ] || is_seconds "$limit" || fail 2 "--time-limit $limit"
  ranks=$((hosts * ranks_per_host))
  check_indices "$hosts" $cuts
  check_indices "$ranks" $freezes
}

check_indices() { # COUNT [SECONDS INDEX]…
  count=$1
  shift
  while [ $# -gt 0 ]; do
    [ "$2" -lt "$count" ] || fail 2 "index $2 is not below $count"
    shift 2
  done
}

shape() { # DEVICE
  [ -z "$rate" ] || tc qdisc add dev "$1" root tbf rate "$rate" burst 256kb latency 20ms
}

# ---- what a run needs; 77 is CTest's SKIP_RETURN_CODE
check() {
  for tool in ip tc unshare nsenter setpriv mountpoint hostname; do
    command -v $tool >/dev/null || fail 77 "skipped: there is no $tool (Debian: iproute2, util-linux, hostname)"
  done
  command -v "$mpiexec" >/dev/null || fail 77 "skipped: there is no $mpiexec"
  "$mpiexec" --version 2>/dev/null | grep -q HYDRA || fail 77 "skipped: $mpiexec is not MPICH's"
  reason=$($spaces sh "$script" probe 2>&1) ||
    fail 77 "skipped: namespaces with interfaces of their own cannot be made here as user $(id -un): $reason"
}

probe() {
  rate=1gbit
  mount -t tmpfs tmpfs /dev/shm && mount -t sysfs sysfs /sys && hostname probe && ip link add bridge type bridge &&
    ip link add outside type veth peer name inside && shape inside
}

# ---- one host: its first process, and what is set up in it
host() { # INDEX
  mount -t sysfs sysfs /sys
  hostname "host$1"
  ip link set lo up
  : >"/dev/shm/host$1.up"
  mount -t tmpfs tmpfs /dev/shm
  while :; do sleep 3600; done # and collects orphans meanwhile
}

make_host() { # INDEX
  $spaces sh "$script" host "$1" </dev/null &
  pid=$!
  echo $pid >"/dev/shm/host$1.pid"
  while [ ! -e "/dev/shm/host$1.up" ]; do
    kill -0 $pid 2>/dev/null || fail 99 "host $1 does not start"
    sleep 0.02
  done
  ip link add "data$1" mtu "$mtu" type veth peer name eth0 mtu "$mtu" netns $pid
  ip link add "control$1" type veth peer name control netns $pid
  shape "data$1"
  ip link set "data$1" master data up
  ip link set "control$1" master control up
  ip link set "control$1" type bridge_slave isolated on
  nsenter --target $pid --net sh "$script" links "$1" "$rate"
}

links() { # INDEX RATE: in the host's network
  rate=$2
  ip address add "10.0.0.$(($1 + 1))/24" dev eth0
  ip address add "10.1.0.$(($1 + 1))/24" dev control
  shape eth0
  ip link set eth0 up
  ip link set control up
}

# What the launcher calls as it would call rsh. A new mount namespace has another root: the chroot's and the folder are asked for.
enter() { # HOSTNAME COMMAND…
  read -r pid <"/dev/shm/$1.pid"
  shift
  exec nsenter --target "$pid" --net --uts --ipc --mount --pid="/proc/$pid/ns/pid_for_children" --root --wd="$here" sh -c "$*"
}

# ---- faults, in the background
after_mark() { # SECONDS
  if [ -n "$mark" ]; then
    while [ ! -s /dev/shm/marked ]; do sleep 0.05; done
  fi
  sleep "$1"
}

cut_link() { # SECONDS HOST
  after_mark "$1"
  ip link set "data$2" down
  say "host $2 is cut off"
}

rank_processes() { # PATTERN: of the rank
  grep -lzs "^PMI_RANK=$1\$" /proc/[0-9]*/environ | sed 's|/proc/||; s|/environ||'
}

freeze_rank() { # SECONDS RANK
  after_mark "$1"
  frozen=$(rank_processes "$2")
  if [ -z "$frozen" ]; then
    say "rank $2 has no process to freeze"
    return
  fi
  kill -STOP $frozen
  say "rank $2 is frozen"
  # The launcher would wait for it for ever when the others have left.
  moving=yes
  while [ $moving = yes ]; do
    sleep 0.3
    moving=no
    for pid in $(rank_processes '[0-9]*'); do grep -qs '^State:.T' "/proc/$pid/status" || moving=yes; done
  done
  kill -KILL $frozen
}

expire() { # SECONDS LAUNCHER
  sleep "$1"
  say "no end after $1 s"
  : >/dev/shm/expired
  kill -KILL "$2"
}

each() { # FUNCTION [SECONDS INDEX]…
  function=$1
  shift
  while [ $# -gt 0 ]; do
    $function "$1" "$2" &
    shift 2
  done
}

# ---- the first process of the outer namespaces
lab() { # OPTION… -- PROGRAM…
  parse "$@"
  shift $options
  trap 'exit 99' EXIT # what fails before the launcher starts is not the program's failure
  mount -t tmpfs tmpfs /dev/shm # for the files of this run, which nobody else sees and nobody has to remove
  mount -t sysfs sysfs /sys
  hostname launcher
  printf '127.0.0.1 localhost\n10.1.0.254 launcher\n' >/dev/shm/hosts
  host=0 names=
  while [ $host -lt "$hosts" ]; do
    echo "10.0.0.$((host + 1)) host$host" >>/dev/shm/hosts
    names=${names:+$names,}host$host
    host=$((host + 1))
  done
  mount --bind /dev/shm/hosts /etc/hosts

  ip link set lo up
  ip link add data mtu "$mtu" type bridge
  ip link add control type bridge
  ip address add 10.1.0.254/24 dev control
  ip link set data up
  ip link set control up
  host=0
  while [ $host -lt "$hosts" ]; do
    make_host $host
    host=$((host + 1))
  done

  # Without this, UCX takes shared memory of the machine, and any network.
  export UCX_TLS="${UCX_TLS:-tcp,self}" UCX_NET_DEVICES=eth0 OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
  printf '#!/bin/sh\nexec sh "%s" enter "$@"\n' "$script" >/dev/shm/enter
  chmod +x /dev/shm/enter
  trap - EXIT
  set -- "$mpiexec" -launcher rsh -launcher-exec /dev/shm/enter -hosts "$names" -ppn "$ranks_per_host" -n "$ranks" "$@"
  if [ -z "$mark" ]; then
    "$@" &
    launcher=$!
  else
    mkfifo /dev/shm/stdout
    # Each line is passed on at once; those with the mark go to a file too.
    pattern=$(printf '%s' "$mark" | sed 's|[][\.*^$/]|\\&|g')
    sed -u "/$pattern/w /dev/shm/marked" </dev/shm/stdout &
    filter=$!
    "$@" >/dev/shm/stdout &
    launcher=$!
  fi
  each cut_link $cuts
  each freeze_rank $freezes
  if [ -n "$limit" ]; then expire "$limit" $launcher & fi
  status=0
  wait $launcher 2>/dev/null || status=$?
  [ -z "$mark" ] || wait $filter
  [ ! -e /dev/shm/expired ] || status=124
  exit $status
}

run() { # OPTION… -- PROGRAM…
  parse "$@"
  check
  # If this script is killed, so is unshare, and with it the first process.
  setpriv --pdeathsig KILL $spaces sh "$script" lab "$@" &
  outer=$!
  for signal in HUP INT TERM; do trap "stop $signal" $signal; done
  status=0
  wait $outer || status=$?
  exit $status
}

stop() { # SIGNAL: by the first process inside, so that unshare returns when all of them are gone
  trap '' HUP INT TERM
  first=$(grep -ls "^PPid:.$outer\$" /proc/[0-9]*/status || true)
  first=${first#/proc/}
  kill -KILL "${first%/status}" 2>/dev/null || kill -KILL $outer
  wait $outer 2>/dev/null || true
  trap - "$1"
  kill -"$1" $$
}

mpiexec=${MPIEXEC:-$(command -v mpiexec.mpich || echo mpiexec)}
export MPIEXEC="$mpiexec"

# Mount namespaces are private, so that no mount gets out. In a chroot, whose root is no mount point, unshare cannot make them so; the
# private root of cmake/toolchain.sh is in such a namespace already.
propagation=private
mountpoint -q / 2>/dev/null || propagation=unchanged
spaces="unshare --net --uts --ipc --mount --propagation $propagation --pid --fork --kill-child --mount-proc"
[ "$(id -u)" = 0 ] || spaces="$spaces --user --map-root-user"

action=${1-}
case $action in
  run | lab | host | links | enter | probe)
    shift
    "$action" "$@"
    ;;
  *) fail 2 "usage: sh hosts.sh run [OPTION…] -- PROGRAM [ARGUMENT…]" ;;
esac
