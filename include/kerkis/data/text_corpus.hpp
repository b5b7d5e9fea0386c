// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/on_root.hpp>
#include <kerkis/core/error.hpp>

namespace kerkis {

/// A text in two parts, the same on every rank.
struct TextCorpus {
  using Bytes = std::vector<std::uint8_t>;  ///< each a token
  Bytes training,                           ///< to train on
      validation;                           ///< held out

  /// One file, of any bytes; its last tenth is held out, but at least `least` bytes. Rank 0 reads it and sends it to
  /// the others. Throws InputError on every rank if it cannot be read or has fewer than 2 · least bytes.
  static TextCorpus from_file(const Communicator& communicator, const std::filesystem::path& path,
                              std::size_t least = 1) {
    TextCorpus corpus;
    on_root(communicator, [&] {
      Bytes all = read(path);
      require(all.size() >= 2 * least, "the text '", path.string(), "' has ", all.size(), " bytes; at least ",
              2 * least, " are needed, half to train on and half held out");
      const auto kept = static_cast<std::ptrdiff_t>(all.size() - std::max(least, all.size() / 10));
      corpus.validation.assign(all.begin() + kept, all.end());
      all.resize(static_cast<std::size_t>(kept));
      corpus.training = std::move(all);
    });
    corpus.share(communicator);
    return corpus;
  }

  /// The regular files of a folder in sorted order, without symbolic links; the first and the last are held out, whole.
  /// Throws InputError on every rank if there are fewer than three or one cannot be read.
  static TextCorpus from_folder(const Communicator& communicator, const std::filesystem::path& folder) {
    TextCorpus corpus;
    on_root(communicator, [&] {
      std::vector<std::filesystem::path> files;
      std::error_code error;
      for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
           entry.increment(error))
        if (entry->symlink_status().type() == std::filesystem::file_type::regular) files.push_back(entry->path());
      require(!error, "the folder '", folder.string(), "' can't be read: ", error.message());
      require(files.size() >= 3, "the folder '", folder.string(), "' has ", files.size(),
              " files; at least 3 are needed, of which two are held out");
      std::sort(files.begin(), files.end());
      for (std::size_t f = 0; f < files.size(); ++f) {
        const Bytes text = read(files[f]);
        Bytes& part = f == 0 || f + 1 == files.size() ? corpus.validation : corpus.training;
        part.insert(part.end(), text.begin(), text.end());
      }
    });
    corpus.share(communicator);
    return corpus;
  }

 private:
  static Bytes read(const std::filesystem::path& path) {
    std::error_code error;
    require(std::filesystem::exists(path, error), "the text '", path.string(), "' does not exist");
    require(!std::filesystem::is_directory(path, error), "the text '", path.string(), "' is a folder, not a file");
    require(std::filesystem::is_regular_file(path, error), "the text '", path.string(), "' is not a regular file");
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    Bytes bytes;
    char chunk[1 << 16];
    while (file.read(chunk, sizeof chunk) || file.gcount() > 0) bytes.insert(bytes.end(), chunk, chunk + file.gcount());
    require(file.is_open() && !file.bad(), "the text '", path.string(), "' can't be read: ", std::strerror(errno));
    return bytes;
  }

  void share(const Communicator& communicator) {
    const Kokkos::DefaultHostExecutionSpace host;
    for (Bytes* bytes : {&training, &validation}) {
      Kokkos::View<std::int64_t, Kokkos::HostSpace> size("kerkis::corpus");
      size() = static_cast<std::int64_t>(bytes->size());
      broadcast(host, communicator, size).wait();
      bytes->resize(static_cast<std::size_t>(size()));
      broadcast(host, communicator, Kokkos::View<std::uint8_t*, Kokkos::HostSpace>(bytes->data(), bytes->size()))
          .wait();
    }
  }
};

}  // namespace kerkis
