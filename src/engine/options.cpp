#include "engine/options.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cores/topology.h"
#include "engine/memory.h"
#include "kernels/cache_type_names.h"
#include "kv/block_pool.h"

namespace dovetail::engine {
namespace {

constexpr std::uint32_t kMaxSavedStates = 1024;  // that are kept without being asked for
constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);

Status check(std::string_view name, std::uint32_t value, std::uint32_t low, std::uint32_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kInvalid, "{}: {} is out of range, expected {} to {}", name, value, low,
              high);
}

// What the rows of the table say, and what one option has to do with another.
Status check_options(const EngineOptions& options) {
  if (options.block_size != kBlock) {
    return fail(ErrorKind::kInvalid,
                "block_size: {} is not available, expected {}: the attention kernels are built for "
                "blocks of {} positions",
                options.block_size, kBlock, kBlock);
  }
  if (const Status ok = check_ranges(options); !ok) return ok;
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return fail(ErrorKind::kInvalid,
                "max_num_batched_tokens: {} tokens are less than one for each of {} sequences, "
                "expected {} to {}, or fewer max_num_seqs",
                options.max_num_batched_tokens, options.max_num_seqs, options.max_num_seqs,
                kMostBatchedTokens);
  }
  if (options.always_pack && !options.pack_weights) {
    return fail(ErrorKind::kInvalid,
                "always_pack: on while pack_weights is off, expected one of the two");
  }
  return check("speculative_tokens", options.speculative_tokens, 0,
               options.max_num_batched_tokens - 1);
}

// Stands in for an option that is not given, so that whole test suites can run under one set.
constexpr const char* kKernelsVariable = "DOVETAIL_ISA";

Result<const kernels::Kernels*> choose_kernels(const std::string& given) {
  const char* variable = given.empty() ? std::getenv(kKernelsVariable) : nullptr;
  const std::string name = variable != nullptr ? variable : given;
  if (name.empty()) return &kernels::best_kernels();
  if (const kernels::Kernels* found = kernels::find_kernels(name)) return found;
  std::vector<std::string_view> names;
  for (const kernels::Kernels* available : kernels::available_kernels())
    names.push_back(available->name);
  return fail(ErrorKind::kInvalid, "{}: '{}' is not available on this CPU, expected one of {}",
              variable != nullptr ? kKernelsVariable : "kernels", name, fmt::join(names, ", "));
}

Result<kernels::CacheType> cache_type(const std::string& option, const load::ModelSource& source) {
  if (option != kAutoCacheType) {
    const std::optional<kernels::CacheType> type = kernels::find_cache_type(option);
    if (type) return *type;
    return fail(ErrorKind::kInvalid, "cache_type: '{}' is no cache type, expected {}", option,
                names_text(option_row("cache_type")));
  }
  const bool full = source.tensors.at("token_embd.weight").type == kernels::DataType::kF32;
  return full ? kernels::CacheType::kF32 : kernels::CacheType::kF16;
}

// Positions that a sequence may have: models that embed need none for the token that would follow.
std::uint32_t longest_sequence(const load::ModelConfig& config) {
  return config.max_context + (config.has_logits ? 0 : 1);
}

// Positions, at most `context`, that a sequence can have in the cache when it is alone there:
// groups with windows hold a part of them.
std::uint32_t positions_of(const EngineOptions& options, const model::CacheShape& shape,
                           std::uint32_t context) {
  const schedule::SchedulerOptions scheduling = scheduler_options(options, shape);
  std::uint32_t least = 0;
  for (std::uint32_t most = context; least < most;) {
    const std::uint32_t tried = most - (most - least) / 2;
    const bool fits =
        kv::blocks_alone(scheduling.groups, scheduling.block_size,
                         schedule::longest_chunk(scheduling), tried) <= scheduling.kv_blocks;
    fits ? least = tried : most = tried - 1;
  }
  return least;
}

// Memory that bounds what a model may take. One without weights is run nowhere: what it would take
// is told on any machine.
std::uint64_t memory_for(const load::ModelSource& source) {
  return source.has_weights ? usable_memory() : std::numeric_limits<std::uint64_t>::max();
}

// The cache's memory where it is left open; without weights what a sequence of `context` positions
// takes, where that is more than usual.
std::uint64_t kv_memory_for(const EngineOptions& options, const load::ModelSource& source,
                            const model::CacheShape& shape, std::uint32_t context) {
  if (options.kv_memory > 0) return options.kv_memory;
  if (source.has_weights) return default_kv_memory();
  const schedule::SchedulerOptions scheduling = scheduler_options(options, shape);
  const std::uint64_t units = kv::blocks_alone(scheduling.groups, scheduling.block_size,
                                               schedule::longest_chunk(scheduling), context);
  const std::uint64_t blocks = (units + shape.groups() - 1) / shape.groups();
  return std::max(kMaxKvMemory, blocks * shape.block_bytes());
}

