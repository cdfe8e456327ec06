#include "simulate/cluster.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <thread>
#include <utility>

#include "simulate/random.h"

namespace dovetail::simulate {
namespace {

constexpr double kLoadFactor = 1.25;

// Some of the cluster's replicas, those with number % parts == part, and their events.
class Shard {
 public:
  Shard(const ClusterOptions& options, std::uint32_t part, std::uint32_t parts,
        observe::EventLog* log)
      : options_(options), part_(part), parts_(parts) {
    for (std::uint32_t number = part; number < options.replicas; number += parts) {
      replicas_.push_back(
          std::make_unique<Replica>(options.replica, figures_, number == 0 ? log : nullptr));
      by_load_.emplace(0, static_cast<std::uint32_t>(replicas_.size() - 1));
    }
  }

  Status run(const Workload& workload);
  const Figures& figures() const { return figures_; }

 private:
  struct StepEnd {
    std::int64_t time = 0;
    std::uint32_t replica = 0;
    bool operator>(const StepEnd& other) const {
      return time != other.time ? time > other.time : replica > other.replica;
    }
  };

  std::uint32_t route(const Arrival& arrival);
  std::uint32_t home_of(std::uint32_t family) const;
  Status begin(std::uint32_t replica, std::int64_t now);
  void note_load(std::uint32_t replica, std::uint32_t before);

  const ClusterOptions& options_;
  std::uint32_t part_, parts_;
  Figures figures_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> by_load_;  // (outstanding, replica)
  std::uint64_t outstanding_ = 0;
  std::priority_queue<StepEnd, std::vector<StepEnd>, std::greater<>> ends_;
};

void Shard::note_load(std::uint32_t replica, std::uint32_t before) {
  const std::uint32_t now = replicas_[replica]->outstanding();
  if (now == before || options_.router == Router::kRoundRobin) return;
  by_load_.erase({before, replica});
  by_load_.emplace(now, replica);
  outstanding_ += std::uint64_t{now} - before;
}

std::uint32_t Shard::home_of(std::uint32_t family) const {
  return Random(family).below(static_cast<std::uint32_t>(replicas_.size()));
}

// Of a router that looks at its replicas; all of them are in this shard.
std::uint32_t Shard::route(const Arrival& arrival) {
  if (options_.router != Router::kPrefixAffinity || arrival.family == 0)
    return by_load_.begin()->second;
  const auto most = static_cast<std::uint64_t>(kLoadFactor * static_cast<double>(outstanding_ + 1) /
                                               static_cast<double>(replicas_.size()));
  std::uint32_t replica = home_of(arrival.family);
  for (std::size_t tried = 0; tried < replicas_.size(); ++tried) {
    if (replicas_[replica]->outstanding() <= most) return replica;
    replica = (replica + 1) % static_cast<std::uint32_t>(replicas_.size());
  }
  return by_load_.begin()->second;
}

Status Shard::begin(std::uint32_t replica, std::int64_t now) {
  const Result<std::optional<std::int64_t>> end = replicas_[replica]->begin(now);
  if (!end) return fail(end.error());
  if (*end) ends_.push({**end, replica});
  return {};
}

Status Shard::run(const Workload& workload) {
  std::uint64_t number = 0;
  std::optional<Arrival> next = workload();
  std::vector<std::uint32_t> woken;  // idle, and something has come
  while (next || !ends_.empty()) {
    // Everything that comes at one time is there before anybody plans.
    const std::int64_t now = !next           ? ends_.top().time
                             : ends_.empty() ? next->time
                                             : std::min(next->time, ends_.top().time);
    woken.clear();
    while (!ends_.empty() && ends_.top().time == now) {
      const std::uint32_t replica = ends_.top().replica;
      ends_.pop();
      const std::uint32_t before = replicas_[replica]->outstanding();
      replicas_[replica]->finish(now);
      note_load(replica, before);
      woken.push_back(replica);
    }
    for (; next && next->time == now; next = workload()) {
      const std::uint64_t id = number++;
      std::uint32_t replica = 0;
      if (options_.router == Router::kRoundRobin) {
        const auto chosen = static_cast<std::uint32_t>(id % options_.replicas);
        if (chosen % parts_ != part_) continue;
        replica = chosen / parts_;
      } else {
        replica = route(*next);
      }
      const std::uint32_t before = replicas_[replica]->outstanding();
      replicas_[replica]->submit(id, *next);
      note_load(replica, before);
      woken.push_back(replica);
    }
    for (const std::uint32_t replica : woken) {
      if (replicas_[replica]->stepping()) continue;
      if (const Status began = begin(replica, now); !began) return began;
    }
  }
  return {};
}

}  // namespace

Result<Figures> simulate(const ClusterOptions& options, const std::function<Workload()>& workload,
                         observe::EventLog* log) {
  const std::uint32_t parts = options.router == Router::kRoundRobin
                                  ? std::clamp(options.threads, 1U, std::max(1U, options.replicas))
                                  : 1;
  std::vector<std::unique_ptr<Shard>> shards;
  for (std::uint32_t part = 0; part < parts; ++part)
    shards.push_back(std::make_unique<Shard>(options, part, parts, log));
  std::vector<Status> outcomes(parts);
  std::vector<std::thread> threads;
  for (std::uint32_t part = 1; part < parts; ++part) {
    threads.emplace_back(
        [&, part, stream = workload()] { outcomes[part] = shards[part]->run(stream); });
  }
  outcomes[0] = shards[0]->run(workload());
  for (std::thread& thread : threads) thread.join();
  Figures all;
  for (std::uint32_t part = 0; part < parts; ++part) {
    if (!outcomes[part]) return fail(outcomes[part].error());
    all.merge(shards[part]->figures());
  }
  return all;
}

}  // namespace dovetail::simulate
