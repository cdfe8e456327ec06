#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "cores/topology.h"
#include "engine/options.h"
#include "kv/block_pool.h"

namespace dovetail::engine {
namespace {

std::string_view pinning_text(PinOption option) {
  switch (option) {
    case PinOption::kAuto:
      return ", each on a core of its own while no other process wants it";
    case PinOption::kAlways:
      return ", pinned";
    case PinOption::kNever:
      break;
  }
  return "";
}

class Explanation {
 public:
  Explanation(const EngineOptions& given, const ResolvedOptions& resolved,
              const load::ModelSource& source)
      : given_(given), options_(resolved.options), resolved_(resolved), source_(source) {}

  std::vector<std::string> lines() {
    add("threads", options_.threads,
        fmt::format("{}{}", given_.threads > 0 ? "as given" : "the physical cores",
                    pinning_text(options_.pin_threads)));
    add("lanes", cores::Topology::of_machine(options_.threads).text(),
        fmt::format("one for each thread, in a group per L3 cache{}",
                    binding(options_) == cores::Binding::kCache ? ", where it stays" : ""));
    add("kernels", options_.kernels,
        given_.kernels.empty() ? "the best that this CPU runs, or DOVETAIL_ISA" : "as given");
    const bool full = resolved_.cache_shape.type() == kernels::CacheType::kF32;
    add("kv-cache-dtype", options_.cache_type,
        given_.cache_type != kAutoCacheType ? "as given"
        : full                              ? "as the weights are"
                                            : "the weights have no more digits");
    add("max-num-seqs", options_.max_num_seqs, or_default(&EngineOptions::max_num_seqs));
    add("max-num-batched-tokens", options_.max_num_batched_tokens,
        options_.max_num_batched_tokens != given_.max_num_batched_tokens
            ? "a prompt is computed as a whole"
            : or_default(&EngineOptions::max_num_batched_tokens));
    add("kv-blocks", options_.kv_blocks, blocks());
    add("max-model-len", options_.max_context, context());
    add("target-inter-token-ms", target_value(), target_reason());
    scheduling();
    return std::move(lines_);
  }

 private:
  template <class Value>
  void add(std::string_view name, const Value& value, std::string_view reason) {
    lines_.push_back(fmt::format("{} {}: {}", name, value, reason));
  }

  std::string_view or_default(std::uint32_t EngineOptions::*option) const {
    return given_.*option == EngineOptions{}.*option ? "the default" : "as given";
  }

  std::string blocks() const {
    const std::uint64_t block = resolved_.cache_shape.block_bytes();
    const std::string size = binary_bytes(options_.kv_blocks * block);
    if (given_.kv_blocks > 0) return fmt::format("{}, as given", size);
    const std::uint32_t context =
        given_.max_context > 0 ? given_.max_context : source_.config.max_context;
    const std::uint64_t useful =
        std::uint64_t{options_.max_num_seqs} * kv::blocks_for(context, options_.block_size);
    const std::string need =
        fmt::format("{} sequences of {} positions", options_.max_num_seqs, context);
    const std::string_view limit = given_.kv_memory > 0 ? "kv-memory"
                                   : options_.kv_memory == kMaxKvMemory
                                       ? "the most without kv-memory"
                                       : "half of the memory";
    if (options_.kv_blocks >= useful) {
      return fmt::format("{} need that many; {} of {} ({})", need, size,
                         binary_bytes(options_.kv_memory), limit);
    }
    return fmt::format("{} would need {} ({}), but {} is {}", need, useful,
                       binary_bytes(useful * block), binary_bytes(options_.kv_memory), limit);
  }

  std::string context() const {
    if (given_.max_context > 0) return "as given";
    if (options_.max_context == source_.config.max_context) return "what the model was made for";
    return fmt::format("what the cache holds; the model was made for {}",
                       source_.config.max_context);
  }

  std::string target_value() const {
    if (options_.target_inter_token_ms >= kNoTarget) return "none";
    return options_.target_inter_token_ms > 0 ? fmt::format("{}", options_.target_inter_token_ms)
                                              : "auto";
  }
  std::string_view target_reason() const {
    if (!options_.mixed) return "not used without mixed steps";
    if (options_.target_inter_token_ms >= kNoTarget) return "prefill is as fast as it can be";
    return options_.target_inter_token_ms > 0
               ? "as given"
               : "prompts at most double the time of a step in which others decode";
  }

  void scheduling() {
    constexpr std::string_view kReasons[] = {"by arrival", "by the requests' priority",
                                             "by what each tenant was served"};
    const auto policy = static_cast<std::size_t>(options_.policy);
    add("policy", kPolicyNames[policy], kReasons[policy]);
    const auto flag = [&](std::string_view name, bool value, std::string_view on,
                          std::string_view off) {
      add(name, value ? "on" : "off", value ? on : off);
    };
    flag("mixed", options_.mixed, "a step has prompts beside decode rows",
         "a step has prompts or decode rows");
    flag("pack", options_.pack_weights,
         options_.always_pack ? "weights of block types are packed for products at load"
                              : "weights of block types are packed for products at load, as far as "
                                "memory is free",
         "weights stay in the mapped file");
    const bool states = resolved_.cache_shape.state_floats() > 0;
    flag("prefix-cache", options_.prefix_cache, "equal beginnings are computed once",
         "every prompt is computed");
    if (states && options_.saved_states > 0) {
      const std::uint64_t bytes = resolved_.cache_shape.state_floats() * sizeof(float);
      add("saved-states", options_.saved_states,
          fmt::format("{}, {}: the layers' states, for equal beginnings and draft tokens",
                      binary_bytes(options_.saved_states * bytes),
                      given_.saved_states == EngineOptions::kAutoSavedStates
                          ? "a quarter of the cache's memory at most"
                          : "as given"));
    }
    flag("async-scheduling", options_.async_scheduling, "a step is planned while one is computed",
         "steps are planned one after the other");
    if (options_.speculative_tokens > 0) {
      add("speculative-tokens", options_.speculative_tokens,
          resolved_.draft_tokens > 0
              ? "draft tokens per decode row at most, by the model's own layer"
              : "draft tokens per decode row, looked up in the text so far");
    }
  }

  const EngineOptions& given_;
  const EngineOptions& options_;
  const ResolvedOptions& resolved_;
  const load::ModelSource& source_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string binary_bytes(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::vector<std::string> explain(const EngineOptions& given, const ResolvedOptions& resolved,
                                 const load::ModelSource& source) {
  return Explanation(given, resolved, source).lines();
}

}  // namespace dovetail::engine
