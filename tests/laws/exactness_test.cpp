// Law 5: the schedule never changes the answer. Every request's tokens and logits are the same bits
// as those of its own run with one sequence, one chunk and one thread.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/options.h"
#include "kernels/kernels.h"
#include "laws/exactness_models.h"
#include "laws/streams.h"
#include "model/cache_shape.h"
#include "support/changed_backend.h"
#include "support/random_model.h"
#include "support/random_scheduling.h"
#include "support/sanitized.h"

namespace dovetail::laws {
namespace {

using kernels::DataType;

std::vector<TokenId> random_prompt(std::size_t length, std::uint32_t vocab, std::mt19937& random) {
  std::vector<TokenId> prompt(length);
  for (TokenId& id : prompt) id = static_cast<TokenId>(random() % vocab);
  return prompt;
}

// The workload of the source case: lengths alternate between 20 and 33, caps run through 12..39.
std::vector<Arrival> source_case(std::uint32_t requests, std::uint32_t max_cap,
                                 std::uint32_t vocab) {
  std::mt19937 random(7);
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < requests; ++i) {
    Arrival arrival;
    arrival.request.prompt = random_prompt(std::min(46U, 20 + 13 * i % 26), vocab, random);
    arrival.request.max_tokens = static_cast<std::int32_t>(std::min(max_cap, 12 + 11 * i % 28));
    arrival.request.sampling.temperature = 0.0F;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

EngineOptions batch_options(std::uint32_t seqs, std::uint32_t chunk, std::uint32_t threads) {
  EngineOptions options;
  options.max_num_seqs = seqs;
  options.max_num_batched_tokens = 256;
  options.long_prefill_token_threshold = chunk;
  options.threads = threads;
  options.poison_freed_blocks = true;
  return options;
}

// Index of the first request whose stream differs from its lone run, or nothing.
std::optional<std::size_t> first_difference(const std::shared_ptr<const load::ModelSource>& model,
                                            const EngineOptions& options,
                                            const std::vector<Arrival>& arrivals,
                                            const Outcome& outcome) {
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (!same_bits(serve_alone(model, options, arrivals[i].request), outcome.streams[i])) return i;
  }
  return std::nullopt;
}

constexpr std::uint32_t kLanes[] = {1, 2, 3, 8};

// On which of them a history runs: each, or, where that takes long, one that it draws.
std::vector<std::uint32_t> lanes_of_history(std::mt19937& random) {
  const std::uint32_t one = kLanes[random() % std::size(kLanes)];
  if (test::kThreadSanitized) return {one};
  return {std::begin(kLanes), std::end(kLanes)};
}

struct SourceCase {
  std::uint32_t seqs, requests, max_cap;
  std::vector<std::pair<std::size_t, std::uint32_t>>
      mid_stream;  // request -> slot, in the order of admission
};

class SourceCases
    : public testing::TestWithParam<std::tuple<SourceCase, std::uint32_t, std::uint32_t>> {};

TEST_P(SourceCases, AdmitIntoFreedSlotsAndChangeNothing) {
  const auto& [source, chunk, threads] = GetParam();
  const auto model = test::random_model({});
  const std::vector<Arrival> arrivals =
      source_case(source.requests, source.max_cap, model->config.vocab_size);
  const EngineOptions options = batch_options(source.seqs, chunk, threads);
  const Outcome outcome = serve(model, options, arrivals);

  EXPECT_EQ(first_difference(model, options, arrivals, outcome), std::nullopt);
  EXPECT_EQ(outcome.stats.kv_blocks_used, 0U);
  ASSERT_EQ(outcome.admissions.size(), source.requests);
  for (std::size_t i = 0; i < source.requests; ++i) {
    EXPECT_EQ(outcome.admissions[i].request, i);
    const std::uint32_t slot =
        i < source.seqs ? static_cast<std::uint32_t>(i) : source.mid_stream[i - source.seqs].second;
    EXPECT_EQ(outcome.admissions[i].slot, slot) << "of request " << i;
    EXPECT_EQ(outcome.streams[i].tokens.size(),
              static_cast<std::size_t>(arrivals[i].request.max_tokens));
    EXPECT_EQ(outcome.admissions[i].step > 0, i >= source.seqs);
  }
}

const SourceCase kThreeSlots{3, 6, 14, {{3, 0}, {4, 1}, {5, 2}}};
const SourceCase kFourSlots{4, 8, 48, {{4, 0}, {5, 3}, {6, 1}, {7, 2}}};

INSTANTIATE_TEST_SUITE_P(Whole, SourceCases,
                         testing::Combine(testing::Values(kThreeSlots, kFourSlots),
                                          testing::Values(0U), testing::ValuesIn(kLanes)));

// Chunks delay the first tokens of later requests, so that only the order of slots in the larger
// case depends on them no more.
INSTANTIATE_TEST_SUITE_P(Chunked, SourceCases,
                         testing::Combine(testing::Values(kFourSlots), testing::Values(16U, 64U),
                                          testing::ValuesIn(kLanes)));

bool has_states(const load::ModelSource& model) {
  return model::cache_shape(model.config, kernels::CacheType::kF32).state_floats() > 0;
}

bool has_windows(const load::ModelSource& model) {
  const auto shape = model::grouped_cache_shape(model.config, kernels::CacheType::kF32);
  return std::any_of(shape.windows().begin(), shape.windows().end(),
                     [](std::uint32_t window) { return window > 0; });
}

class Models : public testing::TestWithParam<ModelCase> {};

std::string name_of(const testing::TestParamInfo<ModelCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Laws, Models, testing::ValuesIn(model_cases()), name_of);

// Prompts of one family begin alike, some repeat themselves.
Request random_request(std::mt19937& random, std::uint32_t vocab) {
  Request request;
  request.prompt = random_prompt(1 + random() % 50, vocab, random);
  if (random() % 3 == 0) {
    for (std::size_t i = 5; i < request.prompt.size(); ++i)
      request.prompt[i] = request.prompt[i - 5];
  }
  if (random() % 2 == 0) {
    std::mt19937 family(static_cast<std::uint32_t>(random() % 2));
    std::vector<TokenId> shared = random_prompt(16 + random() % 20, vocab, family);
    request.prompt.insert(request.prompt.begin(), shared.begin(), shared.end());
  }
  request.max_tokens = 1 + static_cast<std::int32_t>(random() % 45);
  if (random() % 3 == 0) {
    request.sampling.temperature = 0.0F;
  } else {
    request.sampling.seed = random();
    request.sampling.temperature = 0.5F + 0.1F * static_cast<float>(random() % 10);
    request.sampling.top_k = static_cast<std::int32_t>(random() % 3 * 20);
    request.sampling.top_p = random() % 2 == 0 ? 1.0F : 0.9F;
    request.sampling.min_p = random() % 2 == 0 ? 0.0F : 0.05F;
    request.sampling.repetition_penalty = random() % 2 == 0 ? 1.0F : 1.2F;
    request.sampling.frequency_penalty = random() % 2 == 0 ? 0.0F : 0.5F;
    if (random() % 4 == 0) request.sampling.logit_bias = {{3, 8.0F}, {4, 7.5F}};
  }
  if (random() % 3 == 0)
    request.stop_ids = {static_cast<TokenId>(random() % vocab),
                        static_cast<TokenId>(random() % vocab)};
  if (random() % 4 == 0) request.min_tokens = std::min(request.max_tokens, 5);
  request.priority = static_cast<std::int32_t>(random() % 3);
  request.tenant = std::string(random() % 3, 'x');
  if (random() % 3 == 0) {
    request.prompt_logprobs = static_cast<std::int32_t>(random() % 3);
    request.no_output = random() % 3 == 0;
  }
  return request;
}

EngineOptions random_options(std::mt19937& random, int round) {
  const std::uint32_t chunks[] = {1, 3, 16, 64, 0};
  EngineOptions options =
      batch_options(1 + static_cast<std::uint32_t>(random() % 6), chunks[round % 5], 1);
  options.max_context = 128;
  if (round % 2 == 0) {
    options.max_num_seqs += 2;
    options.kv_blocks = 8 + static_cast<std::uint32_t>(random() % 3);
  }
  test::randomize_scheduling(options, random);
  return options;
}

// Random batches, admission times, cancellations and schedules of every kind, some so short of
// memory that sequences are preempted.
TEST_P(Models, AnswerTheSameInEverySchedule) {
  if (test::kThreadSanitized && kernels::info(GetParam().options.type).elements_per_block == 256)
    GTEST_SKIP() << "two minutes of arithmetic, and threads do what they do for other types";
  const auto model = test::random_model(GetParam().options);
  const bool thorough = std::getenv("DOVETAIL_LONG") != nullptr;
  std::mt19937 random(11);
  EngineStats total;
  std::uint64_t cancelled = 0;
  for (int round = 0; round < (thorough ? 300 : 24); ++round) {
    EngineOptions options = random_options(random, round);
    std::vector<Arrival> arrivals;
    std::vector<Stream> alone;
    for (std::size_t i = 0; i < 4 + random() % 7; ++i) {
      Arrival arrival{random_request(random, model->config.vocab_size),
                      static_cast<std::uint32_t>(random() % 20), std::nullopt};
      if (random() % 8 == 0)
        arrival.cancel_at = arrival.step + static_cast<std::uint32_t>(random() % 10);
      alone.push_back(serve_alone(model, options, arrival.request));
      arrivals.push_back(std::move(arrival));
    }
    for (const std::uint32_t lanes : lanes_of_history(random)) {
      options.threads = lanes;
      const Outcome outcome = serve(model, options, arrivals);
      total.preemptions += outcome.stats.preemptions;
      total.cached_tokens += outcome.stats.cached_tokens;
      total.drafted_tokens += outcome.stats.drafted_tokens;
      total.accepted_tokens += outcome.stats.accepted_tokens;
      EXPECT_EQ(outcome.stats.kv_blocks_used, 0U);
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        Stream expected = alone[i];
        const Stream& together = outcome.streams[i];
        ASSERT_TRUE(together.finish.has_value());
        if (together.finish == FinishReason::kCancelled) {
          ++cancelled;
          expected = cut(std::move(expected), together);
        }
        ASSERT_TRUE(same_bits(expected, together))
            << "round " << round << ", request " << i << " of " << arrivals.size() << ", chunk "
            << options.long_prefill_token_threshold << ", threads " << lanes << ", blocks "
            << options.kv_blocks << ", drafts " << options.speculative_tokens << ", async "
            << options.async_scheduling << ", prefix cache " << options.prefix_cache;
      }
    }
  }
  EXPECT_GT(total.preemptions, 0U) << "no history was short of memory";
  EXPECT_GT(total.cached_tokens, 0U);
  // A layer with random weights is hardly ever right, and drafts as long as it is worth the time.
  EXPECT_GT(model->config.draft_layer ? total.drafted_tokens : total.accepted_tokens, 0U);
  EXPECT_GT(cancelled, 0U);
}

// Steps of so many rows that they are several tiles.
TEST_P(Models, AnswerTheSameInLargeSteps) {
  if (test::kThreadSanitized && kernels::info(GetParam().options.type).elements_per_block == 256)
    GTEST_SKIP() << "much arithmetic, and threads do what they do for other types";
  const auto model = [] {
    test::RandomModelOptions options = GetParam().options;
    options.max_context = 640;
    return test::random_model(options);
  }();
  std::mt19937 random(13);
  const std::vector<TokenId> shared = random_prompt(150, model->config.vocab_size, random);
  std::uint64_t large = 0, cached = 0, preemptions = 0;
  for (const std::uint32_t lanes : {1U, 2U, 3U, 8U, 1U, 2U, 3U, 8U}) {
    EngineOptions options = batch_options(4, 0, lanes);
    options.max_num_batched_tokens = 900;
    options.target_inter_token_ms = engine::kNoTarget;
    options.speculative_tokens = lanes == 3 ? 2 : 0;
    options.async_scheduling = lanes == 8;
    options.state_interval = 3;
    if (lanes != 2) options.kv_blocks = 48;
    std::vector<Arrival> arrivals;
    for (std::uint32_t i = 0; i < 6; ++i) {
      Arrival arrival{random_request(random, model->config.vocab_size), 3 * (i / 4), std::nullopt};
      Request& request = arrival.request;
      const std::vector<TokenId> own =
          random_prompt(50 + random() % 350, model->config.vocab_size, random);
      request.prompt = i % 2 == 0 ? shared : std::vector<TokenId>();
      request.prompt.insert(request.prompt.end(), own.begin(), own.end());
      request.max_tokens = 20 + static_cast<std::int32_t>(random() % 60);
      request.ignore_eos = true;
      request.stop_ids.clear();
      arrivals.push_back(std::move(arrival));
    }
    engine::StepHooks hooks;
    hooks.open_backend = test::with_changed_segments([&large](const auto& segments) {
      std::size_t rows = 0;
      for (const model::Segment& segment : segments) rows += segment.tokens.size();
      if (rows >= 400) ++large;
    });
    const Outcome outcome = serve(model, options, arrivals, hooks);
    EXPECT_EQ(first_difference(model, options, arrivals, outcome), std::nullopt)
        << lanes << " lanes";
    cached += outcome.stats.cached_tokens;
    preemptions += outcome.stats.preemptions;
  }
  EXPECT_GE(large, 4U) << "steps of two tiles or more";
  EXPECT_GT(cached, 0U);
  // Layers with windows hold so little here that there is always room.
  if (!has_windows(*model)) {
    EXPECT_GT(preemptions, 0U);
  }
}

// A long system prompt is found by the requests that follow, also where layers have states or see
// windows, and changes no bit of their answers.
TEST(Prefixes, OfEveryKindOfLayerAreFound) {
  constexpr std::uint32_t kShared = 2000;
  for (const ModelCase& one : model_cases()) {
    if (one.name != "LlamaQ8_0" && one.name != "GemmaParts" && one.name != "GptOssParts" &&
        one.name != "Hybrid" && one.name != "HybridDrafts" && one.name != "KimiPartsQ8_0" &&
        one.name != "MambaPartsQ8_0" && one.name != "BesidePartsQ8_0" &&
        one.name != "PickedPartsF32" && one.name != "CompressedPartsF32")
      continue;
    test::RandomModelOptions parts = one.options;
    parts.max_context = 2304;
    const auto model = test::random_model(parts);
    std::mt19937 random(17);
    const std::vector<TokenId> shared = random_prompt(kShared, model->config.vocab_size, random);
    std::vector<Arrival> arrivals;
    for (std::uint32_t i = 0; i < 3; ++i) {
      Request request;
      request.prompt = shared;
      const std::vector<TokenId> own = random_prompt(20, model->config.vocab_size, random);
      request.prompt.insert(request.prompt.end(), own.begin(), own.end());
      request.max_tokens = 8;
      request.sampling.temperature = 0.0F;
      // Each arrives when the one before has ended.
      arrivals.push_back({request, 100 * i, std::nullopt});
    }
    EngineOptions options = batch_options(4, 256, 2);
    options.max_num_batched_tokens = 256;
    options.max_context = 2304;
    options.prefix_cache = true;
    options.speculative_tokens = model->config.draft_layer ? 3 : 0;
    const Outcome outcome = serve(model, options, arrivals);
    EXPECT_EQ(first_difference(model, options, arrivals, outcome), std::nullopt) << one.name;
    EXPECT_EQ(outcome.stats.drafted_tokens > 0, model->config.draft_layer.has_value()) << one.name;
    // With states: the second finds what an interval of 512 left, the third where the two parted.
    const std::uint64_t found = has_states(*model) ? 1536 + kShared : 2 * kShared;
    EXPECT_EQ(outcome.stats.cached_tokens, found) << one.name;
  }
}

// Each kind of arithmetic of this CPU obeys the law by itself.
TEST(Kernels, OfEveryInstructionSetAnswerTheSame) {
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16, DataType::kQ8_0}) {
      const auto model = test::random_model(of("llama", type));
      const std::vector<Arrival> arrivals = source_case(8, 48, model->config.vocab_size);
      for (const std::uint32_t lanes : kLanes) {
        EngineOptions options = batch_options(4, 3, lanes);
        options.kernels = kernels->name;
        EXPECT_EQ(first_difference(model, options, arrivals, serve(model, options, arrivals)),
                  std::nullopt)
            << kernels->name << " " << kernels::info(type).name << ", " << lanes << " lanes";
      }
    }
  }
}

