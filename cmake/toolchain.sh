# SPDX-License-Identifier: Apache-2.0
# Finds or makes the tool chain. Sourced by demo.sh, check.sh, bench.sh and run.sh, which set `extras` (further Debian packages) before.
# When it returns, the rest of the script runs where CMake finds every part:
#   1. as it is, if CMake finds them all already;
#   2. on Debian 13 or newer, after installing packages and unpacking Kokkos into the build tree;
#   3. on an older Debian or Ubuntu with root, in a private Debian 13 root, where the script is started again (private_root.sh);
#   4. else it says what is missing and exits with 1.
# Environment: KERKIS_DEBIAN folder of the private root, ~/.cache/kerkis/debian13 if unset
#              KERKIS_MIRROR Debian mirror for it, the system's own if unset

set -eu

source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
build=$source/build
tools=$build/toolchain
log=$tools/log
root=${KERKIS_DEBIAN:-$HOME/.cache/kerkis/debian13}
case $root in /*) ;; *) root=$(pwd -P)/$root ;; esac

packages="g++ cmake ninja-build pkgconf mpich libmpich-dev libopenblas-openmp-dev libboost-dev doctest-dev libbenchmark-dev
nlohmann-json3-dev libcli11-dev libhwloc-dev"
cmake_options=
mpiexec=mpiexec

. "$source/cmake/shell.sh"

# ---- 1. does CMake find every part? The answer is kept until the environment that it depends on changes.
probe() {
  key="$source ${CXX-} ${CMAKE_PREFIX_PATH-} ${Kokkos_ROOT-} ${LD_LIBRARY_PATH-} $PATH"
  if [ -f "$tools/probe.key" ] && [ "$(cat "$tools/probe.key")" = "$key" ]; then
    [ -f "$tools/probe.found" ]
    return
  fi
  rm -rf "$tools/probe" "$tools/probe.key" "$tools/probe.found"
  if command -v cmake >/dev/null && cmake -G Ninja -S "$source/cmake/probe" -B "$tools/probe" >"$tools/probe.log" 2>&1; then
    : >"$tools/probe.found"
  fi
  printf '%s\n' "$key" >"$tools/probe.key"
  [ -f "$tools/probe.found" ]
}

# ---- 2. Debian 13 or newer
installed() { # PACKAGES…
  count=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null | grep -c '^installed$') || true
  [ "$count" -ge $# ]
}

# Debian's alternatives for MPI, "NAME PATH" a line.
mpi_choices() { update-alternatives --get-selections 2>/dev/null | awk '$1 ~ /^mpi(run|-.*)?$/ { print $1, $3 }'; }

install_packages() { # PACKAGES…
  installed "$@" && return
  say "installing packages: $*"
  # The folder is locked against other runs of these scripts, not against apt, which has its own lock.
  quietly retry as_root flock /var/lib/apt apt-get update
  before=$(mpi_choices)
  quietly retry as_root flock /var/lib/apt env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
  quietly as_root apt-get clean
  # Another MPI beside does not change what mpicxx and mpiexec mean; where they meant nothing, they are MPICH's.
  mpi_choices | while read -r name now; do
    choice=$(echo "$before" | sed -n "s|^$name ||p")
    [ -n "$choice" ] || choice=$(update-alternatives --list "$name" | grep mpich | head -n 1)
    [ -z "$choice" ] || [ "$choice" = "$now" ] || quietly as_root update-alternatives --set "$name" "$choice"
  done
}

private_apt() { # COMMAND ARGUMENT…: apt with lists, archives and settings of its own
  command=$1
  shift
  APT_CONFIG=$tools/apt/apt.conf "$command" "$@"
}

# Debian's stable has no Kokkos 5. The two packages of unstable are unpacked beside the build; the system does not learn of them.
fetch_kokkos() {
  kokkos=$tools/kokkos
  if [ ! -f "$kokkos/whole" ]; then
    say "fetching Kokkos from Debian's unstable into $kokkos"
    mirror=${KERKIS_MIRROR:-$(system_mirror)}
    [ -n "$mirror" ] || fail "apt's sources name no Debian mirror; set KERKIS_MIRROR"
    rm -rf "$tools/apt" "$kokkos"
    mkdir -p "$tools/apt/lists/partial" "$tools/apt/archives/partial" "$tools/apt/state" "$kokkos.new"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keyring" ] || keyring=/usr/share/keyrings/debian-archive-keyring.pgp
    # Only this index may be past its date: a mirror can be frozen, and the packages' signatures count all the same.
    echo "deb [signed-by=$keyring check-valid-until=no] $mirror unstable main" >"$tools/apt/sources.list"
    cat >"$tools/apt/apt.conf" <<END
Dir::Etc::SourceList "$tools/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$tools/apt/state";
Dir::State::Lists "$tools/apt/lists";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "$tools/apt";
Dir::Cache::Archives "$tools/apt/archives";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
    quietly retry private_apt apt-get update
    runtime=$(private_apt apt-cache depends --no-recommends --no-suggests libkokkos-dev |
      sed -n 's/^ *Depends: \(libkokkos[0-9.-]*\)$/\1/p' | head -n 1)
    [ -n "$runtime" ] || fail "the mirror's unstable has no libkokkos-dev"
    # apt-get download writes into the working directory.
    (cd "$tools/apt/archives" && quietly retry private_apt apt-get download libkokkos-dev "$runtime")
    for package in "$tools"/apt/archives/*.deb; do dpkg-deb -x "$package" "$kokkos.new"; done
    # Its CMake files name the headers where Debian installs them, and two archives of header-only parts that the package does not hold.
    for file in "$kokkos.new"/usr/lib/*/cmake/Kokkos/KokkosTargets.cmake; do
      # shellcheck disable=SC2016
      sed -i 's|"/usr/include|"${_IMPORT_PREFIX}/include|' "$file"
    done
    library=$(dirname "$(find "$kokkos.new/usr/lib" -name libkokkoscore.so | head -n 1)")
    for name in algorithms simd; do
      [ -e "$library/libkokkos$name.a" ] || ar qc "$library/libkokkos$name.a" 2>/dev/null
    done
    : >"$kokkos.new/whole"
    mv "$kokkos.new" "$kokkos"
    rm -rf "$tools/apt"
  fi
  Kokkos_ROOT=$kokkos/usr
  export Kokkos_ROOT
}

