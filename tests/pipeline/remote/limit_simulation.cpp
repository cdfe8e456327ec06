#include "pipeline/remote/limit_simulation.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <queue>

namespace dovetail::pipeline {

double SimulationResult::share_within(Micros from, double low, double high) const {
  Micros inside = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Micros begin = std::max(from, levels[i].from);
    const Micros stop = i + 1 < levels.size() ? levels[i + 1].from : end;
    if (stop > begin && levels[i].limit >= low && levels[i].limit <= high) inside += stop - begin;
  }
  return static_cast<double>(inside) / static_cast<double>(end - from);
}

double SimulationResult::mean_limit(Micros from) const {
  double sum = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const Micros begin = std::max(from, levels[i].from);
    const Micros stop = i + 1 < levels.size() ? levels[i + 1].from : end;
    if (stop > begin) sum += static_cast<double>(stop - begin) * levels[i].limit;
  }
  return sum / static_cast<double>(end - from);
}

SimulationResult simulate(const LimitOptions& options, const ServerModel& server, int jobs,
                          Micros until, std::uint64_t seed) {
  struct Flight {
    Micros at;
    std::uint64_t order;
    int job;
    ConcurrencyLimit::Ticket ticket;
    ServerAnswer answer;
    bool occupies;
    bool operator>(const Flight& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  using Outcome = ConcurrencyLimit::Outcome;

  ConcurrencyLimit limit(options);
  SimulationResult result;
  result.times_succeeded.assign(static_cast<std::size_t>(jobs), 0);
  std::mt19937_64 random(seed);
  std::priority_queue<Flight, std::vector<Flight>, std::greater<>> wire;
  std::deque<int> ready(static_cast<std::size_t>(jobs));
  std::iota(ready.begin(), ready.end(), 0);
  int accepted = 0;
  std::uint64_t order = 0;
  Micros now = 0;
  result.levels.push_back({0, limit.limit()});

  while (now < until) {
    while (!ready.empty() && limit.may_send(now)) {
      const auto ticket = limit.sent(now);
      const ServerAnswer answer = server(accepted + 1, now, random);
      const bool occupies = answer.outcome != Outcome::kRefused;
      if (occupies) ++accepted;
      wire.push({now + answer.latency, order++, ready.front(), ticket, answer, occupies});
      ready.pop_front();
      result.most_in_flight = std::max(result.most_in_flight, limit.in_flight());
    }
    if (wire.empty() && ready.empty()) break;
    const Micros wake = ready.empty() ? kNever : limit.next_time(now);
    if (wire.empty() || wake < wire.top().at) {
      now = wake;
      continue;
    }
    const Flight flight = wire.top();
    wire.pop();
    now = flight.at;
    if (flight.occupies) --accepted;
    limit.finished(flight.ticket, flight.answer.outcome, now, flight.answer.retry_after);
    const auto job = static_cast<std::size_t>(flight.job);
    if (flight.answer.outcome == Outcome::kSuccess) {
      ++result.succeeded;
      ++result.times_succeeded[job];
    } else {
      ++(flight.answer.outcome == Outcome::kRefused ? result.refused : result.broken);
      ready.push_back(flight.job);
    }
    if (limit.limit() != result.levels.back().limit) result.levels.push_back({now, limit.limit()});
  }
  result.end = std::min(now, until);
  result.cuts = limit.cuts();
  return result;
}

}  // namespace dovetail::pipeline
