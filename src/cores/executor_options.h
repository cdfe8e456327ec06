#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "cores/dispatcher.h"
#include "cores/output_ring.h"
#include "cores/stall.h"
#include "cores/task_graph.h"
#include "cores/thread_pins.h"

namespace dovetail::cores {

struct ExecutorOptions {
  GraphOptions graph;
  // Memory for what tasks write (Executor::allocate_output()); nothing: none. Requires
  // OutputRing::check().
  std::optional<OutputRingOptions> outputs;
  DispatchOptions dispatch;
  // Threads that serve the lanes, the caller's among them; 0: one for each lane. With fewer than
  // lanes a thread serves several, one after the other: parts of a mixed task may not wait for each
  // other then.
  unsigned threads = 0;
  // The caller's thread serves lanes while it waits; otherwise it only submits.
  bool caller_serves = true;
  // Of the threads that the executor starts, each of which works for the core to which its first
  // lane belongs (Topology::core_of()); outlives the executor. The caller's is the caller's affair.
  ThreadPins* pins = nullptr;
  // Keeps what ran when on which lane, what was pending and which lanes were reserved, for
  // take_spans().
  bool trace = false;
  // Where no block has started or ended for so long although something was submitted for which
  // wait() has not returned, on_stall is told why, once for each time; 0: no watchdog. It may take
  // a quarter longer. Called on the watchdog's thread, which the destructor joins: on_stall may not
  // wait for the thread that destroys the executor.
  std::chrono::milliseconds stall_limit{0};
  std::function<void(const Stall&)> on_stall;
};

}  // namespace dovetail::cores