debian() {
  # The names are words to split.
  # shellcheck disable=SC2086
  install_packages $packages ${extras-}
  if [ -n "${KERKIS_USER-}" ] && [ "$(id -u)" = 0 ]; then
    # The private root was entered through sudo: what follows belongs to the user who asked.
    chown -R "$KERKIS_USER" "$tools"
    release_lock
    exec setpriv --reuid="${KERKIS_USER%:*}" --regid="${KERKIS_USER#*:}" --clear-groups sh "$0" "$@"
  fi
  fetch_kokkos
  # MPICH may stand beside another MPI.
  mpiexec=$(command -v mpiexec.mpich)
  cmake_options="-DMPI_CXX_COMPILER=mpicxx.mpich -DMPIEXEC_EXECUTABLE=$mpiexec"
}

# ---- 4. nothing can be installed
refuse() {
  rm -f "$tools/probe.key" # looks again next time
  {
    echo "kerkis: CMake does not find every part, and nothing can be installed here ($1). Needed:"
    echo "  CMake 3.25, Ninja, a C++20 compiler (GCC 12 or clang 16), an MPI-3.1 (MPICH), Kokkos 4.6 or newer with OpenMP,"
    echo "  OpenBLAS (its OpenMP build) with cblas.h, nlohmann-json, Boost 1.81 or newer, CLI11, doctest, Google Benchmark"
    if [ -f "$tools/probe.log" ]; then sed -n 's/^.*KERKIS_MISSING /  missing: /p' "$tools/probe.log"; else echo "  missing: cmake"; fi
    echo "Usual ways:"
    echo "  Spack:    spack install cmake ninja mpich kokkos+openmp openblas threads=openmp nlohmann-json boost cli11 doctest benchmark; spack load …"
    echo "  modules:  module load cmake mpich kokkos openblas boost"
    echo "  source:   build Kokkos with -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON, then set Kokkos_ROOT or CMAKE_PREFIX_PATH"
    echo "The probe's whole output: $tools/probe.log"
  } >&2
  exit 1
}

mkdir -p "$tools"
with_lock "$tools/lock"
if [ -n "${KERKIS_INSIDE-}" ]; then
  debian "$@"
elif ! probe; then
  ID='' VERSION_ID='' PRETTY_NAME='this system'
  if [ -r /etc/os-release ]; then . /etc/os-release; fi
  command -v apt-get >/dev/null || refuse "$PRETTY_NAME has no apt"
  # Testing and unstable have no number.
  if [ "$ID" = debian ] && [ "${VERSION_ID:-99}" -ge 13 ]; then
    # shellcheck disable=SC2086
    can_be_root || installed $packages ${extras-} || refuse "no root, no sudo"
    debian "$@"
  else
    can_be_root || refuse "no root, no sudo"
    as_root unshare --mount true 2>/dev/null || refuse "this container may not mount"
    user=
    [ "$(id -u)" = 0 ] || user=$(id -u):$(id -g)
    mirror=${KERKIS_MIRROR-}
    # Asking apt takes a second: only where the answer is needed.
    if [ "$ID" = debian ] && [ -z "$mirror" ] && [ ! -f "$root/etc/kerkis-root" ]; then mirror=$(system_mirror); fi
    sh "$source/cmake/private_root.sh" make "$root" "$mirror" "$log"
    script=$source/cmake/$(basename "$0")
    release_lock
    if [ -z "$user" ]; then
      exec unshare --mount sh "$source/cmake/private_root.sh" enter "$root" "" "$source" "$script" "$@"
    else
      exec sudo -E env HOME="$HOME" unshare --mount sh "$source/cmake/private_root.sh" enter "$root" "$user" "$source" "$script" "$@"
    fi
  fi
fi
release_lock

# configure PRESET: CMake's configure step in build/PRESET. Later runs leave it to Ninja, unless another tool chain made the folder.
configure() {
  made_by="${KERKIS_INSIDE-} ${Kokkos_ROOT-} $(command -v cmake)"
  if [ ! -f "$build/$1/build.ninja" ] || [ "$(cat "$build/$1/toolchain" 2>/dev/null)" != "$made_by" ]; then
    say "configuring build/$1"
    options=$cmake_options
    if [ "$1" = openmpi ]; then options=; fi # this preset names its MPI
    # shellcheck disable=SC2086
    (cd "$source" && quietly cmake --preset "$1" --fresh $options)
    printf '%s\n' "$made_by" >"$build/$1/toolchain"
  fi
}
