#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "dovetail/engine.h"
#include "kernels/cache_type.h"

namespace dovetail::engine {

// EngineOptions::cache_type that chooses by the weights.
inline constexpr std::string_view kAutoCacheType = "auto";

// The longest EngineOptions::target_inter_token_ms: in effect no bound, for callers that do not
// stream.
inline constexpr double kNoTarget = 3600e3;

// The longest EngineOptions::stall_limit: a day.
inline constexpr std::chrono::milliseconds kMaxStall = std::chrono::hours(24);

// Which of a command's options a row is among.
enum class OptionGroup : std::uint8_t {
  kSize,        // how much memory is needed
  kLanes,       // who computes: threads and instruction set
  kWatch,       // who looks that steps are made
  kScheduling,  // who goes when
  kProgram,     // for programs that embed the engine; no option of a command
};

using OptionMember =
    std::variant<std::uint32_t EngineOptions::*, std::uint64_t EngineOptions::*,
                 std::chrono::milliseconds EngineOptions::*, double EngineOptions::*,
                 bool EngineOptions::*, PolicyOption EngineOptions::*, PinOption EngineOptions::*,
                 std::string EngineOptions::*>;

// What the value of a row is.
enum class OptionKind : std::uint8_t {
  kWhole,
  kBytes,  // a whole number that may be written with a unit
  kReal,
  kFlag,
  kName,  // one of OptionRow::names
  kText,
};

// A parameter of the engine. The command line and TOML files, pipelines and their published schema,
// the checks of resolve() and docs/options.md take it from here.
struct OptionRow {
  std::string_view name;  // of the member; errors of resolve() have it
  OptionMember member;
  OptionGroup group = OptionGroup::kScheduling;
  std::string_view help;  // a sentence without its end
  // Its names on the command line and in files, where they are not the member's with '-' for '_'.
  std::string_view option = {};
  std::string_view alias = {};
  // Says what holds where it is not given, where that is not the member's value.
  std::string_view fallback = {};
  double least = 0.0;
  double most = std::numeric_limits<std::uint32_t>::max();
  std::span<const std::string_view> names = {};  // in the order of their enumeration
  std::string_view noun = {};                    // what one of the names is
  bool bytes = false;
  bool in_pipelines = false;  // may stand under `engine` of a pipeline's model

