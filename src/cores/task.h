#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// What a task is, beside what it does.
struct TaskSpec {
  TaskShape shape = kVectorTask;  // no lanes at all: it only joins others, and runs nothing
  bool together = false;          // a gang, if it has several blocks
  std::uint32_t blocks = 1;
  Ticks cost = 0;  // nanoseconds that a block takes, about; 0: unknown

  // A mixed task or a gang: while one is ready, no lane takes anything by itself.
  bool is_wide() const { return shape.is_mixed() || (together && blocks > 1); }
  friend bool operator==(const TaskSpec&, const TaskSpec&) = default;
};

// Where a function runs.
struct Part {
  TaskId task = 0;
  std::uint32_t block = 0;
  std::uint32_t part = 0;   // of the block's lanes, in their order; its matrix lanes come first
  std::uint32_t parts = 1;  // that work on the block at the same time
  GroupId group = 0;
  unsigned lane = 0;    // of the group
  unsigned thread = 0;  // of the executor; 0 is the caller's, where that serves
};

// What a task does: a small function, kept by value.
class TaskFunction {
 public:
  static constexpr std::size_t kSize = 32;

  TaskFunction() = default;

  // `function(const Part&)`. It and what it captures are copied bit by bit; it may not throw.
  template <class Function>
  requires(!std::is_same_v<std::remove_cvref_t<Function>, TaskFunction>)
      TaskFunction(Function function) {  // NOLINT(google-explicit-constructor): as std::function
    static_assert(std::is_trivially_copyable_v<Function> && sizeof(Function) <= kSize);
    static_assert(alignof(Function) <= alignof(std::uint64_t));
    std::memcpy(captured_.data(), &function, sizeof(Function));
    call_ = [](const std::byte* captured, const Part& part) {
      Function copy = *reinterpret_cast<const Function*>(captured);
      copy(part);
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  void operator()(const Part& part) const noexcept { call_(captured_.data(), part); }

 private:
  void (*call_)(const std::byte*, const Part&) = nullptr;
  alignas(std::uint64_t) std::array<std::byte, kSize> captured_;  // as much as the function has
};

}  // namespace dovetail::cores
