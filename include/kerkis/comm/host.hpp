// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kerkis::comm {

/// The running kernel: ranks that share it share its cores.
inline std::array<char, 40> kernel_id() {
  std::array<char, 40> id{};
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (std::fgets(id.data(), static_cast<int>(id.size()), file) == nullptr) id = {};
    std::fclose(file);
  }
  if (id[0] == '\0') gethostname(id.data(), id.size() - 1);
  return id;
}

/// What processes of one kernel must share beside it to see each other: shared memory, process numbers, network.
inline std::array<std::uint64_t, 3> namespaces() {
  std::array<std::uint64_t, 3> ids{};
  struct stat found;
  if (stat("/dev/shm", &found) == 0) ids[0] = found.st_dev;
  if (stat("/proc/self/ns/pid", &found) == 0) ids[1] = found.st_ino;
  if (stat("/proc/self/ns/net", &found) == 0) ids[2] = found.st_ino;
  return ids;
}

/// The cores that this process may use.
struct Cores {
  std::array<std::uint64_t, 16> set{};  ///< one bit each
  int count = 0;
};
inline Cores cores() {
  Cores cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < 64 * cores.set.size() && core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.set[core / 64] |= std::uint64_t{1} << core % 64;
  cores.count = CPU_COUNT(&set);
  return cores;
}

/// Ranks of the whole job on this host, as MPICH's or Open MPI's launcher says; 0 if none does.
inline int ranks_by_launcher() {
  for (const char* const name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (const char* const ranks = std::getenv(name)) return std::atoi(ranks);
  return 0;
}

enum class ProcessState : std::int32_t { unknown, runs, stopped, gone };

/// As /proc has it, without the process' help.
inline ProcessState process_state(int pid) {
  if (pid <= 0) return ProcessState::unknown;
  const auto path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return errno == ENOENT && access("/proc/self/stat", R_OK) == 0 ? ProcessState::gone : ProcessState::unknown;
  char text[512];
  const auto length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return ProcessState::gone;
  text[length] = '\0';
  const char* state = std::strrchr(text, ')');  // the name before it may hold anything
  if (state == nullptr || std::strlen(state) < 3) return ProcessState::unknown;
  switch (state[2]) {
  case 'T':
  case 't':
    return ProcessState::stopped;
  case 'Z':
  case 'X':
  case 'x':
    return ProcessState::gone;
  default:
    return ProcessState::runs;
  }
}

}  // namespace kerkis::comm
