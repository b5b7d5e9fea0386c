// SPDX-License-Identifier: Apache-2.0
// The order of elements on the wire, packing and unpacking against plain loops, and when nothing is packed.
#include <doctest/doctest.h>
#include <kerkis/comm/wire.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "views.hpp"

namespace {

using kerkis::Communicator;
using kerkis::comm::Access;
using kerkis::comm::Shape;
using kerkis::comm::Wire;
using views::Host;
namespace comm = kerkis::comm;

template <Access access, class View>
Wire<access, Host, View> wire(const Communicator& world, const View& view) {
  return Wire(comm::use<access>(Host(), world, view, "test"));
}

/// How many elements are wrong after they went out of a View and others came in, or were written beside it.
template <class View, class Whole>
std::size_t wrong_through_wire(const Communicator& world, const View& view, const Whole& whole) {
  views::fill(whole, 1000);
  views::fill(view, 1);
  std::size_t bad = 0;
  auto both = wire<Access::read_write>(world, view);
  const auto run = both.run(world);
  if (run.count != view.size()) return 1;
  for (std::size_t i = 0; i < run.count; ++i) bad += run.data[i] == views::element<float>(i + 1) ? 0u : 1u;
  for (std::size_t i = 0; i < run.count; ++i) run.data[i] = views::element<float>(i + 500);
  both.finish();
  bad += views::wrong(view, 500);
  views::fill(view, 2);
  std::vector<float> before;
  views::in_order(whole, [&](float value) { before.push_back(value); });
  auto only_write = wire<Access::write>(world, view);
  for (std::size_t i = 0; i < run.count; ++i) only_write.run(world).data[i] = views::element<float>(i + 2);
  only_write.finish();
  std::size_t at = 0;
  views::in_order(whole, [&](float value) { bad += value == before[at++] ? 0u : 1u; });
  return bad;
}

TEST_CASE("a wire has the elements of any View in order, and puts them back") {
  for (const bool stage : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.stage = stage});
    std::string bad;
    views::families<float>([&](const auto& view, const auto& whole) {
      if (const std::size_t count = wrong_through_wire(world, view, whole); count > 0)
        bad += kerkis::message(count, " of a View of ", view.size(), " and rank ", view.rank(), "; ");
    });
    CHECK(bad == "");
  }
}

TEST_CASE("what lies as it goes is not copied") {
  const Communicator world(MPI_COMM_WORLD);
  const views::Of<float**, Kokkos::LayoutRight> matrix("matrix", 6, 8);
  const auto direct = [&](const auto& view) { return wire<Access::read>(world, view).run(world).data == view.data(); };
  CHECK(direct(matrix));
  CHECK(direct(Kokkos::subview(matrix, Kokkos::pair<int, int>(2, 4), Kokkos::ALL)));
  CHECK(direct(Kokkos::subview(matrix, 3, Kokkos::pair<int, int>(2, 4))));
  CHECK(direct(Kokkos::subview(matrix, Kokkos::pair<int, int>(2, 3), Kokkos::pair<int, int>(2, 4))));
  CHECK(direct(views::Of<const float**, Kokkos::LayoutRight>(matrix)));
  CHECK_FALSE(direct(Kokkos::subview(matrix, Kokkos::ALL, 3)));
  // Its memory has no gaps, but is in another order.
  using Stride = Kokkos::View<float**, Kokkos::LayoutStride, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  CHECK(direct(Stride(matrix.data(), Kokkos::LayoutStride(6, 8, 8, 1))));
  CHECK_FALSE(direct(Stride(matrix.data(), Kokkos::LayoutStride(8, 1, 6, 8))));
}

TEST_CASE("a rank that does not use a View keeps nothing of it") {
  const Communicator world(MPI_COMM_WORLD);
  const auto look = [&](const auto& view, std::size_t count) {
    const int owners = view.use_count();
    auto wires = comm::keep(world, comm::use<Access::read>(Host(), world, view, "test", false, false),
                            comm::use<Access::read_write>(Host(), world, view, "test"));
    const auto [none, all] = wires->runs(world);
    CHECK(none.count == 0);
    CHECK(none.data == nullptr);
    CHECK(all.count == count);
    CHECK(view.use_count() == owners + (owners > 0 ? 1 : 0));
    wires.reset();
    CHECK(view.use_count() == owners);
  };
  look(views::Of<float, Kokkos::LayoutRight>("one"), 1);
  look(views::Of<float[3], Kokkos::LayoutRight>("three"), 3);
  look(views::Of<float*, Kokkos::LayoutRight>("none", 0), 0);
  float memory[2] = {};
  look(Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(memory, 2), 2);
}

