// SPDX-License-Identifier: Apache-2.0
#pragma once

// The main function of a test program whose cases run on several MPI ranks at once. Include it in one source file, or
// link a file that does.
// - MPI (MPI_THREAD_FUNNELED) and Kokkos are started before the first case and ended after the last.
// - Every rank runs all cases in the same order. The program fails on all ranks when a check fails on any.
// - Rank 0 prints doctest's report; the others print their failures only, each line with its rank.
// - Each case has KERKIS_TEST_TIMEOUT seconds (120); one that hangs is named, with its rank, and the job ends.
// Inside a case, a check that can fail on one rank only must be a CHECK: REQUIRE leaves the case, and the other ranks
// wait at the next collective.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <mpi.h>
#include <streambuf>
#include <string>

#include <Kokkos_Core.hpp>

#include <kerkis/testing/any_rank.hpp>
#include <kerkis/testing/watchdog.hpp>

namespace kerkis::testing {

/// Passes whole lines on, each after "[rank N] ", in one write, so that the lines of several ranks do not mix.
class RankLines : public std::streambuf {
 public:
  /// `target` must outlive it.
  RankLines(int rank, std::ostream& target) : prefix_("[rank " + std::to_string(rank) + "] "), target_(target) {}

  ~RankLines() override {
    if (!line_.empty()) finish();
  }

 protected:
  int overflow(int character) override {
    if (character == traits_type::eof()) return 0;
    if (character == '\n') {
      finish();
    } else {
      line_ += static_cast<char>(character);
    }
    return character;
  }

 private:
  void finish() {
    target_ << prefix_ + line_ + '\n' << std::flush;
    line_.clear();
  }

  std::string prefix_;
  std::string line_;
  std::ostream& target_;
};

/// Tells the watchdog which case runs.
class CaseListener : public doctest::IReporter {
 public:
  /// As doctest makes it.
  explicit CaseListener(const doctest::ContextOptions&) {}

  /// The one that is told; null: none.
  static Watchdog*& watchdog() {
    static Watchdog* instance = nullptr;
    return instance;
  }

  void test_case_start(const doctest::TestCaseData& test) override {
    if (watchdog()) watchdog()->watch(test.m_name, test.m_file.c_str(), test.m_line);
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    if (watchdog()) watchdog()->watch("between two test cases", __FILE__, __LINE__);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

/// Runs the test cases on every rank, and returns 1 everywhere if a check failed anywhere. Collective over the world.
inline int run_cases(int argc, char** argv, int rank, Watchdog& watchdog) {
  MPI_Comm agreement = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &agreement);

  CaseListener::watchdog() = &watchdog;
  doctest::registerReporter<CaseListener>("kerkis", 1, false);

  bool failed = false;
  {
    RankLines lines(rank, std::cout);
    std::ostream prefixed(&lines);
    doctest::Context context(argc, argv);
    if (rank != 0) {
      context.setOption("minimal", true);
      context.setOption("no-colors", true);
      context.setCout(&prefixed);
    }
    failed = context.run() != 0;
  }
  watchdog.watch("waiting for the other ranks, after the last test case", __FILE__, __LINE__);
  const bool any_failed = any_rank(agreement, failed);
  if (rank == 0 && any_failed && !failed)
    std::cout << "kerkis: no check failed on rank 0, but some did on other ranks" << std::endl;
  MPI_Comm_free(&agreement);
  return any_failed ? 1 : 0;
}

}  // namespace kerkis::testing

/// Of every test program: MPI and Kokkos, then the cases, under the watchdog.
int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = 1;
  {
    kerkis::testing::Watchdog watchdog(rank);
    watchdog.watch("Kokkos::initialize", __FILE__, __LINE__);
    Kokkos::initialize(Kokkos::InitializationSettings().set_disable_warnings(true));
    status = kerkis::testing::run_cases(argc, argv, rank, watchdog);
    watchdog.watch("Kokkos::finalize and MPI_Finalize", __FILE__, __LINE__);
    Kokkos::finalize();
    MPI_Finalize();
  }
  return status;
}
