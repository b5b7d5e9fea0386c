// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/data/text_corpus.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using namespace kerkis;
namespace fs = std::filesystem;

std::string words(const TextCorpus::Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

/// A folder that rank 0 makes and removes; its name is known on every rank.
class Folder {
 public:
  explicit Folder(const Communicator& world) : mine_(world.rank() == 0) {
    Kokkos::View<int, Kokkos::HostSpace> process("process");
    process() = getpid();
    broadcast(Kokkos::DefaultHostExecutionSpace(), world, process).wait();
    path = fs::temp_directory_path() / message("kerkis.text_corpus.", process());
    if (mine_) fs::create_directories(path);
  }
  ~Folder() {
    std::error_code error;
    if (mine_) fs::remove_all(path, error);
  }
  void write(const std::string& name, const std::string& text) const {
    if (mine_) std::ofstream(path / name, std::ios::binary) << text;
  }

  fs::path path;

 private:
  bool mine_;
};

TEST_CASE("a file of any bytes: its last tenth is held out") {
  const Communicator world(MPI_COMM_WORLD);
  const Folder folder(world);
  std::string text = "0123456789abcdefghij\r\n";
  text += std::string("\0\xff\x1a", 3);
  folder.write("text", text);
  const auto corpus = TextCorpus::from_file(world, folder.path / "text");
  CHECK(words(corpus.training) == text.substr(0, 23));
  CHECK(words(corpus.validation) == text.substr(23));

  const auto half = TextCorpus::from_file(world, folder.path / "text", 12);  // at least so many bytes
  CHECK(words(half.training) == text.substr(0, 13));
  CHECK(words(half.validation) == text.substr(13));

  const std::string large(3'000'000, 'x');
  folder.write("large", large);
  CHECK(TextCorpus::from_file(world, folder.path / "large").training.size() == 2'700'000);
}

TEST_CASE("a folder: sorted, without links and folders; the first and the last file are held out") {
  const Communicator world(MPI_COMM_WORLD);
  const Folder folder(world);
  for (const char* name : {"d", "b", "c", "a"}) folder.write(name, std::string(3, *name));
  if (world.rank() == 0) {
    fs::create_symlink("a", folder.path / "link");
    fs::create_directory(folder.path / "0");
  }
  const auto corpus = TextCorpus::from_folder(world, folder.path);
  CHECK(words(corpus.training) == "bbbccc");
  CHECK(words(corpus.validation) == "aaaddd");
}

TEST_CASE("what cannot be read is refused on every rank in the same words") {
  const Communicator world(MPI_COMM_WORLD);
  const Folder folder(world);
  const std::string path = folder.path.string();
  CHECK_THROWS_WITH_AS(TextCorpus::from_file(world, folder.path / "missing"),
                       ("the text '" + path + "/missing' does not exist").c_str(), InputError);
  CHECK_THROWS_WITH_AS(TextCorpus::from_file(world, folder.path),
                       ("the text '" + path + "' is a folder, not a file").c_str(), InputError);
  CHECK_THROWS_WITH_AS(TextCorpus::from_folder(world, folder.path / "missing"),
                       ("the folder '" + path + "/missing' can't be read: No such file or directory").c_str(),
                       InputError);
  folder.write("empty", "");
  CHECK_THROWS_WITH_AS(
      TextCorpus::from_file(world, folder.path / "empty"),
      ("the text '" + path + "/empty' has 0 bytes; at least 2 are needed, half to train on and half held out").c_str(),
      InputError);
  CHECK_THROWS_WITH_AS(TextCorpus::from_file(world, "/dev/zero"), "the text '/dev/zero' is not a regular file",
                       InputError);
  if (world.rank() == 0) fs::remove(folder.path / "empty");
  folder.write("a", "a");
  folder.write("b", "b");
  CHECK_THROWS_WITH_AS(TextCorpus::from_folder(world, folder.path / "a"),
                       ("the folder '" + path + "/a' can't be read: Not a directory").c_str(), InputError);
  CHECK_THROWS_WITH_AS(
      TextCorpus::from_folder(world, folder.path),
      ("the folder '" + path + "' has 2 files; at least 3 are needed, of which two are held out").c_str(), InputError);
  // Opens, and fails when it is read.
  CHECK_THROWS_WITH_AS(TextCorpus::from_file(world, "/proc/self/mem"),
                       "the text '/proc/self/mem' can't be read: Input/output error", InputError);
  if (geteuid() != 0) {  // root may read everything
    folder.write("secret", "s");
    if (world.rank() == 0) fs::permissions(folder.path / "secret", fs::perms::none);
    CHECK_THROWS_WITH_AS(TextCorpus::from_file(world, folder.path / "secret"),
                         ("the text '" + path + "/secret' can't be read: Permission denied").c_str(), InputError);
  }
  CHECK_NOTHROW(barrier(world).wait());
}

}  // namespace