TEST_CASE("dimensions without a gap between them are one") {
  const views::Of<float***, Kokkos::LayoutRight> cube("cube", 4, 5, 6);
  const auto rank = [](const auto& view) { return comm::shape_of(view).rank; };
  CHECK(rank(cube) == 1);
  CHECK(rank(Kokkos::subview(cube, Kokkos::ALL, 2, Kokkos::ALL)) == 2);
  CHECK(rank(Kokkos::subview(cube, Kokkos::ALL, Kokkos::ALL, 2)) == 1);
  CHECK(comm::shape_of(Kokkos::subview(cube, Kokkos::ALL, Kokkos::ALL, 2)).stride[0] == 6);
  CHECK(rank(Kokkos::subview(cube, 1, Kokkos::pair<int, int>(1, 3), Kokkos::pair<int, int>(1, 3))) == 2);
}

/// Random shapes: parts of a shape, in slices, element by element, for each size of element.
TEST_CASE("any part of any shape") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}, std::size_t{8},
                                 std::size_t{16}, std::size_t{24}}) {
    for (int trial = 0; trial < 150; ++trial) {
      Shape shape;
      shape.rank = 1 + static_cast<int>(below(8));
      std::size_t count = 1, span = 1;
      // Dimensions in any order of memory.
      std::vector<std::size_t> order;
      for (int d = 0; d < shape.rank; ++d) order.push_back(static_cast<std::size_t>(d));
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t d : order) {
        shape.extent[d] = 1 + below(shape.rank > 4 ? 3 : shape.rank > 2 ? 9 : 150);
        shape.stride[d] = span + (below(2) == 0 ? 0 : below(3));
        span = shape.stride[d] * shape.extent[d];
        count *= shape.extent[d];
      }
      std::vector<char> memory(span * size), run(count * size), expected(count * size);
      for (char& byte : memory) byte = static_cast<char>(random());
      for (std::size_t i = 0; i < count; ++i) {
        std::size_t rest = i, offset = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(shape.rank); ++d) {
          offset += rest % shape.extent[d] * shape.stride[d];
          rest /= shape.extent[d];
        }
        for (std::size_t b = 0; b < size; ++b) expected[i * size + b] = memory[offset * size + b];
      }
      std::size_t begin = below(count + 1), end = below(count + 1);
      if (begin > end) std::swap(begin, end);
      const std::vector<char> before = memory;
      const std::size_t parts = 1 + below(5);
      comm::detail::CopySlice slice{run.data() + begin * size, memory.data(), shape, begin, end, size, parts, true};
      for (std::size_t part = 0; part < parts; ++part) slice(part);
      CHECK(std::equal(run.begin() + static_cast<std::ptrdiff_t>(begin * size),
                       run.begin() + static_cast<std::ptrdiff_t>(end * size),
                       expected.begin() + static_cast<std::ptrdiff_t>(begin * size)));
      // Back: what was there is there again, and nothing else has changed.
      for (std::size_t i = begin; i < end; ++i) {
        std::size_t rest = i, offset = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(shape.rank); ++d) {
          offset += rest % shape.extent[d] * shape.stride[d];
          rest /= shape.extent[d];
        }
        for (std::size_t b = 0; b < size; ++b) memory[offset * size + b] = 0;
      }
      slice.packing = false;
      for (std::size_t part = 0; part < parts; ++part) slice(part);
      CHECK(memory == before);
      if (size == 4) {  // as a device does it
        std::vector<int> words(span), out(count, -1);
        for (int& word : words) word = static_cast<int>(random());
        comm::detail::CopyElement<int> one{out.data(), words.data(), shape, begin, true};
        for (std::size_t i = 0; i < end - begin; ++i) one(i);
        std::vector<int> again(count, -1);
        comm::detail::copy_elements<true>(reinterpret_cast<char*>(again.data()), reinterpret_cast<char*>(words.data()),
                                          shape, begin, end, 4);
        CHECK(out == again);
        const std::vector<int> kept = words;
        one.packing = false;
        for (std::size_t i = 0; i < end - begin; ++i) one(i);
        CHECK(words == kept);
      }
    }
  }
}

