# SPDX-License-Identifier: Apache-2.0
# The private Debian 13 root of toolchain.sh:
#   private_root.sh make  ROOT MIRROR LOG                       makes it if it is not there
#   private_root.sh enter ROOT USER SOURCE SCRIPT [ARGUMENT…]   runs a script inside; started by `unshare --mount` as root

set -eu

action=$1 root=$2
marker=$root/etc/kerkis-root

make_root() { # MIRROR LOG
  mirror=$1 log=$2
  [ -f "$marker" ] && return
  mkdir -p "$(dirname "$root")"
  with_lock "$root.lock"
  [ -f "$marker" ] && return
  if [ -d "$root" ] && [ -n "$(ls -A "$root")" ]; then fail "$root is not empty, and it is no root of kerkis; set KERKIS_DEBIAN"; fi
  say "making a private Debian 13 in $root (about 2 GB, a minute or two); nothing else on the system changes"

  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  if ! command -v debootstrap >/dev/null || [ ! -f "$keyring" ]; then
    say "installing debootstrap"
    as_root apt-get update >"$log" 2>&1 || true # one broken source of many is no reason to stop
    quietly retry as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap debian-archive-keyring
  fi
  # debootstrap knows apt's proxy only by the environment.
  if [ -z "${http_proxy-}" ]; then
    proxy=$(apt-config dump | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
    if [ -n "$proxy" ]; then export http_proxy="$proxy"; fi
  fi
  # An older debootstrap does not know the release's name; the recipe is the same. Without a mirror it takes its own default.
  recipe=
  if [ -n "$mirror" ] && [ ! -e /usr/share/debootstrap/scripts/trixie ]; then recipe=/usr/share/debootstrap/scripts/sid; fi

  as_root rm -rf --one-file-system "$root.new"
  quietly retry bootstrap
  new=$root.new
  # What apt needs of this system to reach the mirror: its settings and the certificates it trusts.
  apt-config dump | grep -iE '^Acquire::(http|https|ftp|socks|Check-|Retries|ForceIPv|GzipIndexes|Queue)' |
    as_root tee "$new/etc/apt/apt.conf.d/00kerkis" >/dev/null || true
  if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    as_root mkdir -p "$new/etc/ssl/certs" "$new/usr/local/share/ca-certificates"
    as_root cp -L /etc/ssl/certs/ca-certificates.crt "$new/etc/ssl/certs/"
    if [ -d /usr/local/share/ca-certificates ]; then
      as_root cp -RL /usr/local/share/ca-certificates/. "$new/usr/local/share/ca-certificates/"
    fi
  fi
  as_root touch "$new/etc/kerkis-root"
  if [ -d "$root" ]; then as_root rmdir "$root"; fi
  as_root mv "$new" "$root"
}

# In a mount namespace of its own, for what debootstrap mounts must not outlive it. A failed try leaves nothing for the next.
bootstrap() {
  as_root rm -rf --one-file-system "$root.new" &&
    as_root env LC_ALL=C unshare --mount debootstrap --variant=minbase --keyring="$keyring" trixie "$root.new" $mirror $recipe
}

# Binds a folder (or file) at its own path. Not recursively: the root may lie inside it.
bind_here() { # PATH
  case $1 in
    / | /usr | /usr/bin | /usr/lib | /usr/share | /usr/local | /bin | /sbin | /lib* | /var | /var/lib | /var/cache | /run) return ;;
    /etc/* | /etc | /dev | /dev/* | /proc | /proc/* | /sys | /sys/*) return ;; # the root has its own
  esac
  [ -d "$1" ] || return 0
  mkdir -p "$root$1"
  mount --bind "$1" "$root$1"
}

enter_root() { # USER SOURCE SCRIPT ARGUMENT…
  user=$1 source=$2
  shift 2
  for folder in /dev /proc /sys; do mount --rbind "$folder" "$root$folder"; done
  for file in /etc/resolv.conf /etc/hosts; do
    if [ -f "$file" ]; then
      [ -f "$root$file" ] || : >"$root$file"
      mount --bind "$(readlink -f "$file")" "$root$file"
    fi
  done
  home=$(CDPATH='' cd -- "$HOME" && pwd -P)
  here=$(pwd -P)
  for folder in /tmp "$(readlink -f "${TMPDIR:-/tmp}")" "$home" "$source" "${source%/*}/shared" "$here"; do bind_here "$folder"; done
  # The environment passes, but for what names tools and libraries of the system outside.
  unset CC CXX LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH PYTHONPATH PYTHONHOME PKG_CONFIG_PATH CMAKE_PREFIX_PATH Kokkos_ROOT MPI_HOME
  unset SSL_CERT_FILE SSL_CERT_DIR
  export HOME="$home" KERKIS_INSIDE="$root" KERKIS_USER="$user" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  # shellcheck disable=SC2016
  exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec sh "$@"' sh "$here" "$@"
}

shift 2
case $action in
  make)
    . "$(dirname "$0")/shell.sh"
    make_root "$@"
    ;;
  enter) enter_root "$@" ;;
esac
