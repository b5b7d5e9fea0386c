// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/core/loss_sum.hpp>
#include <kerkis/module/any_module.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/module/module.hpp>

namespace kerkis {

/// Where in the pipeline a ModuleStage is.
struct ModuleStageOptions {
  bool first = false;        ///< takes the microbatch's `input`
  bool last = false;         ///< has the loss
  std::int64_t columns = 0;  ///< of a stage without modules, which hands on what it gets
};

/// A pipeline stage out of modules, one after the other: any types that model Module.
///
///     kk::ModuleStage<Batch, SquaredError> stage({.first = rank == 0, .last = rank + 1 == ranks});
///     stage.add(kk::nn::Linear<double>("layer.0", 8, 8));
///
/// `Batch` has `rows()`, `first_sample` and a Matrix `input`, which the first stage takes and which lives until the end
/// of the pass. The last stage calls `loss(context, batch, output, gradient)`: it returns the LossSum and writes all of
/// `gradient`, that of the sum with respect to the output; in evaluation `gradient` has no memory, and is left alone.
template <class Batch, class Loss, class Space = Kokkos::DefaultExecutionSpace>
class ModuleStage {
 public:
  using View = std::remove_cvref_t<decltype(std::declval<const Batch&>().input)>;
  using Element = typename View::non_const_value_type;
  using ExecutionSpace = Space;
  using Microbatch = Batch;
  using AnyModule = kerkis::AnyModule<Element, Space>;  ///< one of its modules
  static_assert(std::is_same_v<View, Matrix<Element, Space>>,
                "kerkis: the input of a Batch is a kerkis::Matrix, a View of rank 2 and LayoutRight");

  struct SavedInput {
    std::vector<decltype(AnyModule::Saved::input)> modules;
    View output_gradient;  ///< of the last stage
  };
  struct SavedWeight {
    std::vector<decltype(AnyModule::Saved::weight)> modules;
    std::vector<View> inputs;  ///< of all modules but the first
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// Without modules yet: see `add`.
  explicit ModuleStage(ModuleStageOptions options, Loss loss = {}) : options_(options), loss_(std::move(loss)) {}

  /// Appends a module. Throws InputError if it does not take as many columns as the one before makes.
  template <class M>
  void add(M module) {
    AnyModule any(std::move(module));
    require(modules_.empty() || any.input_columns() == output_columns(), "a module of ", any.input_columns(),
            " input columns follows one of ", modules_.empty() ? 0 : output_columns(), " output columns");
    modules_.push_back(std::move(any));
    widest_ = std::max({widest_, modules_.back().input_columns(), modules_.back().output_columns()});
  }

  std::int64_t input_columns() const { return modules_.empty() ? options_.columns : modules_.front().input_columns(); }
  std::int64_t output_columns() const { return modules_.empty() ? options_.columns : modules_.back().output_columns(); }

  template <class F>
  void for_each_parameter(F&& f) {
    for (AnyModule& module : modules_) module.for_each_parameter(f);
  }

  Saved make_saved(std::int64_t rows) {
    Saved saved;
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      auto its = modules_[i].make_saved(rows);
      saved.input.modules.push_back(std::move(its.input));
      saved.weight.modules.push_back(std::move(its.weight));
      if (i > 0) saved.weight.inputs.push_back(make(rows, modules_[i].input_columns()));
    }
    if (options_.last) saved.input.output_gradient = make(rows, output_columns());
    return saved;
  }

