#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct TrialOptions {
  // Slots that trials may leave empty, as a share of the slots used so far; 0: no trials.
  double budget = 0.005;
  // A level that is lower by a share s stays if it keeps 1 - loss * s of the throughput. 0 accepts
  // no loss, 1 accepts an endpoint that is not saturated at all.
  double loss = 0.3;
};

// Finds the level at which an endpoint that never refuses is saturated: where more requests at a
// time are answered later, and not more of them.
//
// Throughput over a window is answers * in flight / latency (Little's law, L = lambda * W). Now and
// then three quarters of the level are tried for a window. Where throughput stays, the lower level
// stays, and is the ceiling until a trial of a higher level finds more throughput. Latency alone
// proves nothing: a server that batches answers later and more.
//
// A trial that finds nothing leaves slots empty. It begins when what was used since the one before
// pays for what it is likely to cost, and ends when that is used up. What it costs is the
// throughput that was lost. One that finds a ceiling costs nothing, and another may follow at once.
// Trials of a higher level cost the endpoint latency, and no throughput; they are paced in the same
// way, twice as often.
//
// Fed with every request sent and finished; single thread.
class LevelTrial {
 public:
  static constexpr int kNone = std::numeric_limits<int>::max();

  explicit LevelTrial(TrialOptions options) : options_(options) {}

  // The number in flight changed at `now`.
  void in_flight_changed(int in_flight, Micros now);

  // A request ended with an answer, or (`answered` false) ran into its timeout. `limit`: now in
  // force; `most`: that it may have. The limit to set, where a trial begins or ends.
  std::optional<int> finished(Micros latency, bool answered, int limit, int most, Micros now);

  // The limit changed by other means: a trial is off, the window begins anew.
  void interrupted(Micros now);

  // The limit is not to be raised meanwhile.
  bool under_way() const { return phase_ != Phase::kWatch; }
  // The limit from before the trial that is under way.
  std::optional<int> level_before() const {
    return under_way() ? std::optional(limit_before_) : std::nullopt;
  }
  // The level that is not to be passed, since throughput does not grow beyond it; kNone: not known.
  int ceiling() const { return ceiling_; }

 private:
  enum class Phase : std::uint8_t { kWatch, kLower, kHigher };

  struct Window {
    double in_flight = 0;  // mean over time
    double latency = 0;    // mean
    double answered = 0;   // share of what ended
    double deviation = 0;  // of latencies
    double throughput() const { return answered * in_flight / latency; }
  };

  void start_window(Micros now);
  Window window(Micros now) const;
  bool is_full(int limit) const;
  bool has_stalled(Micros now);
  std::optional<int> begin(const Window& before, int limit, int most, Micros now);
  std::optional<int> judge(const Window& tried, int limit);
  double likely_cost(const Window& before, int limit, int difference) const;
  bool budget_is_used_up(int limit, Micros now) const;
  std::optional<int> give_up(int limit, double lost = 1);

  TrialOptions options_;
  Phase phase_ = Phase::kWatch;
  int ceiling_ = kNone;

  // Slots in use over time, from the start.
  int in_flight_ = 0;
  Micros changed_ = 0;
  double used_ = 0;

  // The window.
  std::size_t skip_ = 0;  // answers of requests from before it
  Micros window_start_ = 0;
  double used_before_ = 0;
  std::size_t samples_ = 0, answered_ = 0;
  double sum_ = 0, squares_ = 0;
  double latency_ = 0;  // of the last full window
  Micros last_end_ = 0;

  // The trial.
  Window before_;
  int limit_before_ = 0;
  Micros trial_start_ = 0;
  // Slots used when the latest trial ended that found nothing: what is used from then on pays.
  double paid_lower_ = 0, paid_higher_ = 0;
};

}  // namespace dovetail::pipeline