// The law holds whatever type keys and values are stored in.
TEST(Caches, OfEveryTypeLeaveNoTraceOfTheBatch) {
  const auto model = test::random_model(of("llama", DataType::kF32));
  const std::vector<Arrival> arrivals = source_case(8, 48, model->config.vocab_size);
  for (const kernels::CacheTypeInfo& cache : kernels::kCacheTypes) {
    EngineOptions options = batch_options(4, 5, 2);
    options.cache_type = cache.name;
    EXPECT_EQ(first_difference(model, options, arrivals, serve(model, options, arrivals)),
              std::nullopt)
        << cache.name;
  }
}

// Holds the streams under each instruction set against the portable kernels'.
void expect_alike_on_all_sets(const test::RandomModelOptions& made, EngineOptions options,
                              std::uint32_t requests) {
  const auto model = test::random_model(made);
  std::vector<Arrival> arrivals = source_case(requests, 48, model->config.vocab_size);
  for (std::size_t i = 0; i < arrivals.size(); i += 2) {
    arrivals[i].request.sampling.temperature = 0.8F;
    arrivals[i].request.sampling.top_p = 0.95F;
    arrivals[i].request.sampling.seed = i;
  }
  options.kernels = "portable";
  const Outcome expected = serve(model, options, arrivals);
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    // Rounds activations, too: a class of its own.
    if (made.type == DataType::kBF16 && kernels->rounds_bf16) continue;
    options.kernels = kernels->name;
    const Outcome outcome = serve(model, options, arrivals);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      EXPECT_TRUE(same_bits(outcome.streams[i], expected.streams[i]))
          << kernels->name << ", request " << i;
    }
  }
}

