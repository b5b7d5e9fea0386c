// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the input of a Batch is a kerkis::Matrix, a View of rank 2
// EXPECT 2: a matrix product takes Views of rank 2
#include <kerkis/device/gemm.hpp>
#include <kerkis/pipeline/module_stage.hpp>

#include <type_traits>

using Space = Kokkos::DefaultHostExecutionSpace;
using Matrix = kerkis::Matrix<double, Space>;
template <int mistake>
using View = std::conditional_t<KERKIS_MISTAKE == mistake, kerkis::Vector<double, Space>, Matrix>;

struct Batch {
  std::int64_t first_sample = 0;
  View<1> input;
  std::int64_t rows() const { return static_cast<std::int64_t>(input.extent(0)); }
};
struct Sum {
  kerkis::LossSum operator()(kerkis::Context<Space>&, const Batch&, const Matrix&, const Matrix&) const { return {}; }
};

kerkis::ModuleStage<Batch, Sum, Space> stage({.first = true, .last = true, .columns = 1});

void product(const Matrix& a, const View<2>& b) {
  using kerkis::device::Transpose;
  kerkis::device::gemm(Space(), Transpose::no, Transpose::no, 1, a, b, 0, a);
}
