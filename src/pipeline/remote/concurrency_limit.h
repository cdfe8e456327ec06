#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/remote/latency_signal.h"
#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct LimitOptions {
  int max_parallel = 64;  // the limit never passes it
  int start = 0;          // 0: the smaller of max_parallel and 32
  // While nothing has signalled saturation yet, every success raises the limit by one: twice the
  // limit per round trip, as TCP's slow start (RFC 5681).
  bool ramp = true;
  double cut = 0.75;
  Micros default_cool_down = 2 * kOneSecond;
  int successes_per_raise = 25;
  // One burst of refusals is one cut. False cuts at every refusal.
  bool one_cut_per_burst = true;
  // After a level was refused the limit stays one below for this long before it is tried again,
  // twice as long after each further refusal, up to the longest hold.
  Micros hold = 15 * kOneSecond;
  Micros longest_hold = 600 * kOneSecond;
  LatencyOptions latency;
};

// How many requests one endpoint is sent at a time. Starts somewhere, finds out.
//
// - A refusal (429, 503, 529) cuts the limit to three quarters, at least 1, and nothing is sent
//   until the cool-down ends. Refusals of requests sent before the latest cut change the cool-down
//   at most (where they name a time), never the limit: a burst is one cut.
// - 25 successes in a row outside of the cool-down raise it by one. Only requests sent while more
//   than half of the limit was in use count: an idle endpoint teaches nothing.
// - Below a level that was refused it rises as usual; there it holds, longer each time, and goes
//   beyond it by one, two, three... per window of the latency signal, or per twelve round trips.
// - A LatencySignal lowers it for servers that only get slow.
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
  const LatencySignal& latency() const { return latency_; }

 private:
  void refused(Ticket ticket, Micros now, std::optional<Micros> retry_after);
  void succeeded(Ticket ticket, Micros now);
  void take_advice(LatencySignal::Advice advice, Micros now);
  void hold_below(int level, Micros now);
  void explore();

  LimitOptions options_;
  LatencySignal latency_;
  int limit_;
  int in_flight_ = 0;
  std::uint32_t epoch_ = 0;
  Micros cool_until_ = 0;
  int successes_ = 0;
  bool ramping_;
  int ceiling_;  // the lowest level known to be too high, max_parallel + 1 where none is
  Micros hold_until_ = 0;
  int holds_ = 0;
  int step_ = 0;         // the latest raise at or beyond the ceiling
  int step_window_ = 0;  // the window it was made in
  int cuts_ = 0;
};

}  // namespace dovetail::pipeline
