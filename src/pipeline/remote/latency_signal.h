#pragma once

#include <cstddef>
#include <optional>

#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct LatencyOptions {
  bool enabled = true;
  // A window's mean latency above this multiple of the reference asks for a trial.
  double tolerance = 1.3;
  // A trial lowers what is in flight to between these shares of what it was.
  double deepest_trial = 0.5;
  double shallowest_trial = 0.75;
  // The lower level stays if it keeps 1 - loss * (1 - share) of the throughput. 0 accepts no loss,
  // 1 accepts a server that is not saturated at all.
  double loss = 0.3;
  // False lowers the limit by latency alone and never asks what it did to the throughput.
  bool confirm = true;
  // A window ends when the standard error of its mean latency is below this share of the mean;
  // the windows that a trial is judged by are finer.
  double precision = 0.03;
  double trial_precision = 0.02;
  std::size_t min_samples = 48;
  std::size_t max_samples = 2048;
  // After a trial nothing is tried for this long, or for so many windows where they take longer;
  // twice as long after each further trial, up to the longest pause.
  Micros trial_pause = 30 * kOneSecond;
  int trial_pause_windows = 50;
  // The same after a trial whose throughput proves neither, as a share of those.
  double unclear_pause = 0.1;
  Micros longest_pause = 1800 * kOneSecond;
};

// Finds out from latencies alone where a server that never answers 429 is saturated.
//
// A rise of latency over a reference proposes, throughput decides. The proposal is the gradient
// reference / short-term of Netflix's Gradient2Limit (github.com/Netflix/concurrency-limits), which
// goes back to TCP Vegas (Brakmo, Peterson: TCP Vegas, IEEE JSAC 1995). Alone it would starve a
// server that batches: there latency rises with every request while throughput rises, too. So the
// lower level is tried for one window, and kept only if throughput (in flight / latency, Little's
// law) stays. A refused trial raises the reference: that latency was worth it. Since nobody may
// have seen the server idle, a trial is also made unasked after the start and at growing pauses.
//
// A window in which the server said nothing for several times the reference is void: that is a
// stall, not load. Fed with every request sent and finished; single thread.
class LatencySignal {
 public:
  explicit LatencySignal(LatencyOptions options) : options_(options) {}

  // What the owner of the limit is to do now.
  struct Advice {
    enum class Kind {
      kTry,     // set the limit to `level` until the next advice
      kKeep,    // the tried level is good: hold it
      kReturn,  // back to `level`, the one before the trial
    };
    Kind kind;
    int level;
  };

  // The number in flight changed at `now`.
  void in_flight_changed(int in_flight, Micros now);

  // A request ended with an answer, or ran into its timeout. `limit` is the current one; while it
  // is still `ramping` up nothing is tried unasked.
  std::optional<Advice> finished(Micros latency, int limit, bool ramping, Micros now);

  // The limit changed by other means (a cut): the trial is off, the window starts anew.
  void interrupted(Micros now);

  // The limit is not to be raised: a trial, or the measurement before it, is under way, or the
  // last one proved nothing and is to be made again soon.
  bool holds(Micros now) const { return phase_ != Phase::kWatch || now < next_descent_; }

  // How many windows have ended.
  int windows() const { return windows_; }

  // The latency that counts as unloaded, 0 before the first window.
  Micros reference() const { return static_cast<Micros>(reference_); }

 private:
  struct Window {
    double in_flight = 0;  // mean over time
    double latency = 0;    // mean
    double throughput() const { return in_flight / latency; }
  };

  enum class Phase {
    kWatch,
    kBaseline,  // one window at the level as it is: a rising limit flatters the throughput
    kTrial,     // one window at the lower level
  };

  bool stalled(Micros now) const;
  bool window_is_full(int limit) const;
  void start_window(Micros now);
  Window close_window(Micros now);
  std::optional<Advice> window_ended(const Window& window, int limit, bool ramping, Micros now);
  Advice judge_trial(const Window& window, Micros now);
  bool wants_trial(const Window& window, int limit, bool ramping, Micros now) const;
  Micros pause_after(Micros window_length, int times) const;

  LatencyOptions options_;
  std::size_t samples_ = 0;
  double sum_ = 0;
  double squares_ = 0;
  Micros last_answer_ = 0;
  std::size_t skip_ = 0;  // answers of requests from before the window
  Micros window_start_ = 0;
  Micros last_change_ = 0;
  double area_ = 0;  // in flight x time since the window's start
  int in_flight_ = 0;
  double reference_ = 0;
  Phase phase_ = Phase::kWatch;
  Window before_;
  int limit_before_ = 0;
  double share_ = 1;
  Micros next_trial_ = 0;    // asked for by nothing but time
  Micros next_descent_ = 0;  // asked for by a risen latency
  int windows_ = 0;
  int trials_ = 0;
  int unclear_ = 0;
};

}  // namespace dovetail::pipeline