  constexpr OptionKind kind() const {
    if (!names.empty()) return OptionKind::kName;
    if (std::holds_alternative<std::string EngineOptions::*>(member)) return OptionKind::kText;
    if (std::holds_alternative<bool EngineOptions::*>(member)) return OptionKind::kFlag;
    if (std::holds_alternative<double EngineOptions::*>(member)) return OptionKind::kReal;
    return bytes ? OptionKind::kBytes : OptionKind::kWhole;
  }
};

inline constexpr std::array<std::string_view, 3> kPolicyNames = {"fcfs", "priority", "fair"};
inline constexpr std::array<std::string_view, 3> kPinNames = {"auto", "always", "never"};
inline constexpr auto kCacheTypeNames = [] {
  std::array<std::string_view, std::size(kernels::kCacheTypes) + 1> names = {kAutoCacheType};
  std::transform(std::begin(kernels::kCacheTypes), std::end(kernels::kCacheTypes),
                 names.begin() + 1, [](const kernels::CacheTypeInfo& type) { return type.name; });
  return names;
}();

inline constexpr double kMostBatchedTokens = 1U << 20;
inline constexpr double kMostSteps = 1U << 30;
inline constexpr double kMostBytes = std::uint64_t{1} << 53;

// In the order in which help and documents show them.
inline constexpr auto kOptionRows = std::to_array<OptionRow>({
    {.name = "max_num_seqs",
     .member = &EngineOptions::max_num_seqs,
     .group = OptionGroup::kSize,
     .help = "Sequences computed in one step",
     .least = 1,
     .most = 1U << 16,
     .in_pipelines = true},
    {.name = "max_num_batched_tokens",
     .member = &EngineOptions::max_num_batched_tokens,
     .group = OptionGroup::kSize,
     .help = "Tokens computed in one step, at least --max-num-seqs",
     .least = 1,
     .most = kMostBatchedTokens,
     .in_pipelines = true},
    {.name = "block_size",
     .member = &EngineOptions::block_size,
     .group = OptionGroup::kSize,
     .help = "Positions of a cache block; no other size now",
     .least = 1},
    {.name = "max_context",
     .member = &EngineOptions::max_context,
     .group = OptionGroup::kSize,
     .help = "Positions per sequence, prompt and answer",
     .option = "max-model-len",
     .alias = "max-context",
     .fallback = "0: as many as the model was made for",
     .in_pipelines = true},
    {.name = "kv_blocks",
     .member = &EngineOptions::kv_blocks,
     .group = OptionGroup::kSize,
     .help = "Cache blocks of 16 positions",
     .fallback = "0: what all sequences need, within --kv-memory",
     .most = 1U << 30,
     .in_pipelines = true},
    {.name = "kv_memory",
     .member = &EngineOptions::kv_memory,
     .group = OptionGroup::kSize,
     .help = "Most memory of the cache, for example 512M or 4G",
     .fallback = "0: half of the memory, 4G at most",
     .most = kMostBytes,
     .bytes = true},
    {.name = "cache_type",
     .member = &EngineOptions::cache_type,
     .group = OptionGroup::kSize,
     .help = "Type of the cache",
     .option = "kv-cache-dtype",
     .fallback = "auto: f32 for models of F32 weights, else f16",
     .names = kCacheTypeNames,
     .noun = "cache type"},
    {.name = "threads",
     .member = &EngineOptions::threads,
     .group = OptionGroup::kLanes,
     .help = "Threads",
     .fallback = "0: the physical cores",
     .most = 1024,
     .in_pipelines = true},
    {.name = "pin_threads",
     .member = &EngineOptions::pin_threads,
     .group = OptionGroup::kLanes,
     .help = "Whether threads that compute stay on a core each",
     .fallback = "auto: while no other process wants it",
     .names = kPinNames,
     .noun = "pinning"},
    {.name = "kernels",
     .member = &EngineOptions::kernels,
     .group = OptionGroup::kLanes,
     .help = "Instruction set, such as portable or avx2",
     .fallback = "the best that the CPU runs"},
    {.name = "stall_limit",
     .member = &EngineOptions::stall_limit,
     .group = OptionGroup::kWatch,
     .help = "Milliseconds in which a step may stand still before it is reported",
     .fallback = "10000; 0: never",
     .most = static_cast<double>(kMaxStall.count())},
    {.name = "policy",
     .member = &EngineOptions::policy,
     .help = "Who goes first: by arrival, by the requests' priority, or who was served least",
     .fallback = "fcfs",
     .names = kPolicyNames,
     .noun = "policy"},
    {.name = "max_waiting",
     .member = &EngineOptions::max_waiting,
     .help = "Answers that may wait for a place in the batch; more are refused",
     .option = "max-queued-requests"},
    {.name = "long_prefill_token_threshold",
     .member = &EngineOptions::long_prefill_token_threshold,
     .help = "Tokens of one prompt in one step",
     .fallback = "0: no limit but the step's"},
    {.name = "target_inter_token_ms",
     .member = &EngineOptions::target_inter_token_ms,
     .help = "Milliseconds that a step may take while others decode; cuts prompts",
     .fallback = "0: for run\nno limit, else twice what the step would take without prompts",
     .most = kNoTarget},
    {.name = "min_prefill_tokens",
     .member = &EngineOptions::min_prefill_tokens,
     .help = "Prompt tokens of every --prefill-interval-th step, however many decode",
     .least = 1,
     .most = kMostBatchedTokens},
    {.name = "prefill_interval",
     .member = &EngineOptions::prefill_interval,
     .help = "See --min-prefill-tokens; with --no-mixed, decode steps between prefill steps",
     .least = 1,
     .most = kMostSteps},
    {.name = "prefill_alignment",
     .member = &EngineOptions::prefill_alignment,
     .help = "Prompts are cut at multiples of this",
     .fallback = "0: 64; 1: anywhere",
     .most = kMostBatchedTokens},
    {.name = "ageing_steps",
     .member = &EngineOptions::ageing_steps,
     .help = "Steps of waiting that make a request one priority more urgent",
     .least = 1,
     .most = kMostSteps},
    {.name = "mixed",
     .member = &EngineOptions::mixed,
     .help = "A step has prompts or decodes, never both"},
    {.name = "pack_weights",
     .member = &EngineOptions::pack_weights,
     .group = OptionGroup::kSize,
     .help = "Leave weights in the mapped file, as is done where memory is short: slower, the same "
             "answers",
     .option = "pack",
     .in_pipelines = true},
    {.name = "always_pack",
     .member = &EngineOptions::always_pack,
     .group = OptionGroup::kSize,
     .help = "Pack weights where memory seems short, too",
     .in_pipelines = true},
    {.name = "prefix_cache",
     .member = &EngineOptions::prefix_cache,
     .help = "Compute every prompt, also where an earlier one began alike",
     .in_pipelines = true},
    {.name = "saved_states",
     .member = &EngineOptions::saved_states,
     .help = "States kept for prompts that begin alike, and before draft tokens, for models that\n"
             "have states",
     .fallback = "as many as a quarter of --kv-memory holds",
     .most = EngineOptions::kAutoSavedStates - 1.0},
    {.name = "state_interval",
     .member = &EngineOptions::state_interval,
     .help = "Blocks of 16 positions between them, beside those where prompts end or part",
     .least = 1,
     .most = kMostSteps},
    {.name = "async_scheduling",
     .member = &EngineOptions::async_scheduling,
     .help = "Plan the next step while one is computed",
     .in_pipelines = true},
    {.name = "speculative_tokens",
     .member = &EngineOptions::speculative_tokens,
     .help = "Draft tokens per step and answer at most, by the layer that a model has for that\n"
             "or, where it has none, looked up in prompt and answer",
     .fallback = "0: none",
     .most = 64,
     .in_pipelines = true},
    {.name = "trace_events",
     .member = &EngineOptions::trace_events,
     .group = OptionGroup::kProgram,
     .help = "Events that the trace has at most",
     .most = 1U << 26},
    {.name = "poison_freed_blocks",
     .member = &EngineOptions::poison_freed_blocks,
     .group = OptionGroup::kProgram,
     .help = "Fill freed cache blocks with NaN"},
});

// The row of this name; one that there is not does not compile.
consteval const OptionRow& option_row(std::string_view name) {
  for (const OptionRow& row : kOptionRows) {
    if (row.name == name) return row;
  }
  throw "no row of the table has this name";
}

// "max-num-seqs": the key in pipelines and, but for is_on(), the option and the key in TOML
// files.
std::string option_name(const OptionRow& row);

// An error of resolve() or Engine::create(), which begin with a member, for people who know it as
// an option: "max-model-len: 5 is ...".
Error by_option_name(Error error);

// Whether it is a flag that holds where it is not given: its option is then "no-" and
// option_name(), and `help` says what happens without it.
bool is_on(const OptionRow& row);

// The text of the help: `help`, and in parentheses what `options` have where it is not given.
std::string option_help(const OptionRow& row, const EngineOptions& options = {});

// "fcfs, priority or fair"
std::string names_text(const OptionRow& row);

// The value of the row as a number: of a flag 0 or 1, of an enumeration the place in `names`. For
// rows whose member is no text.
double option_value(const EngineOptions& options, const OptionRow& row);
// `value` is within the row's range.
void set_option(EngineOptions& options, const OptionRow& row, double value);
// One of `names`, or any text where the row is kText.
void set_option(EngineOptions& options, const OptionRow& row, std::string_view text);

// The first option that is out of its row's range, by name, value and what is valid. What holds
// where an option is not given is valid.
Status check_ranges(const EngineOptions& options);

}  // namespace dovetail::engine
