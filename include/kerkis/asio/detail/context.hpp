// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/execution_context.hpp>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kerkis::asio::detail {

/// What must end before the execution context does.
class ContextUser : public std::enable_shared_from_this<ContextUser> {
 public:
  virtual void context_ends() noexcept = 0;

 protected:
  ~ContextUser() = default;
};

/// Tells the users of an execution context of its end, so that a Bridge may outlive its io_context.
class Context final : public boost::asio::execution_context::service {
 public:
  using key_type = Context;
  static inline boost::asio::execution_context::id id;

  explicit Context(boost::asio::execution_context& context) : service(context) {}

  void add(ContextUser* user) {
    const std::lock_guard lock(mutex_);
    users_.push_back(user);
  }
  void remove(ContextUser* user) {
    const std::lock_guard lock(mutex_);
    std::erase(users_, user);
  }

 private:
  void shutdown() noexcept override {
    // One at a time: what one drops can be the last owner of another.
    while (const auto user = take()) user->context_ends();
  }

  std::shared_ptr<ContextUser> take() {
    const std::lock_guard lock(mutex_);
    while (!users_.empty()) {
      const auto user = users_.back()->weak_from_this().lock();
      users_.pop_back();
      if (user) return user;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::vector<ContextUser*> users_;
};

}  // namespace kerkis::asio::detail
