#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cores/thread_pins.h"
#include "dovetail/engine.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cache.h"
#include "schedule/scheduler.h"

namespace dovetail::engine {

// Options with every automatic value filled in, and what follows from them.
struct ResolvedOptions {
  EngineOptions options;
  const kernels::Kernels* kernels = nullptr;
  model::CacheShape cache_shape;
};

// kInvalid names the option, its value and what would be valid for this model and machine.
Result<ResolvedOptions> resolve(EngineOptions options, const load::ModelSource& source);

// The longest EngineOptions::target_inter_token_ms: as good as none, for who reads no answer while
// it grows.
inline constexpr double kNoTarget = 3600e3;

// The longest EngineOptions::stall_limit: a day.
inline constexpr std::chrono::milliseconds kMostStall = std::chrono::hours(24);

// One line per option that shapes the engine: its name on the command line, its value and why it is
// that, for people. `given` is what `resolved` was made from.
std::vector<std::string> explain(const EngineOptions& given, const ResolvedOptions& resolved,
                                 const load::ModelSource& source);

// Bytes of memory that this process may count on: the machine's, or less in a control group.
std::uint64_t usable_memory();
// What the cache takes where nothing is said: half of that, but no more than kMostKvMemory.
inline constexpr std::uint64_t kMostKvMemory = std::uint64_t{4} << 30;
std::uint64_t default_kv_memory();

// Where threads that compute stay that have no core of their own; for options whose automatic
// values are filled in. Where they take all cores of a machine with several caches, each stays
// behind the cache of its group: there is room for all of them, and what a group shares would not
// be near for who moves away.
cores::Binding binding(const EngineOptions& options);
cores::Pinning pinning(const EngineOptions& options);

// What the scheduler is told; for options whose automatic values are filled in.
schedule::SchedulerOptions scheduler_options(const EngineOptions& options);

}  // namespace dovetail::engine