// Fills in kv_blocks and max_context, which bound each other.
Status resolve_cache(EngineOptions& options, const load::ModelSource& source,
                     const model::CacheShape& shape) {
  const std::uint32_t trained = longest_sequence(source.config);
  if (options.max_context > 0) {
    if (const Status ok = check("max_context", options.max_context, 2, trained); !ok) return ok;
  }
  const std::uint32_t context = options.max_context > 0 ? options.max_context : trained;
  const bool as_given = options.kv_blocks > 0;
  const std::uint32_t most =
      static_cast<std::uint32_t>(option_row("kv_blocks").most) / shape.groups();
  if (!as_given) {
    const std::uint64_t memory = kv_memory_for(options, source, shape, context);
    const std::uint64_t affordable = memory / shape.block_bytes();
    if (affordable == 0) {
      return fail(ErrorKind::kInvalid,
                  "kv_memory: {} bytes hold no cache block, expected at least {} (one block of {} "
                  "positions)",
                  memory, shape.block_bytes(), kBlock);
    }
    const std::uint64_t useful =
        std::uint64_t{options.max_num_seqs} * kv::blocks_for(context, kBlock);
    options.kv_blocks =
        static_cast<std::uint32_t>(std::min<std::uint64_t>({useful, affordable, most}));
    options.kv_memory = memory;
  }
  if (const Status ok = check("kv_blocks", options.kv_blocks, 1, most); !ok) return ok;
  const std::uint64_t states = options.max_num_seqs * std::uint64_t{shape.state_floats()} * 4;
  const std::uint64_t usable = memory_for(source);
  if (states > usable) {
    return fail(ErrorKind::kInvalid,
                "max_num_seqs: the states of {} sequences take {} bytes and do not fit the memory "
                "of {}, expected fewer",
                options.max_num_seqs, states, usable);
  }
  const std::uint64_t memory = usable - states;
  if (options.kv_blocks > memory / shape.block_bytes()) {
    return fail(ErrorKind::kInvalid,
                "{}: {} cache blocks of {} bytes do not fit the memory of {} bytes, expected at "
                "most {}",
                as_given ? "kv_blocks" : "kv_memory", options.kv_blocks, shape.block_bytes(),
                memory, as_given ? memory / shape.block_bytes() : memory);
  }
  const std::uint32_t positions = positions_of(options, shape, context);
  if (options.max_context > positions) {
    return fail(ErrorKind::kInvalid,
                "max_context: {} positions do not fit {} cache blocks of {}; expected at most {}, "
                "or more kv_blocks or kv_memory",
                options.max_context, options.kv_blocks, kBlock, positions);
  }
  options.max_context = std::min(context, positions);
  return {};
}

// How many states are kept where that is left open: a quarter of the cache's memory, as far as it
// goes, and without a prefix cache, whose rows save them for others, as many as draft tokens take.
Status resolve_states(EngineOptions& options, const load::ModelSource& source,
                      const model::CacheShape& shape) {
  const std::uint64_t bytes = std::uint64_t{shape.state_floats()} * sizeof(float);
  if (bytes == 0 || (!options.prefix_cache && options.speculative_tokens == 0))
    options.saved_states = 0;
  if (bytes == 0) return {};
  const bool automatic = options.saved_states == EngineOptions::kAutoSavedStates;
  if (automatic && (options.prefix_cache || options.speculative_tokens > 0)) {
    const std::uint64_t usual = source.has_weights ? default_kv_memory() : kMaxKvMemory;
    const std::uint64_t memory = (options.kv_memory > 0 ? options.kv_memory : usual) / 4;
    options.saved_states =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(memory / bytes, kMaxSavedStates));
    // Draft tokens take at most half.
    const std::uint64_t drafts =
        2 * std::uint64_t{options.max_num_seqs} * options.speculative_tokens;
    if (!options.prefix_cache && options.saved_states > drafts)
      options.saved_states = static_cast<std::uint32_t>(drafts);
  }
  if (options.speculative_tokens > 0 && options.saved_states == 0) {
    return fail(ErrorKind::kInvalid,
                "speculative_tokens: {} with 0 saved_states, expected at least 1 of {} bytes: the "
                "model's layers have states, which draft tokens that turn out wrong are taken back "
                "from",
                options.speculative_tokens, bytes);
  }
  const std::uint64_t usable = memory_for(source);
  if (options.saved_states > usable / bytes) {
    return fail(ErrorKind::kInvalid,
                "saved_states: {} of {} bytes each do not fit the memory of {} bytes, expected at "
                "most {}",
                options.saved_states, bytes, usable, usable / bytes);
  }
  return {};
}

// Where tokens look in both directions a prompt is computed as a whole, and what is kept of one
// says nothing of another that begins like it; nor does it where all hidden rows are pooled.
void resolve_embedding(EngineOptions& options, const load::ModelConfig& config) {
  const bool pools_all =
      config.pooling == load::Pooling::kMean || config.pooling == load::Pooling::kFirst;
  if (!config.causal() || pools_all) options.prefix_cache = false;
  if (config.causal()) return;
  const std::uint32_t context =
      options.max_context > 0 ? options.max_context : longest_sequence(config);
  options.max_num_batched_tokens = std::max(options.max_num_batched_tokens, context);
}