// Not only by itself: models give the same tokens, logits and log-probabilities under each.
TEST_P(Models, AnswerAlikeOnAllInstructionSets) {
  expect_alike_on_all_sets(GetParam().options, batch_options(3, 5, 1), 4);
}

TEST(Caches, OfEveryTypeAnswerAlikeOnAllInstructionSets) {
  for (const kernels::CacheTypeInfo& cache : kernels::kCacheTypes) {
    SCOPED_TRACE(cache.name);
    EngineOptions options = batch_options(4, 3, 1);
    options.cache_type = cache.name;
    expect_alike_on_all_sets(of("llama"), options, 8);
  }
}

// Weights give the same bits from packed panels as from the file, where a panel is not full and
// where the output is the embedding as well; and packing tells when all is done.
TEST(Packing, LeavesEveryBitAsItIs) {
  test::RandomModelOptions tied = of("qwen2", DataType::kQ5_1);
  tied.vocab_size = 101;
  for (const test::RandomModelOptions& options :
       {tied, of("llama", DataType::kQ6_K), of("llama", DataType::kIQ4_XS),
        of("llama", DataType::kNVFP4), of("llama", DataType::kINT4_32),
        with_experts("qwen3_moe", DataType::kQ4_0, 7, 3)}) {
    const auto model = test::random_model(options);
    const std::vector<Arrival> arrivals = source_case(6, 24, model->config.vocab_size);
    EngineOptions engine = batch_options(4, 8, 2);
    engine.pack_weights = false;
    const Outcome expected = serve(model, engine, arrivals);
    engine.pack_weights = true;
    std::size_t done = 0;
    std::size_t all = 1;
    engine.on_pack = [&](std::size_t packed, std::size_t of_all) {
      done = packed;
      all = of_all;
    };
    const Outcome outcome = serve(model, engine, arrivals);
    EXPECT_EQ(done, all);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      EXPECT_TRUE(same_bits(outcome.streams[i], expected.streams[i]))
          << kernels::info(options.type).name << ", request " << i;
    }
  }
}

