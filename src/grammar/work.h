#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// A length or count of a schema or a pattern is as many states, or as many copies. What is too
// large with those of lenient schemas as they are is compiled once more without those above the
// next of these bounds; those above the last are none at all.
constexpr std::array<std::uint64_t, 3> kLenientCounts = {std::numeric_limits<std::uint64_t>::max(),
                                                         1024, 1};

// What compiling one grammar may still cost: everything whose size a schema or an expression
// decides spends units, about one for each thing that is looked at. It bounds the time, whatever
// the parts add up to; all of it is a second or two. A stop flag ends it earlier: every loop whose
// length the source decides looks at exhausted() or at stopped().
class Work {
 public:
  static constexpr std::uint64_t kAll = std::uint64_t{1} << 26U;

  // `stop` may be null; otherwise it outlives the work and may be set from any thread.
  // `most_counted`: counts of lenient schemas above this are left out.
  explicit Work(StopFlag stop = nullptr, std::uint64_t most_counted = kLenientCounts[0])
      : most_counted_(most_counted), stop_(stop) {}

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
  // Whether a lenient schema's count is within what is kept.
  bool keeps(std::uint64_t count) {
    if (count > most_counted_) return false;
    largest_kept_ = std::max(largest_kept_, count);
    return true;
  }
  std::uint64_t largest_kept() const { return largest_kept_; }

 private:
  std::uint64_t left_ = kAll;
  std::uint64_t most_counted_;
  std::uint64_t largest_kept_ = 0;
  StopFlag stop_;
};

// The first outcome of `compile(work)` that is not too large, or the last one. It is tried again
// only where counts would be left out that were kept, so that nothing fails twice for another
// reason (or for what is not lenient).
auto with_counts_that_fit(StopFlag stop, const auto& compile) {
  for (std::size_t i = 0;; ++i) {
    Work work(stop, kLenientCounts[i]);
    auto out = compile(work);
    if (out || out.error().kind != ErrorKind::kUnsupported) return out;
    while (i + 1 < kLenientCounts.size() && work.largest_kept() <= kLenientCounts[i + 1]) ++i;
    if (i + 1 == kLenientCounts.size()) return out;
  }
}

}  // namespace dovetail::grammar
