// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/module/parameter_store.hpp>
#include <module/model.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using Store = kerkis::ParameterStore<T, Host>;

TEST_CASE_TEMPLATE("parameters lie one after another, aligned, apart, and zero", T, float, double) {
  for (const int ranks : {1, 2, 3}) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto model = Model<T>::make(rank, ranks);
      const Store<T> store(model, rank);
      std::int64_t end = 0;
      CHECK(store.parameters().size() == model.list.size());
      for (auto& parameter : model.list) {
        CAPTURE(parameter.name);
        const std::int64_t offset = store.offset(parameter);
        CHECK(offset >= end);
        CHECK(offset % 32 == 0);
        CHECK(parameter.value.data() == store.values().data() + offset);
        CHECK(static_cast<std::int64_t>(parameter.value.extent(0)) == parameter.size());
        CHECK(parameter.gradient.extent(0) == parameter.value.extent(0));
        CHECK(&store.at(parameter.name) == &parameter);
        end = offset + parameter.size();
      }
      CHECK(static_cast<std::int64_t>(store.values().extent(0)) >= end);
      CHECK(store.gradients().extent(0) == store.values().extent(0));
      CHECK(std::all_of(store.values().data(), store.values().data() + store.values().size(),
                        [](T value) { return value == 0; }));
    }
  }
}

TEST_CASE("names") {
  auto model = Model<float>::make(0, 1);
  CHECK_THROWS_WITH_AS(Store<float>(model, 0).at("missing"), "this rank has no parameter 'missing'",
                       kerkis::InputError);
  model.list.back().name = "gain";
  CHECK_THROWS_WITH_AS(Store<float>(model, 0), "two parameters are called 'gain'", kerkis::InputError);
}

TEST_CASE("a model has no memory before it has a store") {
  auto model = Model<float>::make(4, 5);  // of some parameters this rank has nothing
  CHECK_THROWS_WITH_AS(kerkis::require_memory(model),
                       "the parameter 'rows' has no memory: make a Trainer or a ParameterStore first",
                       kerkis::InputError);
  const Store<float> store(model, 4);
  CHECK_NOTHROW(kerkis::require_memory(model));
}

TEST_CASE("a model without parameters") {
  Model<float> none;
  const Store<float> store(none, 0);
  CHECK(store.values().extent(0) == 0);
  CHECK(store.pieces().extent(0) == 0);
  CHECK_NOTHROW(store.initialise(1));
}

TEST_CASE_TEMPLATE("slices begin with the bits of the whole", T, float, double) {
  auto whole = Model<T>::make(0, 1);
  Store<T>(whole, 0).initialise(42);
  for (const int ranks : {2, 3}) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto model = Model<T>::make(rank, ranks);
      const Store<T> store(model, rank);
      store.initialise(42);
      bool same = true;
      for (std::size_t p = 0; p < model.list.size(); ++p)
        for (std::int64_t i = 0; i < model.list[p].size(); ++i)
          same = same && model.list[p].value(static_cast<std::size_t>(i)) ==
                             whole.list[p].value(static_cast<std::size_t>(model.list[p].global_index(i)));
      CHECK(same);
    }
  }
}

TEST_CASE("initial values are what they say, and differ by seed and name") {
  auto model = Model<double>::make(0, 1);
  const Store<double> store(model, 0);
  store.initialise(1);
  double squares = 0;
  const auto& large = store.at("large").value;
  for (std::size_t i = 0; i < large.extent(0); ++i) squares += large(i) * large(i);
  CHECK(std::abs(std::sqrt(squares / static_cast<double>(large.extent(0))) - 0.5) < 0.01);
  CHECK(store.at("gain").value(8) == 1);
  CHECK(store.at("bias").value(1) == 0);
  const double first = large(0);
  CHECK(first / 0.5 != store.at("columns").value(0));
  store.initialise(2);
  CHECK(large(0) != first);
}

TEST_CASE("pieces cover every parameter, and each global element is counted once") {
  for (const int ranks : {1, 2, 3}) {
    std::int64_t counted = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto model = Model<float>::make(rank, ranks);
      model.list[4].counted = false;  // another pipeline stage counts it
      const Store<float> store(model, rank);
      std::vector<int> covered(store.values().extent(0));
      for (std::size_t p = 0; p < store.pieces().extent(0); ++p) {
        const kerkis::ParameterPiece piece = store.pieces()(p);
        CHECK(piece.size > 0);
        if (piece.counted) counted += piece.size;
        for (std::int64_t i = 0; i < piece.size; ++i)
          covered.at(static_cast<std::size_t>(piece.begin + i)) += piece.decays ? 1 : 10;
      }
      std::vector<int> expected(covered.size());
      for (const auto& parameter : model.list)
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(store.offset(parameter)), parameter.size(),
                    parameter.decays ? 1 : 10);
      CHECK(covered == expected);
      CHECK(store.pieces().extent(0) > model.list.size());  // the large one is several
    }
    CHECK(counted == 5 * 7 + 3 * 8 + 9 + 2);
  }
}

}  // namespace
