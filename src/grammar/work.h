#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace dovetail::grammar {

// Bounds on what one automaton may take.
constexpr std::size_t kMaxNfaStates = 1U << 20U;
constexpr std::size_t kMaxStates = 1U << 18U;
constexpr std::size_t kMaxTableEntries = 1U << 24U;
constexpr std::size_t kMaxSubsetItems = 1U << 23U;

// Set by a thread that has no more use for a grammar under compilation; null: never set.
using StopFlag = const std::atomic<bool>*;
inline bool is_set(StopFlag stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

// What compiling one grammar may still cost: everything whose size a schema or an expression
// decides spends units, about one for each thing that is looked at. It bounds the time, whatever
// the parts add up to; all of it is a second or two. A stop flag ends it earlier: every loop whose
// length the source decides looks at exhausted() or at stopped().
class Work {
 public:
  static constexpr std::uint64_t kAll = std::uint64_t{1} << 26U;

  // `stop` may be null; otherwise it outlives the work and may be set from any thread.
  explicit Work(StopFlag stop = nullptr) : stop_(stop) {}

  void spend(std::uint64_t units) { left_ -= units < left_ ? units : left_; }
  bool stopped() const { return is_set(stop_); }
  StopFlag stop() const { return stop_; }
  bool exhausted() const { return left_ == 0 || stopped(); }
  // An error that names `where` once nothing is left, or the stop flag is set.
  Status check(std::string_view where) const {
    if (stopped()) return fail(ErrorKind::kUnavailable, "{}: the compilation was stopped", where);
    if (left_ > 0) return {};
    return fail(ErrorKind::kUnsupported, "{}: up to here it needs more than {} units of work",
                where, kAll);
  }

 private:
  std::uint64_t left_ = kAll;
  StopFlag stop_;
};

}  // namespace dovetail::grammar
