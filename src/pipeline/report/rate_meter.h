#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace dovetail::pipeline {

// How fast a count grows, over the last so many seconds. Time is given in.
class RateMeter {
 public:
  explicit RateMeter(std::chrono::microseconds window = std::chrono::seconds(30))
      : window_(window) {}

  void add(std::chrono::microseconds time, std::uint64_t count) {
    // Enough points for a smooth rate, and few of them.
    if (!points_.empty() && points_.size() > 1 &&
        time - points_[points_.size() - 2].time < window_ / 32) {
      points_.back() = {time, count};
    } else {
      points_.push_back({time, count});
    }
    while (points_.size() > 2 && points_[1].time <= time - window_) points_.pop_front();
  }

  // Per second; absent until there are two moments.
  std::optional<double> rate() const {
    if (points_.size() < 2) return std::nullopt;
    const auto time = points_.back().time - points_.front().time;
    if (time.count() <= 0 || points_.back().count < points_.front().count) return std::nullopt;
    return static_cast<double>(points_.back().count - points_.front().count) * 1e6 /
           static_cast<double>(time.count());
  }

 private:
  struct Point {
    std::chrono::microseconds time{};
    std::uint64_t count = 0;
  };
  std::chrono::microseconds window_;
  std::deque<Point> points_;
};

}  // namespace dovetail::pipeline
