#include "pipeline/remote/remote_scheduler.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>

namespace dovetail::pipeline {

namespace {

constexpr std::size_t kOffWirePerSlot = 4;

}  // namespace

RemoteScheduler::RemoteScheduler(RemoteSchedulerOptions options)
    : options_(std::move(options)),
      group_(options_.endpoints, options_.group),
      loads_(options_.endpoints.size()),
      watch_(options_.name, options_.stall_bound) {
  assert(!options_.endpoints.empty());
  for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
    endpoints_.push_back({ConcurrencyLimit(options_.limit), RateBudget(options_.rate),
                          CircuitBreaker(options_.breaker)});
  }
  if (options_.most_off_wire == 0) {
    const auto parallel = static_cast<std::size_t>(std::max(1, options_.limit.max_parallel));
    options_.most_off_wire = kOffWirePerSlot * parallel * endpoints_.size();
  }
}

Hindrance RemoteScheduler::hindrance(const Endpoint& endpoint, double tokens, Micros now) {
  if (!endpoint.breaker.may_send(now)) return Hindrance::kBroken;
  if (endpoint.limit.cooling(now)) return Hindrance::kCoolDown;
  if (!endpoint.limit.may_send(now)) return Hindrance::kLimit;
  if (!endpoint.budget.may_send(tokens, now)) return Hindrance::kBudget;
  return Hindrance::kNone;
}

int RemoteScheduler::room(Micros now) {
  collect_due(now);
  const std::size_t off_wire = jobs_.size() - on_wire_;
  if (stopped_ || off_wire >= options_.most_off_wire) return 0;
  auto free = static_cast<std::int64_t>(0);
  for (const Endpoint& endpoint : endpoints_) {
    if (hindrance(endpoint, next_tokens_, now) != Hindrance::kNone) continue;
    const bool probe = endpoint.breaker.state(now) != CircuitBreaker::State::kClosed;
    const int slots = probe ? 1 : endpoint.limit.limit() - endpoint.limit.in_flight();
    free += endpoint.budget.room(next_tokens_, slots, now);
  }
  free -= static_cast<std::int64_t>(due_.size());
  const auto most = static_cast<std::int64_t>(options_.most_off_wire - off_wire);
  return static_cast<int>(std::clamp<std::int64_t>(free, 0, most));
}

std::optional<RemoteScheduler::Sending> RemoteScheduler::begin(const Request& request, Micros now) {
  next_tokens_ = request.tokens;
  if (room(now) == 0) return std::nullopt;
  Job job{request,
          Retries(options_.retry, request.seed),
          0,
          false,
          0,
          0,
          std::nullopt,
          {},
          {},
          std::nullopt,
          false};
  const auto endpoint = choose(job, now);
  if (!endpoint) return std::nullopt;
  if (jobs_.empty()) watch_.busy(now);
  const Id id = next_id_++;
  return send(id, jobs_.emplace(id, job).first->second, *endpoint, now);
}

std::optional<RemoteScheduler::Sending> RemoteScheduler::resume(Micros now) {
  collect_due(now);
  if (due_.empty() || stopped_) return std::nullopt;
  const Id id = due_.front();
  Job& job = jobs_.at(id);
  if (job.kept) free_slot(job, *std::exchange(job.kept, std::nullopt), now);
  const auto endpoint = choose(job, now);
  if (!endpoint) return std::nullopt;
  due_.pop_front();
  job.waits = false;
  --waiting_;
  return send(id, job, *endpoint, now);
}

std::optional<std::size_t> RemoteScheduler::choose(const Job& job, Micros now) {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const Endpoint& endpoint = endpoints_[i];
    const Hindrance why = hindrance(endpoint, job.request.tokens, now);
    loads_[i] = {endpoint.limit.in_flight(), endpoint.limit.limit(), why == Hindrance::kNone};
  }
  if (job.avoid && std::exchange(loads_[*job.avoid].available, false)) {
    const auto other = group_.choose(loads_, job.request.prefix);
    if (other || waits_for_another(job, now)) return other;
    return job.avoid;
  }
  return group_.choose(loads_, job.request.prefix);
}

// Whether an endpoint other than the one that has just failed will have a slot soon.
bool RemoteScheduler::waits_for_another(const Job& job, Micros now) const {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const bool full = hindrance(endpoints_[i], job.request.tokens, now) == Hindrance::kLimit;
    if (i != job.avoid && full && endpoints_[i].limit.in_flight() > 0) return true;
  }
  return false;
}

RemoteScheduler::Sending RemoteScheduler::send(Id id, Job& job, std::size_t where, Micros now) {
  Endpoint& endpoint = endpoints_[where];
  job.endpoint = where;
  job.limit_ticket = endpoint.limit.sent(now);
  job.breaker_ticket = endpoint.breaker.sent(now);
  endpoint.budget.sent(job.request.tokens, now);
  job.worked = true;
  ++job.sends;
  ++on_wire_;
  return {id, where};
}

