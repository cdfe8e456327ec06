#pragma once

#include <cstdint>
#include <vector>

namespace dovetail::simulate {

// Counts durations in buckets whose width is at most a 1,024th of their value, so that a quantile
// is off by 0.1 % at most; least, largest and mean are exact. In the sense of HdrHistogram. Memory
// is bounded: 1,024 buckets per power of two that occurs.
class Histogram {
 public:
  void add(std::int64_t nanoseconds, std::uint64_t times = 1);
  void merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  double mean() const {
    return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  std::int64_t max() const { return max_; }
  std::int64_t min() const { return count_ == 0 ? 0 : min_; }

  // The smallest value that at least this share of all do not exceed; 0 where there are none.
  // 0 < share <= 1.
  std::int64_t quantile(double share) const;

 private:
  // Exact, so that merging in another order (by other threads) gives the same mean.
  __extension__ using Sum = unsigned __int128;

  static std::size_t bucket(std::uint64_t value);
  static std::uint64_t upper_end(std::size_t bucket);

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Sum sum_ = 0;
  std::int64_t max_ = 0;
  std::int64_t min_ = 0;
};

}  // namespace dovetail::simulate
