#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "pipeline/remote/circuit_breaker.h"
#include "pipeline/remote/concurrency_limit.h"
#include "pipeline/remote/endpoint_group.h"
#include "pipeline/remote/rate_budget.h"
#include "pipeline/remote/retry_policy.h"

namespace dovetail::pipeline {

struct RemoteSchedulerOptions {
  std::string name;                    // of the model, for messages
  std::vector<std::string> endpoints;  // their names: at least one
  LimitOptions limit;                  // of each endpoint, as the next two
  RateOptions rate;
  BreakerOptions breaker;
  RetryOptions retry;
  GroupOptions group;
  // No new request is begun while so many wait for a further try or for somebody to read their
  // answer. 0: four times what all endpoints may have in flight.
  std::size_t most_off_wire = 0;
  // check() fails when nothing succeeded for so long.
  Micros stall_bound = 600 * kOneSecond;
  // A fault on purpose, for tests: the slot stays taken until the back-off ends.
  bool slot_is_kept_in_back_off = false;
};

// Why an endpoint is not sent more.
enum class Hindrance : std::uint8_t { kNone, kLimit, kCoolDown, kBudget, kBroken };

// The requests of one model on its endpoints: which goes where and when. It sends nothing itself
// and has no clock.
//
//            begin()           ended()                answered()
//   caller ──────────► on wire ───────► being read ─────────────────► forgotten
//                        ▲                  │ failed(), once_more()      ▲
//                        └──── waiting ◄────┴────────────────────────────┘
//                     resume()                        no further try
//
// A slot of an endpoint is taken from begin() or resume() to ended(), and by nothing else. Requests
// that have waited go before new ones once their time has come. While nothing is on the wire they
// wait no longer than the shortest pause: then nothing else is left to do.
//
// Every function takes the moment `now`, which never runs backwards. Single thread.
class RemoteScheduler {
 public:
  using Id = std::uint64_t;

  struct Request {
    std::optional<std::uint64_t> prefix;  // see EndpointGroup
    double tokens = 0;                    // an estimate for the budget
    std::uint64_t seed = 0;               // of the pauses between its tries
  };

  struct Sending {
    Id id = 0;
    std::size_t endpoint = 0;
  };

  // What the end of a transfer tells the endpoint's limit and breaker.
  struct WireEnd {
    ConcurrencyLimit::Outcome load = ConcurrencyLimit::Outcome::kOther;
    CircuitBreaker::Outcome health = CircuitBreaker::Outcome::kUnknown;
    std::optional<Micros> retry_after;
  };

  struct EndpointState {
    int in_flight = 0;
    int limit = 0;
    Hindrance hindrance = Hindrance::kNone;
    std::string_view failure;  // why the last request failed, until one is answered
  };

  explicit RemoteScheduler(RemoteSchedulerOptions options);

  // How many new requests it would begin now.
  int room(Micros now);

  // A new request; nothing where there is no room for it. The caller sends it now.
  std::optional<Sending> begin(const Request& request, Micros now);

  // One that has waited long enough and finds a slot; the caller sends it now and asks again.
  std::optional<Sending> resume(Micros now);

  // The last byte of the answer is here, or none will come: the slot is free. Precondition: on the
  // wire.
  void ended(Id id, const WireEnd& end, Micros now);

  // What the answer turned out to be, once after each ended(); then the id is forgotten unless
  // there is a further try. `tokens`: what it cost, where the endpoint said so.
  void answered(Id id, std::optional<double> tokens, Micros now);
  // `why` is one line. `retry_after` counts after errors of the server alone: after a rate limit
  // its endpoint pauses anyway, and another may take the request.
  Retries::Decision failed(Id id, FailureClass failure, std::string_view why, Micros now,
                           std::optional<Micros> retry_after = std::nullopt);
  // The caller will send something else in its place; it waits for nothing but a slot. False: it is
  // forgotten, since everything was stopped.
  bool once_more(Id id, Micros now);

  // How often it was sent. Precondition: not forgotten.
  int sends(Id id) const { return jobs_.at(id).sends; }

  // Forgets those that wait, begins and resumes nothing from now on, and gives none a further try.
  std::vector<Id> stop(Micros now);

  // When resume() or room() may say more although nothing ended: now or later, or kNever.
  Micros next_time(Micros now);

  // See StallWatch.
  Status check(Micros now) const { return watch_.check(now); }

  std::vector<EndpointState> state(Micros now) const;
  std::size_t waiting() const { return waiting_; }
  std::size_t size() const { return jobs_.size(); }

 private:
  struct Endpoint {
    ConcurrencyLimit limit;
    RateBudget budget;
    CircuitBreaker breaker;
    std::string failure = {};  // see EndpointState
  };

  struct Job {
    Request request;
    Retries retries;
    int sends = 0;
    bool waits = false;
    Micros earliest = 0;  // while it waits: see Retries::Decision
    std::size_t endpoint = 0;
    std::optional<std::size_t> avoid;  // the endpoint that has just failed
    ConcurrencyLimit::Ticket limit_ticket;
    CircuitBreaker::Ticket breaker_ticket;
    std::optional<WireEnd> kept;  // with slot_is_kept_in_back_off
    bool worked = false;          // the server may have spent tokens on it
  };

  using Due = std::pair<Micros, Id>;

  std::optional<std::size_t> choose(const Job& job, Micros now);
  bool waits_for_another(const Job& job, Micros now) const;
  Sending send(Id id, Job& job, std::size_t endpoint, Micros now);
  void free_slot(const Job& job, const WireEnd& end, Micros now);
  void wait_until(Id id, Job& job, Micros at, Micros earliest);
  void forget(Id id, Micros now);
  void collect_due(Micros now);
  Micros earliest() const;
  static Hindrance hindrance(const Endpoint& endpoint, double tokens, Micros now);

  RemoteSchedulerOptions options_;
  EndpointGroup group_;
  std::vector<Endpoint> endpoints_;
  std::vector<EndpointLoad> loads_;  // scratch
  std::unordered_map<Id, Job> jobs_;
  Id next_id_ = 1;
  std::set<Due> later_;
  std::deque<Id> due_;  // whose time has come, in that order
  std::size_t waiting_ = 0;
  std::size_t on_wire_ = 0;
  double next_tokens_ = 0;  // of the latest new request: the next one is thought to be like it
  bool stopped_ = false;
  StallWatch watch_;
};

}  // namespace dovetail::pipeline
