// SPDX-License-Identifier: Apache-2.0
// The test of the equivalence test: faults are planted beneath the library, in MPI_Iallreduce, or in the optimizer, and
// must be seen.

#include <doctest/doctest.h>
#include <mpi.h>

#include <functional>
#include <kerkis/kerkis.hpp>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {
/// Called with the buffer of an all_reduce before it starts; returns whether the reduction is to be left out.
std::function<bool(void* buffer, int count, MPI_Comm communicator)> fault;
}  // namespace

/// Takes the place of the MPI library's function, which remains under its profiling name.
extern "C" int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op operation,
                              MPI_Comm communicator, MPI_Request* request) {
  if (fault && fault(receive, count, communicator)) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  return PMPI_Iallreduce(send, receive, count, type, operation, communicator, request);
}

namespace {

using Plan = DynamicPlan<kk::OneForwardOneBackward>;

struct Seen {
  bool losses = false, norms = false;
};

/// Whether losses or norms leave the serial ones when `plant(mesh, model)` has set a fault.
template <class Plant>
Seen seen(std::size_t data, std::size_t tensor, std::size_t pipeline, Plant&& plant) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Case c{.name = "fault"};
  const Trace reference = serial<double>(world, c);
  const kk::Mesh<Plan> mesh(world.native(), kk::data(data), kk::tensor(tensor), kk::pipeline(pipeline));
  const Trace trace = train<double>(mesh, c, plant);
  fault = nullptr;
  double losses = 0, norms = 0, parameters = 0;
  CHECK_FALSE(equal<double>(trace, reference, losses, norms, parameters));
  return {losses > 1e-11, norms > 1e-11};
}

const auto skip_on = [](MPI_Comm axis) {
  fault = [axis](void*, int, MPI_Comm communicator) { return communicator == axis; };
};

/// AdamW whose step is not taken back: its moments, or the values, stay as they were.
template <bool values>
struct Forgetful : kk::optim::AdamW {
  template <class T, class ExecutionSpace>
  class State : public kk::optim::AdamW::State<T, ExecutionSpace> {
    using Base = kk::optim::AdamW::State<T, ExecutionSpace>;
    using Store = kk::ParameterStore<T, ExecutionSpace>;

   public:
    explicit State(const Store& store) : Base(store), values_(store.values()), after_("after", values_.extent(0)) {}

    void step(const ExecutionSpace& execution, const Forgetful& settings, const Store& store,
              const kk::FinishedGradients& finished, double scale, double rate) {
      Base::step(execution, settings, store, finished, scale, rate);
      Kokkos::deep_copy(execution, after_, values_);
      has_stepped_ = true;
    }
    void copy(const ExecutionSpace& execution, const State& other) {
      if (!has_stepped_ || values) Base::copy(execution, other);
      if (has_stepped_ && values) Kokkos::deep_copy(execution, values_, after_);
    }

   private:
    kk::Vector<T, ExecutionSpace> values_, after_;
    bool has_stepped_ = false;  // the copy of a state never has
  };
};

}  // namespace

TEST_CASE("no fault is seen where there is none") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Case c{.name = "no fault"};
  const Trace reference = serial<double>(world, c);
  const kk::Mesh<Plan> mesh(world.native(), kk::tensor(1), kk::pipeline(1));
  double losses = 0, norms = 0, parameters = 0;
  CHECK(equal<double>(train<double>(mesh, c), reference, losses, norms, parameters));
}

TEST_CASE("a reduction skipped on the data axis") {
  const Seen s = seen(
      2, 1, 1, [](const auto& mesh, const auto&) { skip_on(mesh.template communicator<kk::axis::Data>().native()); });
  CHECK(s.norms);
}

TEST_CASE("a reduction skipped on the tensor axis") {
  const Seen s = seen(
      1, 2, 1, [](const auto& mesh, const auto&) { skip_on(mesh.template communicator<kk::axis::Tensor>().native()); });
  CHECK(s.losses);
}

TEST_CASE("the gradient of tied weights is not summed over the stages") {
  const Seen s = seen(1, 1, 2, [](const auto&, const auto& model) { skip_on(model.shared().at(0).sharers.native()); });
  CHECK(s.norms);
}

TEST_CASE("the gradient of tied weights is counted twice") {
  const Seen s = seen(1, 1, 2, [](const auto&, const auto& model) {
    const MPI_Comm sharers = model.shared().at(0).sharers.native();
    fault = [sharers](void* buffer, int count, MPI_Comm communicator) {
      if (communicator == sharers)
        for (int i = 0; i < count; ++i) static_cast<double*>(buffer)[i] *= 2;
      return false;
    };
  });
  CHECK(s.norms);
}

TEST_CASE("a mean of means") {
  // Each replica divides by its own weight, and by the number of replicas after the sum.
  const Seen s = seen(2, 1, 1, [](const auto& mesh, const auto&) {
    const MPI_Comm world = mesh.world().native();
    fault = [world](void* buffer, int count, MPI_Comm communicator) {
      double* const sums = static_cast<double*>(buffer);
      if (communicator == world && count == 3) {
        sums[0] /= sums[1];
        sums[1] = 1;
      }
      return false;
    };
  });
  CHECK(s.losses);
}

TEST_CASE("a doubled gradient, which AdamW with clipping hides in the losses") {
  const Seen s = seen(2, 1, 1, [](const auto& mesh, const auto&) {
    const MPI_Comm data = mesh.template communicator<kk::axis::Data>().native();
    fault = [data](void* buffer, int count, MPI_Comm communicator) {
      if (communicator == data)
        for (int i = 0; i < count; ++i) static_cast<double*>(buffer)[i] *= 2;
      return false;
    };
  });
  CHECK(s.norms);
}

TEST_CASE("a step that is not taken back after validation") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Case c{.name = "fault", .clip = 1.8, .post_validation = true};
  const Trace reference = serial<double>(world, c);
  const kk::Mesh<Plan> mesh(world.native(), kk::tensor(1), kk::pipeline(2));
  const auto is_seen = [&](auto optimizer) {
    optimizer.learning_rate = 3e-4;
    double losses = 0, norms = 0, parameters = 0;
    return !equal<double>(train<double>(mesh, c, optimizer, [](const auto&, const auto&) {}), reference, losses, norms,
                          parameters);
  };
  CHECK_FALSE(is_seen(kk::optim::AdamW()));
  CHECK(is_seen(Forgetful<false>()));
  CHECK(is_seen(Forgetful<true>()));
}
