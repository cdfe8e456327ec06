#pragma once

#include <atomic>
#include <cstdint>

#include "cores/executor.h"
#include "cores/thread_pins.h"
#include "dovetail/engine.h"

namespace dovetail::engine {

// The lanes of this machine that a step loop samples on; a backend that computes on the CPU uses
// them in its passes. One of the two at a time: the loop samples when a pass has ended.
struct Host {
  // `tasks`: room for so many in the executor, which runs recorded graphs only. Throws
  // std::system_error where the system does not start the threads.
  Host(const EngineOptions& options, std::uint32_t tasks);

  std::atomic<std::uint64_t> step{0};  // last launched, for the executor's watchdog
  cores::ThreadPins pins;
  cores::Executor executor;
};

}  // namespace dovetail::engine
