#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "cli/batch.h"

namespace dovetail::cli {

// "1000 requests, 12345 prompt and 23456 generated tokens in 4.5 s (5144 tokens/s)", and how many
// answers were as expected, failed or were cancelled, where that says anything.
std::string summary(const BatchTotals& totals, double seconds);

// The progress line on a terminal's standard error; draws nothing elsewhere. One thread.
class Progress {
 public:
  Progress(std::size_t records, bool wanted);

  void update(const BatchTotals& totals);
  void clear();  // takes the line away
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t records_;
  bool drawn_ = false;
  bool wanted_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace dovetail::cli
