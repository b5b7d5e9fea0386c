// SPDX-License-Identifier: Apache-2.0
// A pipeline that is no neural network: bands of an image stream through three filters that lie on any number of ranks.
// A rank works on one band while the next rank works on the band before.    mpiexec -n 3 image_pipeline
#include <cstdio>
#include <kerkis/kerkis.hpp>
#include <vector>
namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;
using Image = kk::Matrix<float, Space>;
struct Band {            // what the pipeline calls a microbatch
  Image pixels, result;  // the first stage reads, the last stage writes
  std::int64_t first_sample;
  std::int64_t rows() const { return static_cast<std::int64_t>(pixels.extent(0)); }
};

struct Filter {  // 0: blurs each row, 1: adds contrast, 2: finds edges
  Image in, out;
  int kind;
  KOKKOS_FUNCTION void operator()(int row, int column) const {
    const int last = static_cast<int>(in.extent(1)) - 1;
    const auto at = [&](int c) { return in(row, c < 0 ? 0 : c > last ? last : c); };
    const float x = at(column), left = at(column - 1), right = at(column + 1);
    out(row, column) = kind == 0 ? (left + x + right) / 3 : kind == 1 ? x * x * (3 - 2 * x) : right - left;
  }
};

struct Filters {  // a stage: the filters of one rank
  using Element = float;
  using ExecutionSpace = Space;
  using Microbatch = Band;
  kk::Range kinds;
  std::int64_t width;
  bool first, last;
  std::int64_t columns() const { return width; }
  void forward(kk::Context<Space>& context, const Band& band, const Image& input, const Image& output) const {
    auto scope = context.workspace.scope();
    Image now = first ? band.pixels : input, end = last ? band.result : output;
    if (kinds.size() == 0) Kokkos::deep_copy(context.execution, end, now);  // more ranks than filters
    for (auto kind = kinds.begin; kind < kinds.end; ++kind) {
      const Image next = kind + 1 < kinds.end ? scope.take<float>(band.rows(), width) : end;
      const Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>> all(context.execution, {0, 0}, {band.rows(), width});
      Kokkos::parallel_for("filter", all, Filter{now, next, static_cast<int>(kind)});
      now = next;
      context.poll();  // so that bands move on meanwhile
    }
  }
};

/// Complete on the last rank.
Image process(const kk::Communicator& ranks, const Image& image, int count) {
  const auto height = static_cast<std::int64_t>(image.extent(0)), width = static_cast<std::int64_t>(image.extent(1));
  const Image result = kk::make_matrix<float, Space>("result", height, width);
  std::vector<Band> bands;
  for (int b = 0; b < count; ++b) {
    const auto [begin, end] = kk::partition(height, count, b);
    const auto rows = Kokkos::make_pair(begin, end);
    bands.push_back({Kokkos::subview(image, rows, Kokkos::ALL), Kokkos::subview(result, rows, Kokkos::ALL), begin});
  }
  Filters stage{kk::partition(3, ranks.size(), ranks.rank()), width, ranks.rank() == 0,
                ranks.rank() + 1 == ranks.size()};
  const auto table = kk::schedule::make_table<kk::ForwardOnly>({ranks.size(), count});
  kk::PipelineExecutor<Filters> executor(ranks, table, {&stage}, bands.front().rows());
  kk::Workspace<Space> workspace;
  executor.evaluate({.execution = {}, .workspace = workspace, .communicator = ranks}, bands);
  return result;
}
int main(int argc, char** argv) {
  return kk::run(argc, argv, [] {
    const kk::Communicator world(MPI_COMM_WORLD);
    const auto image = Kokkos::create_mirror_view(kk::make_matrix<float, Space>("image", 1080, 1920));
    for (std::size_t i = 0; i < image.size(); ++i) image.data()[i] = static_cast<float>(i * i % 97) / 97;
    const auto there = Kokkos::create_mirror_view_and_copy(Space(), image);
    const auto ours = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), process(world, there, 27));
    if (world.rank() + 1 < world.size()) return;
    const auto alone = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), process({}, there, 1));
    for (std::size_t i = 0; i < image.size(); ++i)
      if (ours.data()[i] != alone.data()[i]) throw kk::Error(kk::message("pixel ", i, " is wrong"));
    std::printf("27 bands through 3 filters on %d ranks: as on one\n", world.size());
  });
}
