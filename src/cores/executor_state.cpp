#include "cores/executor_state.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>

namespace dovetail::cores {

ExecutorState::ExecutorState(const Topology& topology, const ExecutorOptions& options)
    : topology_(topology),
      options_(options),
      lane_count_(topology.lanes()),
      bodies_(std::make_unique<Body[]>(options.graph.tasks)),
      conditions_(std::make_unique<Condition[]>(options.graph.tasks)),
      progress_(std::make_unique<Progress[]>(options.graph.tasks)),
      matrix_ring_(options.graph.tasks),
      vector_ring_(options.graph.tasks) {
  const auto lanes = static_cast<unsigned>(lane_count_);
  const unsigned serving = options.threads == 0 ? lanes : std::min(options.threads, lanes);
  gated_ = serving == lanes && options.dispatch.policy == AdmissionPolicy::kStrict;

  // Each thread reports a task or a gate at most once while it lives.
  const std::uint64_t reports = std::bit_ceil(std::uint64_t{options.graph.tasks} + gate_count());
  ended_mask_ = reports - 1;

  for (unsigned index = 0; index < serving + (options.caller_serves ? 0 : 1); ++index) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->index = index;
    threads_.back()->ended = std::make_unique<std::atomic<std::uint64_t>[]>(reports);
  }
  for (const auto& thread : threads_) thread->to_notify.reserve(lane_count_);
  uniform_ = true;
  lanes_ = std::make_unique<Lane[]>(lane_count_);
  std::size_t number = 0;
  for (GroupId group = 0; group < topology.groups().size(); ++group) {
    const GroupSpec& spec = topology.groups()[group];
    first_lane_.push_back(number);
    for (unsigned index = 0; index < static_cast<unsigned>(std::bit_width(spec.all())); ++index) {
      Lane& lane = lanes_[number];
      lane.group = group;
      lane.index = index;
      lane.matrix = (spec.matrix >> index & 1) != 0;
      lane.vector = (spec.vector >> index & 1) != 0;
      // Lanes of a group on different threads, as far as there are.
      lane.thread = static_cast<unsigned>(number % serving) + (options.caller_serves ? 0 : 1);
      threads_[lane.thread]->lanes.push_back(&lane);
      uniform_ &= lane.matrix && lane.vector;
      ++number;
    }
  }
  assert(number == lane_count_);
}

Ticks ExecutorState::clock() {
  return static_cast<Ticks>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now().time_since_epoch())
                                .count());
}

}  // namespace dovetail::cores