  LossSum forward(Context<Space>& context, const Batch& batch, const View& input, const View& output, Saved& saved) {
    const std::int64_t rows = batch.rows();
    if (options_.first)
      require(static_cast<std::int64_t>(batch.input.extent(0)) >= rows &&
                  static_cast<std::int64_t>(batch.input.extent(1)) == input_columns(),
              "a microbatch has an input of ", batch.input.extent(0), " x ", batch.input.extent(1), "; ", rows, " x ",
              input_columns(), " are needed");
    auto scope = context.workspace.scope();
    const View made = options_.last ? scope.template take<Element>(rows, output_columns()) : output;
    View current = options_.first ? first_rows(batch.input, rows) : input;
    if (modules_.empty()) Kokkos::deep_copy(context.execution, made, current);
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const View next = i + 1 < modules_.size() ? first_rows(saved.weight.inputs[i], rows) : made;
      modules_[i].forward(context, current, next, Whole(saved, i).get());
      current = next;
      context.poll();
    }
    if (!options_.last) return {};
    return loss_(context, batch, made,
                 context.mode == Mode::training ? first_rows(saved.input.output_gradient, rows)
                                                : View(nullptr, made.extent(0), made.extent(1)));
  }

  template <class Ready>
  void backward(Context<Space>& context, const Batch& batch, const View& output_gradient, const View& input_gradient,
                Saved& saved, Ready&& ready) {
    walk(context, batch, output_gradient, input_gradient, saved,
         [&](std::size_t i) { finish(context, i, saved, ready); });
  }
  void backward_input(Context<Space>& context, const Batch& batch, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    walk(context, batch, output_gradient, input_gradient, saved, [](std::size_t) {});
  }
  template <class Ready>
  void backward_weight(Context<Space>& context, const Batch&, Saved& saved, Ready&& ready) {
    for (std::size_t i = modules_.size(); i-- > 0;) {
      finish(context, i, saved, ready);
      context.poll();
    }
  }

 private:
  static View make(std::int64_t rows, std::int64_t columns) {
    return make_matrix<Element, Space>("kerkis::module_stage", rows, columns);
  }

  /// What module i has saved; without its first part after backward_input.
  class Whole {
   public:
    Whole(Saved& saved, std::size_t i)
        : weight_(saved.weight.modules[i]), input_(i < saved.input.modules.size() ? &saved.input.modules[i] : nullptr) {
      its_.weight = std::move(weight_);
      if (input_ != nullptr) its_.input = std::move(*input_);
    }
    Whole(const Whole&) = delete;
    Whole& operator=(const Whole&) = delete;
    ~Whole() {
      weight_ = std::move(its_.weight);
      if (input_ != nullptr) *input_ = std::move(its_.input);
    }
    typename AnyModule::Saved& get() { return its_; }

   private:
    decltype(AnyModule::Saved::weight)& weight_;
    decltype(AnyModule::Saved::input)* input_;
    typename AnyModule::Saved its_;
  };

  template <class After>
  void walk(Context<Space>& context, const Batch& batch, const View& output_gradient, const View& input_gradient,
            Saved& saved, After&& after) {
    const std::int64_t rows = batch.rows();
    auto scope = context.workspace.scope();
    const View scratch[2] = {scope.template take<Element>(rows, widest_), scope.template take<Element>(rows, widest_)};
    View current = options_.last ? first_rows(saved.input.output_gradient, rows) : output_gradient;
    if (modules_.empty() && !options_.first) Kokkos::deep_copy(context.execution, input_gradient, current);
    for (std::size_t i = modules_.size(); i-- > 0;) {
      const View next = i > 0 || options_.first ? View(scratch[i % 2].data(), static_cast<std::size_t>(rows),
                                                       static_cast<std::size_t>(modules_[i].input_columns()))
                                                : input_gradient;
      modules_[i].backward_input(context, current, next, Whole(saved, i).get());
      after(i);
      current = next;
      context.poll();
    }
  }

  template <class Ready>
  void finish(Context<Space>& context, std::size_t i, Saved& saved, Ready&& ready) {
    modules_[i].backward_weight(context, Whole(saved, i).get());
    with_first_parameter(modules_[i], ready);
  }

  ModuleStageOptions options_;
  Loss loss_;
  std::vector<AnyModule> modules_;
  std::int64_t widest_ = 0;
};

}  // namespace kerkis