TEST(Caps, CountTheFirstTokenAndMayEndAtPrefill) {
  const auto model = test::random_model({});
  std::mt19937 random(3);
  Arrival arrival;
  arrival.request.prompt = random_prompt(20, model->config.vocab_size, random);
  arrival.request.max_tokens = 1;
  const Outcome outcome = serve(model, batch_options(2, 0, 1), {arrival, arrival, arrival});
  EXPECT_EQ(outcome.steps, 2U);  // two at once, then the third
  for (const Stream& stream : outcome.streams) {
    EXPECT_EQ(stream.tokens.size(), 1U);
    EXPECT_EQ(stream.finish, FinishReason::kLength);
  }
}

// The tests above must be able to fail: each of these breaks one thing that continuous batching has
// to get right, and must be seen.
class Mutations : public testing::Test {
 protected:
  Mutations()
      : model_(test::random_model({})),
        options_(batch_options(4, 16, 1)),
        arrivals_(source_case(8, 48, model_->config.vocab_size)) {}

  bool seen(engine::StepHooks hooks) const {
    return first_difference(model_, options_, arrivals_,
                            serve(model_, options_, arrivals_, std::move(hooks)))
        .has_value();
  }

  std::shared_ptr<const load::ModelSource> model_;
  EngineOptions options_;
  std::vector<Arrival> arrivals_;
};

