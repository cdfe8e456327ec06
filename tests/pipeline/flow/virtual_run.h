#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pipeline/flow/frontier.h"

namespace dovetail::pipeline {

// An endpoint under a virtual clock: so many slots, and a time for each request.
struct VirtualEndpoint {
  std::uint32_t slots = 64;
  std::int64_t latency_us = 50'000;
  // Work on a cell after its answer has come: parsing, a tool, a pause. No slot is held meanwhile.
  std::int64_t off_wire_us = 0;
  // What becomes of a request that is sent now; latency_us where it is empty.
  std::function<std::int64_t(Cell, std::int64_t now)> latency = {};
};

enum class Dispatch {
  kFrontier,   // whoever has a free slot takes from its own queue
  kSnapshot,   // one list of all that is ready is walked to its end before there is a second one
  kHoldsSlot,  // as kFrontier, but the slot is held until the work off the wire is done
};

struct VirtualRun {
  std::int64_t wall_us = 0;
  std::uint64_t requests = 0;
  std::vector<std::int64_t> first_sent, last_sent, first_ended;  // by column; -1: never
  std::vector<std::uint32_t> most_in_flight;                     // by queue
  std::int64_t both_busy_us = 0, any_busy_us = 0;                // of the first two endpoints
  std::uint64_t most_open = 0;                                   // records
  std::int64_t first_record_us = -1;                             // when the first one ended
  std::size_t first_list = 0;                                    // cells of the first snapshot
  std::uint64_t sent_by_second_before_last_of_first = 0;         // requests, endpoints 1 and 0
};

// Plays the whole run; queue q is served by endpoints[q], or at once where options.instant has it.
// `until` may end it early.
VirtualRun play(const std::vector<ColumnPlan>& columns,
                const std::vector<VirtualEndpoint>& endpoints, FrontierOptions options,
                Dispatch dispatch = Dispatch::kFrontier,
                const std::function<bool(const VirtualRun&)>& until = {});

}  // namespace dovetail::pipeline
