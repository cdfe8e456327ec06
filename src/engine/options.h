#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cores/thread_pins.h"
#include "dovetail/engine.h"
#include "dovetail/request.h"
#include "engine/option_table.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/backend.h"
#include "model/cache_shape.h"
#include "schedule/scheduler.h"

namespace dovetail::engine {

// Options with every automatic value filled in, and values derived from them.
struct ResolvedOptions {
  EngineOptions options;
  const kernels::Kernels* kernels = nullptr;
  model::CacheShape cache_shape;
  // What the model is run for (model::BackendOptions): the max_context that was asked for, or 0.
  // How much of it the memory holds leaves no trace in the bits.
  std::uint32_t context = 0;
  std::uint32_t draft_tokens = 0;  // by the model's own layer
  bool automatic_cache = false;    // no option says how large the cache is
};

// kInvalid names the option, its value and what would be valid for this model and machine.
Result<ResolvedOptions> resolve(EngineOptions options, const load::ModelSource& source);

// Whether draft tokens come from a layer of the model, in place of being looked up.
bool drafts_by_layer(const EngineOptions& options, const load::ModelConfig& config);

// What a backend is opened for.
model::BackendOptions backend_options(const ResolvedOptions& resolved);

// One line for people per option that shapes the engine: name on the command line, value and
// reason. `resolved` is the result of resolve(given).
std::vector<std::string> explain(const EngineOptions& given, const ResolvedOptions& resolved,
                                 const load::ModelSource& source);

// "12.0 MiB" or "1.5 GiB"
std::string binary_bytes(std::uint64_t bytes);

// Bytes of memory that this process may use: the machine's, or less in a control group.
std::uint64_t usable_memory();
// Default size of the cache: half of that, at most kMaxKvMemory.
inline constexpr std::uint64_t kMaxKvMemory = std::uint64_t{4} << 30;
std::uint64_t default_kv_memory();

// Binding of computing threads without a core of their own; for options whose automatic values are
// filled in. Where the threads take all cores of a machine with several caches, each is bound to
// the cache of its group, which holds the data that the group shares.
cores::Binding binding(const EngineOptions& options);
cores::Pinning pinning(const EngineOptions& options);

// Options of the scheduler; for options whose automatic values are filled in. `shape`: of the
// model's cache.
schedule::SchedulerOptions scheduler_options(const EngineOptions& options,
                                             const model::CacheShape& shape = {});

// Limits that a request is checked against.
struct RequestLimits {
  std::uint32_t vocab_size = 0;
  std::uint32_t max_context = 0;
  std::uint32_t max_num_seqs = 0;
  std::uint32_t max_waiting = 0;
  bool has_logits = true;  // else the model only embeds, or ranks
  bool ranks = false;
};

// The longest Request::timeout.
inline constexpr std::chrono::hours kMaxTimeout{24 * 365};

// kInvalid with the field, its value and what would be valid; field names are those of Request.
Status validate(const Request& request, const RequestLimits& limits);

}  // namespace dovetail::engine
