#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/report/activity.h"
#include "pipeline/report/terminal_text.h"

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

struct ColumnProgress {
  std::string name;
  std::uint64_t done = 0;       // cells that have a value
  std::uint64_t in_flight = 0;  // being made
  std::uint64_t failed = 0, skipped = 0;
  std::uint64_t total = 0;     // that the column has in the end
  std::optional<double> rate;  // cells that end per second, lately (RateMeter)
};

struct EndpointProgress {
  std::string name;
  std::uint32_t in_flight = 0, limit = 0;
  SlotCause cause = SlotCause::kTaking;
  std::string failure = {};  // why it fails, where it does
};

// A run at one moment.
struct ProgressView {
  std::vector<ColumnProgress> columns;
  std::vector<EndpointProgress> endpoints;
  std::uint64_t records_done = 0;  // not dropped
  std::uint64_t records_dropped = 0;
  std::uint64_t records_total = 0;
  std::uint64_t records_wanted = 0;   // not dropped, at which the run ends; 0: at the total
  std::optional<double> record_rate;  // per second, lately
  std::chrono::microseconds elapsed{};
  std::uint64_t tokens_in = 0, tokens_out = 0;
  std::uint64_t cost = 0;  // in 1e-9 of the currency
};

// Until all cells have ended, at the rates there are: that of the slowest column. When records are
// written says nothing of it: they wait for those before them. Absent where a rate is not known or
// zero.
std::optional<std::chrono::microseconds> time_left(const ProgressView& view);

// Lines of at most the terminal's width, without line ends: the records, a line per column with a
// bar (done, failed, in flight, to do), a line per endpoint, the sums. A narrow terminal gets a
// shorter bar, then none, then lines that are cut.
std::vector<std::string> progress_lines(const ProgressView& view, const TerminalStyle& style);

// Rows of a terminal of this width that lines take, which were made for one of another width:
// terminals break lines that no longer fit.
std::size_t rows_of(const std::vector<std::string>& lines, std::size_t width);

// What to write so that `lines` take the place of the `shown` rows that the last call has put on
// the terminal: in one write, so that nothing flickers.
std::string redraw(const std::vector<std::string>& lines, std::size_t shown);

// The same as one line for a log, without a line end.
std::string progress_line(const ProgressView& view);

// The same as one line of JSON, without a line end: {"event": "progress", ...}.
std::string progress_event(const ProgressView& view);

}  // namespace dovetail::pipeline
