#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/engine.h"
#include "dovetail/server.h"

namespace dovetail::serve {

// How often a number was at most each of some bounds, as Prometheus counts it.
class Histogram {
 public:
  // `bounds`: ascending; live for ever.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value, std::uint64_t times = 1) {
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<std::size_t>(at)] += times;
    sum_ += value * static_cast<double>(times);
  }
  std::span<const double> bounds() const { return bounds_; }
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket]; }  // in it alone
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // the last one is beyond all bounds
  double sum_ = 0.0;
};

// Bounds that vLLM has, and lower ones, since small models are fast.
inline constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                               0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                               20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
inline constexpr double kTokenBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                          0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1.0,   2.5,
                                          5.0,   7.5,    10.0,  20.0, 40.0,  80.0};
inline constexpr double kRequestBounds[] = {0.01, 0.05, 0.1,   0.3,   0.5,   0.8,   1.0,    1.5,
                                            2.0,  2.5,  5.0,   10.0,  15.0,  20.0,  30.0,   40.0,
                                            50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// Counts of the HTTP side. For the event loop's thread only.
class HttpCounts {
 public:
  // `route` is one of a fixed set of names and lives for ever.
  void count_response(std::string_view route, int status) { ++responses_[{route, status}]; }
  const std::map<std::pair<std::string_view, int>, std::uint64_t>& responses() const {
    return responses_;
  }

  std::uint32_t connections = 0;
  std::uint64_t disconnects = 0;   // clients that went away before their response was complete
  std::uint64_t slow_readers = 0;  // streams cut because their client did not read

  // Seconds. Of choices but for the first, which is of requests.
  Histogram first_token{kFirstTokenBounds};
  Histogram between_tokens{kTokenBounds};
  Histogram queue{kRequestBounds};
  Histogram whole{kRequestBounds};

 private:
  std::map<std::pair<std::string_view, int>, std::uint64_t> responses_;
};

// What an engine did between two looks at it, `seconds` apart; nothing: no token was computed.
std::optional<ThroughputRecord> throughput(const EngineStats& before, const EngineStats& now,
                                           double seconds);

// What the labels of metrics say of the model.
struct MetricsModel {
  std::string_view name;
  std::uint32_t max_context = 0;
};

// Everything in Prometheus's text format, version 0.0.4: under names of its own, and under those
// that vLLM has for the same, with a label model_name.
std::string metrics_text(const EngineStats& stats, const HttpCounts& http,
                         const MetricsModel& model);

}  // namespace dovetail::serve