TEST_F(Mutations, NoneIsNotSeen) { EXPECT_FALSE(seen({})); }

TEST_F(Mutations, StaleBlockTableIsSeen) {
  // Decode rows in a recycled slot go through the block table of the sequence before.
  engine::StepHooks hooks;
  struct Slot {
    int sequences = 0;
    std::vector<kv::BlockId> blocks;  // of the first one
  };
  std::map<std::uint32_t, Slot> slots;
  std::deque<std::vector<kv::BlockId>> tables;
  hooks.open_backend = test::with_changed_segments([&](std::vector<model::Segment>& segments) {
    for (model::Segment& segment : segments) {
      const auto table = segment.block_table;
      auto& [sequences, blocks] = slots[segment.slot];
      sequences += segment.first_position == 0 ? 1 : 0;
      if (sequences == 1) {
        blocks.assign(table.begin(), table.end());
      } else if (segment.decode) {
        auto& wrong = tables.emplace_back(table.begin(), table.end());
        std::copy_n(blocks.begin(), std::min(blocks.size(), table.size()), wrong.begin());
        segment.block_table = wrong;
      }
    }
  });
  EXPECT_TRUE(seen(std::move(hooks)));
}

TEST(WindowMutations, TableOfOtherRowsIsSeen) {
  // Decode rows beside chunks go through the windows' blocks of the pass's first rows.
  const std::vector<ModelCase> cases = model_cases();
  const auto one = std::find_if(cases.begin(), cases.end(),
                                [](const ModelCase& each) { return each.name == "GptOssParts"; });
  ASSERT_NE(one, cases.end());
  const auto model = test::random_model(one->options);
  const auto shape = model::grouped_cache_shape(model->config, kernels::CacheType::kF32);
  const auto windows = shape.windows();
  const EngineOptions options = batch_options(4, 16, 1);
  const std::vector<Arrival> arrivals = source_case(8, 48, model->config.vocab_size);
  std::deque<std::vector<kv::BlockId>> tables;
  for (const bool mutated : {false, true}) {
    engine::StepHooks hooks;
    hooks.open_backend = test::with_changed_segments([&](std::vector<model::Segment>& segments) {
      if (!mutated || segments.front().decode) return;
      std::size_t first = 0;
      for (model::Segment& segment : segments) {
        if (!segment.decode) continue;
        const auto other = segments[first++].block_table;
        auto& wrong = tables.emplace_back(segment.block_table.begin(), segment.block_table.end());
        for (std::size_t i = 0; i < std::min(wrong.size(), other.size()); ++i)
          if (windows[i % windows.size()] > 0) wrong[i] = other[i];
        segment.block_table = wrong;
      }
    });
    const auto difference =
        first_difference(model, options, arrivals, serve(model, options, arrivals, hooks));
    EXPECT_EQ(difference.has_value(), mutated);
  }
}

