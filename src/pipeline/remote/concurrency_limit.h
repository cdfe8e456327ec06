#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "pipeline/remote/level_trial.h"
#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct LimitOptions {
  int max_parallel = 64;  // the limit never passes it
  int start = 0;          // 0: max_parallel
  // A cut goes no lower than to this share of the limit.
  double cut = 0.5;
  int successes_per_raise = 25;
  // Refusals up to this share of all requests, at a level that is answered as a rule, have nothing
  // to do with the load, and lead to nothing where they name no time.
  double noise = 1.0 / 8;
  // One burst of refusals is one cut. False cuts at every refusal.
  bool one_cut_per_burst = true;
  // After a refusal that names no time nothing is sent for this share of the latency seen, twice as
  // long after each further burst without an answer in between; within these bounds.
  double cool_down = 1.0 / 16;
  Micros shortest_cool_down = kOneSecond / 100;
  Micros longest_cool_down = 2 * kOneSecond;
  // After a level was refused the limit stays one below for this long before it is tried again,
  // twice as long after each further refusal, up to the longest hold.
  Micros hold = 15 * kOneSecond;
  Micros longest_hold = 600 * kOneSecond;
  TrialOptions trial;
};

// How many requests one endpoint is sent at a time. Begins with all that it may have, finds out.
//
// - A refusal (429, 503, 529) cuts the limit to what the endpoint has accepted and not answered, or
//   to half, whichever is more, and at least 1; nothing is sent until the cool-down ends.
//   Refusals of requests sent before the latest cut belong to its burst: during its cool-down they
//   lower the limit as far as that cut might have, later not at all. Few refusals at a level that
//   is answered as a rule are noise: fewer requests at a time would be refused as often.
// - 25 successes in a row outside of the cool-down raise it by one. Only requests sent while more
//   than half of the limit was in use count: an idle endpoint teaches nothing.
// - Below a level that was refused, and was not answered lately, it rises as usual; there it holds,
//   longer each time, and goes beyond it by one, two, three... per twelve round trips.
// - A LevelTrial lowers it for endpoints that only get slow.
//
// Every function takes the moment `now`, which never runs backwards. Single thread.
class ConcurrencyLimit {
 public:
  enum class Outcome {
    kSuccess,
    kRefused,   // 429, 503, 529
    kTimedOut,  // the client gave up waiting
    kBroken,    // connection errors and other 5xx
    kOther,     // says nothing about the load: 4xx, cancelled
  };

  // Kept by the caller while the request is on the wire and handed back to finished().
  struct Ticket {
    Micros sent_at = 0;
    std::uint32_t epoch = 0;
    int level = 0;  // in flight, itself included
    bool busy = false;
  };

  explicit ConcurrencyLimit(LimitOptions options);

  bool may_send(Micros now) const { return !cooling(now) && in_flight_ < limit_; }

  // Precondition: may_send(now).
  Ticket sent(Micros now);

  // Every ticket is finished exactly once. `retry_after` is the server's wish, from `now` on.
  void finished(Ticket ticket, Outcome outcome, Micros now,
                std::optional<Micros> retry_after = std::nullopt);

  // When may_send() may turn true without a finished(): now, the end of the cool-down, or kNever.
  Micros next_time(Micros now) const;

  int limit() const { return limit_; }
  int in_flight() const { return in_flight_; }
  bool cooling(Micros now) const { return now < cool_until_; }
  Micros cool_until() const { return cool_until_; }
  int cuts() const { return cuts_; }
  // Of answers, about, as the latest ones were; 0 before the first.
  Micros latency() const { return static_cast<Micros>(latency_); }

 private:
  void refused(Ticket ticket, Micros now, std::optional<Micros> retry_after);
  void succeeded(Ticket ticket, Micros now);
  void hold_below(int level, Micros now);
  void explore();
  void answered_at(int level, Micros now);
  int most() const { return std::min(options_.max_parallel, trial_.ceiling()); }

  LimitOptions options_;
  LevelTrial trial_;
  int limit_;
  int in_flight_ = 0;
  std::uint32_t epoch_ = 0;
  double latency_ = 0;
  Micros cool_until_ = 0;
  double refused_share_ = 0;  // of requests, about, as the latest ones were
  int bursts_ = 0;            // of refusals, since the latest answer
  int lowest_cut_ = 0;        // that the latest burst may come to
  int successes_ = 0;
  int ceiling_;  // the lowest level known to be too high, max_parallel + 1 where none is
  Micros hold_until_ = 0;
  int holds_ = 0;
  int step_ = 0;  // the latest raise at or beyond the ceiling
  // The highest levels at which requests were answered: in the hold that goes on, and before it.
  int answered_level_ = 0, answered_before_ = 0;
  Micros answered_since_ = 0;
  int cuts_ = 0;
};

}  // namespace dovetail::pipeline
