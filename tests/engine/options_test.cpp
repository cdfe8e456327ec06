#include "engine/options.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cores/topology.h"
#include "support/random_model.h"

namespace dovetail::engine {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

// 256 positions, 2 layers of 2 key/value heads of 16 elements: a block of F32 has 8 KiB.
constexpr std::uint64_t kBlockBytes = 8192;

std::shared_ptr<load::ModelSource> model() { return test::random_model({}); }

TEST(Options, EveryRangeNamesOptionValueAndWhatIsValid) {
  struct Case {
    void (*change)(EngineOptions&);
    const char* message;
  };
  const Case cases[] = {
      {[](EngineOptions& o) { o.block_size = 32; },
       "block_size: 32 is not available, expected 16: the attention kernels are built for"},
      {[](EngineOptions& o) { o.max_num_seqs = 0; },
       "max_num_seqs: 0 is out of range, expected 1 to 65536"},
      {[](EngineOptions& o) { o.max_num_batched_tokens = 63; },
       "max_num_batched_tokens: 63 tokens are less than one for each of 64 sequences, expected 64 "
       "to 1048576, or fewer max_num_seqs"},
      {[](EngineOptions& o) { o.max_num_batched_tokens = 2000000; },
       "max_num_batched_tokens: 2000000 is out of range"},
      {[](EngineOptions& o) { o.speculative_tokens = 65; },
       "speculative_tokens: 65 is out of range, expected 0 to 64"},
      {[](EngineOptions& o) {
         o.max_num_seqs = o.max_num_batched_tokens = 4;
         o.speculative_tokens = 4;
       },
       "speculative_tokens: 4 is out of range, expected 0 to 3"},
      {[](EngineOptions& o) { o.min_prefill_tokens = 0; },
       "min_prefill_tokens: 0 is out of range, expected 1 to"},
      {[](EngineOptions& o) { o.prefill_interval = 0; },
       "prefill_interval: 0 is out of range, expected 1 to"},
      {[](EngineOptions& o) { o.prefill_alignment = 2000000; },
       "prefill_alignment: 2000000 is out of range, expected 0 to 1048576"},
      {[](EngineOptions& o) { o.ageing_steps = 0; },
       "ageing_steps: 0 is out of range, expected 1 to"},
      {[](EngineOptions& o) { o.target_inter_token_ms = -1; },
       "target_inter_token_ms: -1 is out of range, expected 0 to 3600000"},
      {[](EngineOptions& o) { o.target_inter_token_ms = std::numeric_limits<double>::quiet_NaN(); },
       "target_inter_token_ms: nan is out of range"},
      {[](EngineOptions& o) { o.stall_limit = -1ms; },
       "stall_limit: -1 is out of range, expected 0 to 86400000"},
      {[](EngineOptions& o) { o.trace_events = std::size_t{1} << 40; },
       "trace_events: 1099511627776 is out of range, expected 0 to 67108864"},
      {[](EngineOptions& o) { o.threads = 2000; }, "threads: 2000 is out of range, expected 0 to"},
      {[](EngineOptions& o) { o.kernels = "abacus"; }, "kernels: 'abacus' is not available"},
      {[](EngineOptions& o) { o.cache_type = "q4_0"; },
       "cache_type: 'q4_0' is no cache type, expected auto, f32, f16, bf16, q8_0 or fp8"},
      {[](EngineOptions& o) { o.kv_blocks = 0xffffffff; }, "kv_blocks: 4294967295 is out of range"},
      {[](EngineOptions& o) { o.kv_blocks = 1U << 30; },
       "kv_blocks: 1073741824 cache blocks of 8192 bytes do not fit the memory of "},
      {[](EngineOptions& o) { o.kv_memory = 100; },
       "kv_memory: 100 bytes hold no cache block, expected at least 8192 (one block of 16"},
      {[](EngineOptions& o) { o.max_context = 257; },
       "max_context: 257 is out of range, expected 2 to 256"},
      {[](EngineOptions& o) { o.max_context = 200, o.kv_blocks = 12; },
       "max_context: 200 positions do not fit 12 cache blocks of 16; expected at most 192"},
  };
  for (const Case& c : cases) {
    EngineOptions options;
    c.change(options);
    const Result<ResolvedOptions> resolved = resolve(options, *model());
    ASSERT_FALSE(resolved) << c.message;
    EXPECT_EQ(resolved.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(resolved.error().message, HasSubstr(c.message));
  }
}

TEST(Options, WhatIsOnTheEdgeIsValid) {
  EngineOptions options;
  options.max_num_seqs = options.max_num_batched_tokens = 1;
  options.prefill_alignment = 1 << 20;
  options.long_prefill_token_threshold = options.max_waiting = 0xffffffff;
  EXPECT_TRUE(resolve(options, *model()));
}

TEST(Options, TheCacheHoldsAllSequencesOrFillsItsMemory) {
  EngineOptions options;
  options.kv_memory = 2000 * kBlockBytes;
  options.threads = 2;
  Result<ResolvedOptions> resolved = resolve(options, *model());
  ASSERT_TRUE(resolved) << resolved.error().message;
  EXPECT_EQ(resolved->cache_shape.block_bytes(), kBlockBytes);
  EXPECT_EQ(resolved->options.kv_blocks, 64U * 16);
  std::vector<std::string> lines = explain(options, *resolved, *model());
  EXPECT_THAT(lines, Contains("kv-blocks 1024: 64 sequences of 256 positions need that many; 8.0 "
                              "MiB of 15.6 MiB (kv-memory)"));
  EXPECT_THAT(lines, Contains("max-model-len 256: what the model was made for"));
  EXPECT_THAT(lines,
              Contains("threads 2: as given, each on a core of its own while no other process "
                       "wants it"));
  EXPECT_THAT(lines, Contains("lanes " + cores::Topology::of_machine(2).text() +
                              ": one for each thread, in a group per L3 cache"));
  EXPECT_THAT(lines, Contains("max-num-seqs 64: the default"));
  EXPECT_THAT(lines, Contains("kv-cache-dtype f32: as the weights are"));

  options.pin_threads = PinOption::kAlways;
  EXPECT_THAT(explain(options, *resolve(options, *model()), *model()),
              Contains("threads 2: as given, pinned"));
  options.pin_threads = PinOption::kNever;
  EXPECT_THAT(explain(options, *resolve(options, *model()), *model()),
              Contains("threads 2: as given"));

  options.kv_memory = 10 * kBlockBytes + 1;
  options.threads = 0;
  options.pin_threads = PinOption::kAuto;
  options.max_num_seqs = 7;
  resolved = resolve(options, *model());
  ASSERT_TRUE(resolved) << resolved.error().message;
  EXPECT_EQ(resolved->options.kv_blocks, 10U);
  EXPECT_EQ(resolved->options.max_context, 160U);
  EXPECT_GT(resolved->options.threads, 0U);
  lines = explain(options, *resolved, *model());
  EXPECT_THAT(lines,
              Contains("kv-blocks 10: 7 sequences of 256 positions would need 112 (0.9 MiB), "
                       "but 0.1 MiB is kv-memory"));
  EXPECT_THAT(lines,
              Contains("max-model-len 160: what the cache holds; the model was made for 256"));
  EXPECT_THAT(lines,
              Contains(testing::AllOf(StartsWith("threads "), HasSubstr(": the physical cores"))));
  EXPECT_THAT(lines, Contains("max-num-seqs 7: as given"));
}

// What the memory holds of a context chooses nothing.
TEST(Options, TheModelsContextIsTheOneThatIsAskedFor) {
  EngineOptions options;
  options.kv_blocks = 4;
  EXPECT_EQ(resolve(options, *model())->context, 0U);
  options.max_context = 50;
  EXPECT_EQ(resolve(options, *model())->context, 50U);
}

TEST(Options, TheCacheIsNotLargerThanTheMemory) {
  EngineOptions options;
  options.kv_memory = std::uint64_t{1} << 50;
  EXPECT_TRUE(resolve(options, *model()));
  const auto endless = model();
  endless->config.max_context = 1U << 30;
  const Result<ResolvedOptions> resolved = resolve(options, *endless);
  ASSERT_FALSE(resolved);
  EXPECT_EQ(resolved.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(resolved.error().message,
              testing::AllOf(StartsWith("kv_memory: 1073741824 cache blocks of 8192 bytes"),
                             HasSubstr(fmt::format("expected at most {}", usable_memory()))));
}

TEST(Options, TheDefaultCacheIsBoundedByTheMemory) {
  EXPECT_GT(usable_memory(), 0U);
  EXPECT_LE(default_kv_memory(), usable_memory() / 2);
  EXPECT_LE(default_kv_memory(), kMaxKvMemory);
  EngineOptions options;
  const Result<ResolvedOptions> resolved = resolve(options, *model());
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->options.kv_memory, default_kv_memory());
}

TEST(Options, SaysHowItSchedules) {
  EngineOptions options;
  options.policy = PolicyOption::kFair;
  options.speculative_tokens = 3;
  options.mixed = false;
  options.target_inter_token_ms = 40;
  const std::vector<std::string> lines = explain(options, *resolve(options, *model()), *model());
  EXPECT_THAT(lines, Contains("policy fair: by what each tenant was served"));
  EXPECT_THAT(lines, Contains("mixed off: a step has prompts or decode rows"));
  EXPECT_THAT(lines, Contains("prefix-cache on: equal beginnings are computed once"));
  EXPECT_THAT(lines, Contains(StartsWith("speculative-tokens 3: ")));
  EXPECT_THAT(lines, Contains(StartsWith("target-inter-token-ms 40: ")));
  options.mixed = true;
  options.target_inter_token_ms = kNoTarget;
  EXPECT_THAT(explain(options, *resolve(options, *model()), *model()),
              Contains(StartsWith("target-inter-token-ms none: ")));
  EXPECT_THAT(explain({}, *resolve({}, *model()), *model()),
              Contains("target-inter-token-ms auto: prompts at most double the time of a step in "
                       "which others decode"));
}

TEST(Options, SaysWhatDrafts) {
  EngineOptions options;
  options.speculative_tokens = 2;
  test::RandomModelOptions parts;
  for (const bool layer : {false, true}) {
    parts.change = [layer](load::ModelConfig& config) {
      if (layer) config.draft_layer = config.layers.front();
    };
    const auto of = test::random_model(parts);
    const Result<ResolvedOptions> resolved = resolve(options, *of);
    EXPECT_EQ(resolved->draft_tokens, layer ? 2U : 0U);
    EXPECT_THAT(explain(options, *resolved, *of),
                Contains(AllOf(StartsWith("speculative-tokens 2: "),
                               HasSubstr(layer ? "by the model's own layer" : "looked up"))));
  }
}

// Draft tokens of models with states take saved ones.
TEST(Options, DraftTokensOfStatesNeedPlacesToSaveThem) {
  test::RandomModelOptions with_states;
  with_states.change = [](load::ModelConfig& config) {
    config.layers.front().mixer = load::ShortConvConfig{config.hidden_size, 3};
  };
  const auto model = test::random_model(with_states);
  EngineOptions options;
  options.max_num_seqs = 4;
  options.speculative_tokens = 3;
  options.prefix_cache = false;
  Result<ResolvedOptions> resolved = resolve(options, *model);
  ASSERT_TRUE(resolved) << resolved.error().message;
  EXPECT_EQ(resolved->options.saved_states, 2U * 4U * 3U);
  EXPECT_THAT(explain(options, *resolved, *model),
              Contains(HasSubstr("a quarter of the cache's memory at most: the layers' states")));

  options.saved_states = 0;
  resolved = resolve(options, *model);
  ASSERT_FALSE(resolved);
  EXPECT_THAT(resolved.error().message,
              StartsWith("speculative_tokens: 3 with 0 saved_states, expected at least 1 of "));

  options.speculative_tokens = 0;
  options.saved_states = EngineOptions::kAutoSavedStates;
  EXPECT_EQ(resolve(options, *model)->options.saved_states, 0U);
}

}  // namespace
}  // namespace dovetail::engine