kernels::Kernels patched;  // a function pointer cannot carry what it patches

template <class Change>
engine::OpenBackend patch(Change change) {
  patched = kernels::best_kernels();
  change(patched);
  return test::with_kernels(patched);
}

TEST_F(Mutations, MaskThatIsOneTooLongIsSeen) {
  engine::StepHooks hooks;
  hooks.open_backend = patch([](kernels::Kernels& kernels) {
    kernels.attention = [](const kernels::AttentionArgs& args) {
      // Each row but the last of a tile also sees the position after its own.
      kernels::AttentionArgs wrong = args;
      if (wrong.rows > 1) ++wrong.first_position, --wrong.rows;
      kernels::best_kernels().attention(args);
      if (args.rows > 1) kernels::best_kernels().attention(wrong);
    };
  });
  EXPECT_TRUE(seen(std::move(hooks)));
}

TEST_F(Mutations, MaskThatIsOneTooShortIsSeen) {
  engine::StepHooks hooks;
  hooks.open_backend = patch([](kernels::Kernels& kernels) {
    kernels.attention = [](const kernels::AttentionArgs& args) {
      kernels::AttentionArgs wrong = args;
      wrong.window = args.first_position > 0 ? args.first_position : 1;
      kernels::best_kernels().attention(args.rows == 1 ? wrong : args);
    };
  });
  EXPECT_TRUE(seen(std::move(hooks)));
}

TEST_F(Mutations, SumThatDependsOnTheBatchIsSeen) {
  // Products of a single row are summed in another order than those of several.
  engine::StepHooks hooks;
  hooks.open_backend = patch([](kernels::Kernels& kernels) {
    kernels.matmul = [](const kernels::MatmulArgs& args) {
      if (args.m > 1) return kernels::best_kernels().matmul(args);
      const auto* x = reinterpret_cast<const float*>(args.activations);
      const auto* w = reinterpret_cast<const float*>(args.weights);
      for (std::size_t n = args.n_begin; n < args.n_end; ++n) {
        float sum = 0.0F;
        for (std::size_t k = 0; k < args.k; ++k) sum += x[k] * w[n * args.k + k];
        args.output[n] = sum;
      }
    };
  });
  EXPECT_TRUE(seen(std::move(hooks)));
}

}  // namespace
}  // namespace dovetail::laws