schedule::Policy policy_of(PolicyOption policy) {
  switch (policy) {
    case PolicyOption::kPriority:
      return schedule::Policy::kPriority;
    case PolicyOption::kFair:
      return schedule::Policy::kFair;
    case PolicyOption::kFcfs:
      break;
  }
  return schedule::Policy::kFcfs;
}

}  // namespace

std::uint64_t usable_memory() {
  const auto pages = static_cast<std::uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L));
  const auto page = static_cast<std::uint64_t>(std::max(sysconf(_SC_PAGESIZE), 1L));
  return std::min(pages * page, control_group_memory());
}

std::uint64_t default_kv_memory() { return std::min(kMaxKvMemory, usable_memory() / 2); }

cores::Binding binding(const EngineOptions& options) {
  const std::vector<std::uint32_t> cores = cores::cores_by_cache();
  const bool all = options.threads >= std::accumulate(cores.begin(), cores.end(), 0U);
  return cores.size() > 1 && all ? cores::Binding::kCache : cores::Binding::kNone;
}

cores::Pinning pinning(const EngineOptions& options) {
  switch (options.pin_threads) {
    case PinOption::kAlways:
      return cores::Pinning::kAlways;
    case PinOption::kNever:
      return cores::Pinning::kNever;
    case PinOption::kAuto:
      break;
  }
  return cores::Pinning::kAuto;
}

Result<ResolvedOptions> resolve(EngineOptions options, const load::ModelSource& source) {
  if (const Status ok = check_options(options); !ok) return fail(ok.error());
  if (options.threads == 0)
    options.threads = static_cast<std::uint32_t>(cores::Topology::of_machine().lanes());

  ResolvedOptions resolved;
  resolved.context = options.max_context;
  resolved.automatic_cache = options.kv_blocks == 0 && options.kv_memory == 0;
  const Result<const kernels::Kernels*> kernels = choose_kernels(options.kernels);
  if (!kernels) return fail(kernels.error());
  resolved.kernels = *kernels;
  options.kernels = resolved.kernels->name;

  const Result<kernels::CacheType> type = cache_type(options.cache_type, source);
  if (!type) return fail(type.error());
  resolved.cache_shape =
      model::grouped_cache_shape(source.config, *type, drafts_by_layer(options, source.config));
  resolved.draft_tokens = drafts_by_layer(options, source.config) ? options.speculative_tokens : 0;
  options.cache_type = kernels::info(*type).name;
  if (const Status ok = resolve_states(options, source, resolved.cache_shape); !ok)
    return fail(ok.error());
  resolve_embedding(options, source.config);
  if (const Status ok = resolve_cache(options, source, resolved.cache_shape); !ok)
    return fail(ok.error());
  resolved.options = std::move(options);
  return resolved;
}

bool drafts_by_layer(const EngineOptions& options, const load::ModelConfig& config) {
  return options.speculative_tokens > 0 && config.draft_layer.has_value();
}

model::BackendOptions backend_options(const ResolvedOptions& resolved) {
  model::BackendOptions options;
  options.cache = resolved.cache_shape;
  options.blocks = resolved.options.kv_blocks;
  options.slots = resolved.options.max_num_seqs;
  options.saved_states = resolved.options.saved_states;
  options.context = resolved.context;
  options.draft_tokens = resolved.draft_tokens;
  return options;
}

schedule::SchedulerOptions scheduler_options(const EngineOptions& options,
                                             const model::CacheShape& shape) {
  schedule::SchedulerOptions result;
  result.max_num_seqs = options.max_num_seqs;
  result.max_num_batched_tokens = options.max_num_batched_tokens;
  result.long_prefill_token_threshold = options.long_prefill_token_threshold;
  result.block_size = static_cast<std::uint32_t>(kernels::kBlockSize);
  result.groups.clear();
  for (const std::uint32_t window : shape.windows()) result.groups.push_back({window});
  result.kv_blocks = options.kv_blocks * shape.groups();
  result.tells_generated = shape.tells_generated();
  result.has_states = shape.state_floats() > 0;
  result.saved_states = result.has_states ? options.saved_states : 0;
  result.state_interval = options.state_interval;
  result.max_context = options.max_context;
  result.max_waiting = options.max_waiting;
  result.mixed = options.mixed;
  result.prefix_cache = options.prefix_cache;
  result.speculative_tokens = options.speculative_tokens;
  result.prefill_alignment = options.prefill_alignment;
  result.min_prefill_tokens = options.min_prefill_tokens;
  result.prefill_interval = options.prefill_interval;
  result.target_step_us = 1000.0 * options.target_inter_token_ms;
  result.policy = policy_of(options.policy);
  result.ageing_steps = options.ageing_steps;
  return result;
}

}  // namespace dovetail::engine
