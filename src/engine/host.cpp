#include "engine/host.h"

#include <fmt/core.h>

#include <bit>

#include "cores/topology.h"
#include "engine/options.h"

namespace dovetail::engine {
namespace {

cores::ExecutorOptions executor_options(const EngineOptions& engine, std::uint32_t tasks,
                                        cores::ThreadPins& pins,
                                        const std::atomic<std::uint64_t>& step) {
  cores::ExecutorOptions options;
  options.graph = {std::bit_ceil(tasks), 1, 1};
  options.pins = &pins;
  options.trace = engine.trace_events > 0;
  if (engine.on_stall) {
    options.stall_limit = engine.stall_limit;
    options.on_stall = [&step, tell = engine.on_stall](const cores::Stall& stall) {
      tell(fmt::format("step {}: {}", step.load(std::memory_order_relaxed), stall.message));
    };
  }
  return options;
}

}  // namespace

Host::Host(const EngineOptions& options, std::uint32_t tasks)
    : pins(pinning(options), binding(options)),
      executor(cores::Topology::of_machine(options.threads),
               executor_options(options, tasks, pins, step)) {}

}  // namespace dovetail::engine