void RemoteScheduler::ended(Id id, const WireEnd& end, Micros now) {
  Job& job = jobs_.at(id);
  assert(!job.waits);
  --on_wire_;
  job.worked = end.load == ConcurrencyLimit::Outcome::kSuccess ||
               end.load == ConcurrencyLimit::Outcome::kTimedOut;
  if (options_.slot_is_kept_in_back_off) {
    job.kept = end;
  } else {
    free_slot(job, end, now);
  }
}

void RemoteScheduler::free_slot(const Job& job, const WireEnd& end, Micros now) {
  Endpoint& endpoint = endpoints_[job.endpoint];
  endpoint.limit.finished(job.limit_ticket, end.load, now, end.retry_after);
  endpoint.breaker.finished(job.breaker_ticket, end.health, now);
}

void RemoteScheduler::answered(Id id, std::optional<double> tokens, Micros now) {
  const Job& job = jobs_.at(id);
  endpoints_[job.endpoint].budget.finished(job.request.tokens, tokens.value_or(job.request.tokens),
                                           now);
  endpoints_[job.endpoint].failure.clear();
  watch_.succeeded(now);
  forget(id, now);
}

Retries::Decision RemoteScheduler::failed(Id id, FailureClass failure, std::string_view why,
                                          Micros now, std::optional<Micros> retry_after) {
  Job& job = jobs_.at(id);
  const double tokens = job.request.tokens;
  endpoints_[job.endpoint].budget.finished(tokens, job.worked ? tokens : 0.0, now);
  if (failure != FailureClass::kFinal) endpoints_[job.endpoint].failure = why;
  watch_.failed(why);
  // It is answered, and would be in the same way again: that is no standstill.
  if (failure == FailureClass::kFinal) watch_.succeeded(now);
  const bool refused = failure == FailureClass::kRateLimit;
  if (!refused) job.avoid = job.endpoint;
  auto decision = job.retries.failed(failure, now, refused ? std::nullopt : retry_after,
                                     endpoints_[job.endpoint].limit.latency());
  if (decision.again && stopped_) {
    decision.again = false;
    decision.reason = "the run was stopped";
  }
  if (decision.again) {
    wait_until(id, job, decision.at, decision.earliest);
  } else {
    forget(id, now);
  }
  return decision;
}

bool RemoteScheduler::once_more(Id id, Micros now) {
  Job& job = jobs_.at(id);
  endpoints_[job.endpoint].budget.finished(job.request.tokens, 0.0, now);
  if (stopped_) {
    forget(id, now);
    return false;
  }
  wait_until(id, job, now, now);
  return true;
}

void RemoteScheduler::wait_until(Id id, Job& job, Micros at, Micros earliest) {
  job.waits = true;
  job.earliest = earliest;
  ++waiting_;
  later_.emplace(at, id);
}

void RemoteScheduler::forget(Id id, Micros now) {
  const auto found = jobs_.find(id);
  if (found->second.kept) free_slot(found->second, *found->second.kept, now);
  if (found->second.waits) --waiting_;
  jobs_.erase(found);
  if (jobs_.empty()) watch_.idle(now);
}

void RemoteScheduler::collect_due(Micros now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    due_.push_back(later_.extract(later_.begin()).value().second);
  }
  if (on_wire_ > 0) return;
  std::erase_if(later_, [&](const Due& due) {
    if (jobs_.at(due.second).earliest > now) return false;
    due_.push_back(due.second);
    return true;
  });
}

// When the first of those that wait comes, if nothing else happens.
Micros RemoteScheduler::earliest() const {
  if (later_.empty()) return kNever;
  Micros first = later_.begin()->first;
  if (on_wire_ > 0) return first;
  for (const auto& [at, id] : later_) first = std::min(first, jobs_.at(id).earliest);
  return first;
}

std::vector<RemoteScheduler::Id> RemoteScheduler::stop(Micros now) {
  stopped_ = true;
  collect_due(kNever);
  std::vector<Id> waited(due_.begin(), due_.end());
  due_.clear();
  for (const Id id : waited) forget(id, now);
  return waited;
}

Micros RemoteScheduler::next_time(Micros now) {
  if (stopped_) return kNever;
  collect_due(now);
  Micros next = earliest();
  const Job* first = due_.empty() ? nullptr : &jobs_.at(due_.front());
  const double tokens = first == nullptr ? next_tokens_ : first->request.tokens;
  const bool waits = first != nullptr && first->avoid && waits_for_another(*first, now);
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (waits && i == first->avoid) continue;
    const Endpoint& endpoint = endpoints_[i];
    const Micros free = std::max({endpoint.limit.next_time(now), endpoint.breaker.next_time(now),
                                  endpoint.budget.next_time(tokens, now)});
    if (free > now || !due_.empty()) next = std::min(next, free);
  }
  return next;
}

std::vector<RemoteScheduler::EndpointState> RemoteScheduler::state(Micros now) const {
  std::vector<EndpointState> states;
  for (const Endpoint& endpoint : endpoints_) {
    states.push_back({endpoint.limit.in_flight(), endpoint.limit.limit(),
                      hindrance(endpoint, next_tokens_, now), endpoint.failure});
  }
  return states;
}

}  // namespace dovetail::pipeline
