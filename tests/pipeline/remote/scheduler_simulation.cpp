#include "pipeline/remote/scheduler_simulation.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

namespace dovetail::pipeline {
namespace {

using Load = ConcurrencyLimit::Outcome;
using Health = CircuitBreaker::Outcome;

class Simulation {
 public:
  Simulation(RemoteSchedulerOptions options, const SimulatedServer& server, int jobs,
             std::uint64_t seed, double tokens)
      : scheduler_(options), server_(server), random_(seed), jobs_(jobs), tokens_(tokens) {
    run_.succeeded.resize(static_cast<std::size_t>(jobs));
    run_.failed.resize(static_cast<std::size_t>(jobs));
    run_.most_in_flight.resize(options.endpoints.size());
    run_.in_flight_area.resize(options.endpoints.size());
    in_flight_.resize(options.endpoints.size());
  }

  SimulatedRun run(Micros until) {
    while (ended_ < jobs_ && now_ < until) {
      const std::size_t before = run_.requests.size();
      while (const auto again = scheduler_.resume(now_)) send(*again);
      while (next_job_ < jobs_ && scheduler_.room(now_) > 0) {
        const auto begun =
            scheduler_.begin({std::nullopt, tokens_, static_cast<std::uint64_t>(next_job_)}, now_);
        if (!begun) break;
        job_of_[begun->id] = next_job_++;
        send(*begun);
      }
      if (woken_ && run_.requests.size() == before) ++run_.idle_wake_ups;
      const int limit = scheduler_.state(now_)[0].limit;
      if (run_.limits.empty() || run_.limits.back().second != limit) {
        run_.limits.emplace_back(now_, limit);
      }
      if (run_.stalled = scheduler_.check(now_); !run_.stalled) break;
      step(until);
    }
    run_.end = now_;
    run_.left = scheduler_.size();
    return std::move(run_);
  }

 private:
  struct Event {
    Micros at;
    std::int64_t order;
    RemoteScheduler::Id id;
    bool read;  // the answer has been read; otherwise its last byte is here
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void send(RemoteScheduler::Sending sending) {
    SimulatedRequest request;
    request.job = job_of_.at(sending.id);
    request.send = scheduler_.sends(sending.id);
    request.endpoint = sending.endpoint;
    request.in_flight = ++in_flight_[sending.endpoint];
    request.now = now_;
    run_.most_in_flight[sending.endpoint] =
        std::max(run_.most_in_flight[sending.endpoint], request.in_flight);
    run_.requests.push_back(request);
    const SimulatedAnswer answer = server_(request, random_);
    on_way_[sending.id] = {sending.endpoint, answer};
    events_.push({now_ + answer.latency, order_++, sending.id, false});
  }

  // To the next moment at which something happens.
  void step(Micros until) {
    const Micros event = events_.empty() ? kNever : events_.top().at;
    const Micros wake = scheduler_.next_time(now_);
    woken_ = wake < event;
    const Micros next = std::min({event, std::max(wake, now_ + 1), until});
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {
      run_.in_flight_area[i] +=
          static_cast<double>(in_flight_[i]) * static_cast<double>(next - now_);
    }
    now_ = next;
    if (events_.empty() || events_.top().at > now_) return;
    const Event happened = events_.top();
    events_.pop();
    const auto& [endpoint, answer] = on_way_.at(happened.id);
    if (happened.read) {
      read(happened.id, answer);
    } else {
      --in_flight_[endpoint];
      scheduler_.ended(happened.id, answer.end, now_);
      if (answer.reading == 0) {
        read(happened.id, answer);
      } else {
        events_.push({now_ + answer.reading, order_++, happened.id, true});
      }
    }
  }

  void read(RemoteScheduler::Id id, const SimulatedAnswer& answer) {
    const auto job = static_cast<std::size_t>(job_of_.at(id));
    if (answer.failure == FailureClass::kNone) {
      scheduler_.answered(id, answer.tokens, now_);
      ++run_.succeeded[job];
      ++ended_;
    } else if (!scheduler_.failed(id, answer.failure, "it failed", now_, answer.end.retry_after)
                    .again) {
      ++run_.failed[job];
      ++ended_;
    }
  }

  RemoteScheduler scheduler_;
  const SimulatedServer& server_;
  std::mt19937_64 random_;
  int jobs_;
  double tokens_;
  int next_job_ = 0;
  int ended_ = 0;
  bool woken_ = false;
  Micros now_ = 0;
  std::map<RemoteScheduler::Id, int> job_of_;
  std::map<RemoteScheduler::Id, std::pair<std::size_t, SimulatedAnswer>> on_way_;
  std::vector<int> in_flight_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t order_ = 0;
  SimulatedRun run_;
};

}  // namespace

SimulatedAnswer success(Micros latency) {
  SimulatedAnswer answer;
  answer.latency = latency;
  return answer;
}

SimulatedAnswer unreadable(Micros latency) {
  SimulatedAnswer answer = success(latency);
  answer.failure = FailureClass::kRetryable;
  return answer;
}

SimulatedAnswer refusal(Micros latency, std::optional<Micros> retry_after) {
  SimulatedAnswer answer = success(latency);
  answer.failure = FailureClass::kRateLimit;
  answer.end = {Load::kRefused, Health::kSuccess, retry_after};
  return answer;
}

SimulatedAnswer breakage(Micros latency) {
  SimulatedAnswer answer = success(latency);
  answer.failure = FailureClass::kRetryable;
  answer.end = {Load::kBroken, Health::kFailure, std::nullopt};
  return answer;
}

SimulatedAnswer time_out(Micros latency) {
  SimulatedAnswer answer = breakage(latency);
  answer.end.load = Load::kTimedOut;
  return answer;
}

std::int64_t SimulatedRun::sent_to(std::size_t endpoint) const {
  return std::count_if(requests.begin(), requests.end(), [&](const SimulatedRequest& request) {
    return request.endpoint == endpoint;
  });
}

double SimulatedRun::share_within(Micros from, int low, int high) const {
  Micros within = 0;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Micros begins = std::max(from, limits[i].first);
    const Micros ends = i + 1 < limits.size() ? limits[i + 1].first : end;
    if (limits[i].second >= low && limits[i].second <= high) {
      within += std::max<Micros>(0, ends - begins);
    }
  }
  return static_cast<double>(within) / static_cast<double>(end - from);
}

SimulatedRun run_scheduler(RemoteSchedulerOptions options, const SimulatedServer& server, int jobs,
                           Micros until, std::uint64_t seed, double tokens) {
  return Simulation(std::move(options), server, jobs, seed, tokens).run(until);
}

}  // namespace dovetail::pipeline
