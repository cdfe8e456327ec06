// The logits of random models, to the bit, as they were when this was recorded: changes of how a
// pass is put together leave them as they are. DOVETAIL_RECORD=1 prints the table anew, for a
// change that means to compute something else.

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cores/executor.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

using kernels::DataType;

struct RecordedBits {
  const char* name;
  test::RandomModelOptions options;
  std::uint64_t hash;
};

test::RandomModelOptions recorded_options(std::string_view family, DataType type,
                                          std::uint32_t window = 0, bool tied = false,
                                          std::uint32_t experts = 0) {
  test::RandomModelOptions options = test::options_of(family);
  options.type = type;
  options.sliding_window = window;
  options.tied_embeddings = tied;
  options.experts = experts;
  options.experts_normalized = family == "mixtral";
  options.layers = 3;
  if (kernels::info(type).elements_per_block > 1) {
    options.hidden_size = 256;
    options.intermediate_size = 512;
    options.head_dim = 64;
  }
  return options;
}

const std::vector<RecordedBits>& recorded_bits() {
  static const std::vector<RecordedBits> table = {
      {"LlamaF32", recorded_options("llama", DataType::kF32), 0x34a1af7a28d15310ULL},
      {"LlamaF16", recorded_options("llama", DataType::kF16), 0xe8d9fcc53b6d0fb3ULL},
      {"LlamaQ8_0", recorded_options("llama", DataType::kQ8_0), 0xa0230d7da40b1e74ULL},
      {"LlamaQ4_K", recorded_options("llama", DataType::kQ4_K), 0x4b9fa6b777996e51ULL},
      {"MistralWindow", recorded_options("mistral", DataType::kF16, 21), 0x2f3d2771c2af58f0ULL},
      {"Qwen2Tied", recorded_options("qwen2", DataType::kQ8_0, 0, true), 0x32cc46a4f7476928ULL},
      {"Qwen3", recorded_options("qwen3", DataType::kF32), 0x626162e7d94f0a5dULL},
      {"Qwen3Q4_0", recorded_options("qwen3", DataType::kQ4_0), 0xcee0f459b9aaa420ULL},
      {"Mixtral", recorded_options("mixtral", DataType::kF16, 0, false, 4), 0xf33b249408038ddcULL},
      {"Qwen3Moe", recorded_options("qwen3_moe", DataType::kQ8_0, 0, false, 7),
       0xd18a9fc933f5e761ULL},
  };
  return table;
}

// A prompt in two chunks beside another sequence, and two tokens more.
std::uint64_t bits_of(const test::RandomModelOptions& options) {
  cores::Executor executor(cores::Topology::of_lanes(2), {});
  ModelRunner model(test::random_model(options), *kernels::find_kernels("portable"), executor);
  Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF16), 16);
  std::vector<std::uint32_t> first(8), second(8);
  std::iota(first.begin(), first.end(), 0U);
  std::iota(second.begin(), second.end(), 8U);
  std::vector<std::int32_t> tokens(70);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>((i * i * 7 + 3 * i + 1) % options.vocab_size);
  const std::span<const std::int32_t> all(tokens);
  std::vector<float> everything;
  const auto pass = [&](std::vector<Segment> segments) {
    std::size_t rows = 0;
    for (const Segment& segment : segments) rows += segment.logit_rows;
    std::vector<float> logits(rows * options.vocab_size);
    model.forward(segments, cache, logits);
    everything.insert(everything.end(), logits.begin(), logits.end());
  };
  pass({{all.first(40), 0, first, 1}, {all.subspan(11, 17), 0, second, 17}});
  pass({{all.subspan(40, 25), 40, first, 2}, {all.subspan(3, 1), 17, second, 1, true}});
  pass({{all.subspan(65, 1), 65, first, 1, true}, {all.subspan(5, 2), 18, second, 2, true}});
  return XXH3_64bits(everything.data(), everything.size() * sizeof(float));
}

TEST(Bits, AreThoseThatWereRecorded) {
  for (const RecordedBits& row : recorded_bits()) {
    const std::uint64_t hash = bits_of(row.options);
    if (std::getenv("DOVETAIL_RECORD") != nullptr)
      std::printf("%s 0x%016llxULL\n", row.name, static_cast<unsigned long long>(hash));
    EXPECT_EQ(hash, row.hash) << row.name;
  }
}

}  // namespace
}  // namespace dovetail::model
