#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cores/admission.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

// The option that says how long nothing may end before a run counts as stalled: of an executor, and
// of an engine that has one.
inline constexpr std::string_view kStallOption = "stall_limit";

// What an executor knows of a run in which nothing has ended for a while. Counts are of tasks; what
// is not known of single ones is left out.
struct StallFacts {
  std::chrono::nanoseconds since{0};  // a block ended or started last
  std::uint64_t running = 0;          // have lanes and have started
  std::uint64_t ready = 0;            // all predecessors have ended, not started
  std::uint64_t waiting = 0;          // have not ended either
  std::uint32_t idle_lanes = 0, lanes = 0;
  std::uint32_t caller_lanes = 0;  // closed, since the caller does not wait

  struct Running {
    TaskNumber task = 0;
    std::uint32_t block = 0;
    std::string lane;  // lane_name()
    std::chrono::nanoseconds lasts{0};
  };
  struct Ready {
    TaskNumber task = 0;
    TaskShape shape;
  };
  struct Waiting {
    TaskNumber task = 0;
    std::uint32_t left =
        0;  // so many have not ended, as far as it has been told; 0: a lane took it
    std::optional<TaskNumber> waits_for;  // one of them
  };
  std::optional<Running> longest_running;
  std::optional<Ready> oldest_ready;
  std::optional<Waiting> oldest_waiting;
  std::optional<TaskNumber> scope;  // that is open: its first task
};

enum class StallKind : std::uint8_t {
  kRunsTooLong,       // something runs
  kReadyButIdle,      // nothing runs, something could
  kWaitsForNothing,   // nothing runs or could, something has not ended
  kSubmitterStarves,  // all that was submitted has ended, and the submitter does not wait for it
};

struct Stall {
  StallKind kind = StallKind::kRunsTooLong;
  std::string message;  // one line: what stalls where, and what to look at or to change
};

// Why nothing goes on: the first that holds, in the order of StallKind.
Stall classify_stall(const StallFacts& facts);

}  // namespace dovetail::cores
