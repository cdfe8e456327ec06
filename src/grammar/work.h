#pragma once

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

// What compiling one grammar may still cost: everything whose size a schema or an expression
// decides spends units, about one for each thing that is looked at. It bounds the time, whatever
// the parts add up to; all of it is a second or two.
class Work {
 public:
  static constexpr std::uint64_t kAll = std::uint64_t{1} << 26U;

  explicit Work(std::uint64_t units = kAll) : left_(units) {}

  void spend(std::uint64_t units) { left_ -= units < left_ ? units : left_; }
  bool exhausted() const { return left_ == 0; }
  // An error that names `where` once nothing is left.
  Status check(std::string_view where) const {
    if (left_ > 0) return {};
    return fail(ErrorKind::kUnsupported, "{}: up to here it needs more than {} units of work",
                where, kAll);
  }

 private:
  std::uint64_t left_;
};

}  // namespace dovetail::grammar