TEST_CASE("large Views, on all cores") {
  const Communicator world(MPI_COMM_WORLD);
  const views::Of<double**, Kokkos::LayoutRight> matrix("matrix", 700, 301);
  const auto inner = Kokkos::subview(matrix, Kokkos::ALL, Kokkos::pair<int, int>(1, 300));
  views::fill(inner, 3);
  auto both = wire<Access::read_write>(world, inner);
  std::size_t bad = 0;
  for (std::size_t i = 0; i < inner.size(); ++i)
    bad += both.run(world).data[i] == views::element<double>(i + 3) ? 0u : 1u;
  CHECK(bad == 0);
  for (std::size_t i = 0; i < inner.size(); ++i) both.run(world).data[i] = views::element<double>(i + 9);
  both.finish();
  CHECK(views::wrong(inner, 9) == 0);
}

TEST_CASE("buffers are used again") {
  const Communicator world(MPI_COMM_WORLD);
  const views::Of<float**, Kokkos::LayoutRight> matrix("matrix", 60, 80);
  const auto column = Kokkos::subview(matrix, Kokkos::ALL, 3);
  const void* first = wire<Access::read>(world, column).run(world).data;
  CHECK(wire<Access::read>(world, column).run(world).data == first);
  auto kept = wire<Access::read>(world, column);
  auto moved = std::move(kept);
  CHECK(moved.run(world).data == first);
  CHECK(wire<Access::read>(world, column).run(world).data != first);
}

TEST_CASE("more than fits") {
  const Communicator world(MPI_COMM_WORLD);
  const auto bytes = [&](std::size_t n) {
    return comm::Resources::lend(comm::resources(world), comm::host_buffers(), n);
  };
  std::vector<comm::Block> many;
  for (std::size_t i = 0; i < 60; ++i) many.push_back(bytes(1 + i * 100));
  many.clear();
  CHECK(bytes(100).data() != nullptr);
  CHECK_THROWS_AS(bytes(std::size_t{1} << 60), std::bad_alloc);
  // Of nobody: a communicator of one rank without MPI.
  const comm::Block alone = comm::Resources::lend(nullptr, comm::host_buffers(), 10);
  CHECK(alone.data() != nullptr);
}

struct Pair {
  double a;
  int b;
};
struct Odd {
  char bytes[24];
};

TEST_CASE("types have names, sizes and limits") {
  const Communicator world(MPI_COMM_WORLD);
  const auto check = [&]<class T>(T, std::string_view name) {
    const comm::Datatype type = comm::datatype<T>(world);
    int size = 0;
    MPI_Type_size(type.native, &size);
    CHECK(size == static_cast<int>(sizeof(T)));
    CHECK(type.name == std::string(name));
  };
  check(char(), "char");
  check(static_cast<signed char>(0), "int8");
  check(static_cast<unsigned char>(0), "uint8");
  check(short(), "int16");
  check(1u, "uint32");
  check(1l, "int64");
  check(1ll, "int64");
  check(1ull, "uint64");
  check(wchar_t(), "int32");
  check(char16_t(), "uint16");
  check(1.0f, "float");
  check(1.0, "double");
  check(1.0l, "long double");
  check(true, "bool");
  check(Kokkos::complex<float>(), "complex<float>");
  check(Kokkos::complex<double>(), "complex<double>");
  check(kerkis::float16(), "float16");
  check(kerkis::bfloat16(), "bfloat16");
  const std::string pair = comm::datatype<Pair>(world).name;
  CHECK_MESSAGE(pair.ends_with("::Pair"), pair);
  check(std::array<short, 3>(), comm::type_name<std::array<short, 3>>());
  CHECK(comm::datatype<Pair>(world).name != comm::datatype<Odd>(world).name);
  CHECK(comm::datatype<Odd>(world).native == comm::datatype<Odd>(world).native);
  static_assert(!comm::is_movable<float*> && !comm::is_movable<std::vector<int>>);
}

TEST_CASE("MPI moves data from memory that it takes") {
  CHECK(comm::moves_data<Kokkos::HostSpace>(Host()));
  CHECK_FALSE(comm::mpi_takes_device_memory());
}

}  // namespace
