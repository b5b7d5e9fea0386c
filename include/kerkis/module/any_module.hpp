// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <kerkis/module/module.hpp>

namespace kerkis {

/// A Module whose type is known only where it is put in: for sequences that are made when the program runs. It is a
/// Module itself. Its parameters stay where they are when it is moved.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class AnyModule {
  /// What a module saves, of whatever type.
  struct Part {
    Part() = default;
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    virtual ~Part() = default;
  };
  template <class Value>
  struct PartOf final : Part {
    explicit PartOf(Value&& its) : value(std::move(its)) {}
    Value value;
  };

 public:
  using Element = T;
  using ExecutionSpace = Space;
  using View = Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  using Saved = kerkis::Saved<std::unique_ptr<Part>, std::unique_ptr<Part>>;

  /// Takes any Module of this Element and ExecutionSpace.
  template <class M>
    requires(!std::is_same_v<M, AnyModule>)
  explicit AnyModule(M module) : is_(std::make_unique<Is<M>>(std::move(module))) {
    static_assert(Module<M>, "kerkis: this class does not model Module: see kerkis/module/module.hpp");
    static_assert(std::is_same_v<typename M::Element, T> && std::is_same_v<typename M::ExecutionSpace, Space>,
                  "kerkis: modules of one sequence have one element type and one execution space");
  }

  std::int64_t input_columns() const { return is_->input_columns(); }
  std::int64_t output_columns() const { return is_->output_columns(); }
  /// Throws InputError if its parameters have no memory yet.
  Saved make_saved(std::int64_t rows) {
    require_memory(*this);
    return is_->make_saved(rows);
  }
  void forward(Context& context, const View& input, const View& output, Saved& saved) {
    is_->forward(context, input, output, saved);
  }
  void backward_input(Context& context, const View& output_gradient, const View& input_gradient, Saved& saved) {
    is_->backward_input(context, output_gradient, input_gradient, saved);
  }
  void backward_weight(Context& context, Saved& saved) { is_->backward_weight(context, saved); }
  template <class F>
  void for_each_parameter(F&& f) {
    is_->for_each_parameter([&f](Parameter<T, Space>& parameter) { f(parameter); });
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual std::int64_t input_columns() const = 0;
    virtual std::int64_t output_columns() const = 0;
    virtual Saved make_saved(std::int64_t rows) = 0;
    virtual void forward(Context&, const View& input, const View& output, Saved&) = 0;
    virtual void backward_input(Context&, const View& output_gradient, const View& input_gradient, Saved&) = 0;
    virtual void backward_weight(Context&, Saved&) = 0;
    virtual void for_each_parameter(const std::function<void(Parameter<T, Space>&)>& f) = 0;
  };
  template <class M>
  struct Is final : Interface {
    using Its = typename M::Saved;
    using Input = decltype(Its::input);

    explicit Is(M&& its) : wrapped(std::move(its)) {}

    std::int64_t input_columns() const override { return wrapped.input_columns(); }
    std::int64_t output_columns() const override { return wrapped.output_columns(); }
    Saved make_saved(std::int64_t rows) override {
      Its made = wrapped.make_saved(rows);
      auto input = std::make_unique<PartOf<Input>>(std::exchange(made.input, Input()));
      return {std::move(input), std::make_unique<PartOf<Its>>(std::move(made))};
    }
    void forward(Context& context, const View& input, const View& output, Saved& saved) override {
      wrapped.forward(context, input, output, Whole(saved).its);
    }
    void backward_input(Context& context, const View& output_gradient, const View& input_gradient,
                        Saved& saved) override {
      wrapped.backward_input(context, output_gradient, input_gradient, Whole(saved).its);
    }
    void backward_weight(Context& context, Saved& saved) override { wrapped.backward_weight(context, of(saved)); }
    void for_each_parameter(const std::function<void(Parameter<T, Space>&)>& f) override {
      wrapped.for_each_parameter([&f](auto& parameter) { f(parameter); });
    }

    static Its& of(Saved& saved) { return static_cast<PartOf<Its>&>(*saved.weight).value; }
    /// The module sees both parts as the one object that it made.
    struct Whole {
      explicit Whole(Saved& saved) : its(of(saved)), input(static_cast<PartOf<Input>&>(*saved.input).value) {
        its.input = std::move(input);
      }
      Whole(const Whole&) = delete;
      Whole& operator=(const Whole&) = delete;
      ~Whole() { input = std::move(its.input); }
      Its& its;
      Input& input;
    };

    M wrapped;
  };

  std::unique_ptr<Interface> is_;
};

}  // namespace kerkis
