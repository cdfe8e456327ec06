#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "observe/event_log.h"
#include "simulate/replica.h"
#include "simulate/workload.h"

namespace dovetail::simulate {

enum class Router : std::uint8_t {
  kRoundRobin,
  kLeastOutstanding,  // the replica with the fewest requests; of several the first
  // Requests of one family go to one replica, or to the next of the ring if it has more than 1.25
  // times its share (consistent hashing with bounded loads, Mirrokni et al. 2018); others go to the
  // least outstanding.
  kPrefixAffinity,
};

struct ClusterOptions {
  ReplicaOptions replica;
  std::uint32_t replicas = 1;
  Router router = Router::kRoundRobin;
  // Threads that share the replicas, where the router decides without looking at them
  // (round robin). The result does not depend on it.
  std::uint32_t threads = 1;
};

// Runs a workload to its end. `workload` makes a new stream of the same requests at every call; it
// is called once per thread. The first replica writes into `log`, where there is one.
Result<Figures> simulate(const ClusterOptions& options, const std::function<Workload()>& workload,
                         observe::EventLog* log);

}  // namespace dovetail::simulate
