#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::schedule {

// All that an outsider sees of a scheduler: what it was told, what it answered, in order.

struct Added {
  SequenceId id = 0;
  std::uint32_t prompt = 0;
  bool accepted = false;
};
struct Cancelled {
  SequenceId id = 0;
};
struct Planned {
  StepPlan plan;
};
struct Committed {
  StepResult result;
};

struct Event {
  std::variant<Added, Cancelled, Planned, Committed> what;
  // The scheduler's figures right after it.
  std::vector<kv::BlockId> freed;
  std::uint32_t free = 0;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
};

struct History {
  SchedulerOptions options;
  std::vector<Event> events;
};

}  // namespace dovetail::schedule
