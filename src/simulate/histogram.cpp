#include "simulate/histogram.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace dovetail::simulate {
namespace {

constexpr unsigned kBits = 10;  // of a value that its bucket keeps
constexpr std::uint64_t kPerPower = 1ULL << kBits;

}  // namespace

// Values below 2 * 1,024 have a bucket of their own; above, the highest 11 bits choose it.
std::size_t Histogram::bucket(std::uint64_t value) {
  if (value < 2 * kPerPower) return static_cast<std::size_t>(value);
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kBits;
  return static_cast<std::size_t>(shift * kPerPower + (value >> shift));
}

std::uint64_t Histogram::upper_end(std::size_t bucket) {
  if (bucket < 2 * kPerPower) return bucket;
  const std::size_t shift = bucket / kPerPower - 1;
  const std::uint64_t top = bucket - shift * kPerPower;
  return ((top + 1) << shift) - 1;
}

void Histogram::add(std::int64_t nanoseconds, std::uint64_t times) {
  assert(nanoseconds >= 0);
  if (times == 0) return;
  const std::size_t at = bucket(static_cast<std::uint64_t>(nanoseconds));
  if (at >= counts_.size()) counts_.resize(at + 1, 0);
  counts_[at] += times;
  min_ = count_ == 0 ? nanoseconds : std::min(min_, nanoseconds);
  max_ = std::max(max_, nanoseconds);
  count_ += times;
  sum_ += static_cast<Sum>(nanoseconds) * times;
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size(), 0);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
}

std::int64_t Histogram::quantile(double share) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(
      std::clamp(std::ceil(share * static_cast<double>(count_)), 1.0, static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted) return std::clamp(static_cast<std::int64_t>(upper_end(i)), min_, max_);
  }
  return max_;
}

}  // namespace dovetail::simulate
