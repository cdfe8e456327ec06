// States that are saved in the middle of a pass, against those of a sequence that ends there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/pass.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

constexpr std::uint32_t kTokens = 96;
constexpr std::uint32_t kCacheBlocks = 64;
constexpr std::uint32_t kStates = 8;
constexpr std::uint32_t kSaved = 24;

std::shared_ptr<load::ModelSource> hybrid() {
  test::RandomModelOptions options;
  options.layers = 4;
  options.change = [](load::ModelConfig& config) {
    load::DeltaConfig delta;
    delta.key_heads = 2;
    delta.value_heads = 4;
    delta.key_dim = 24;
    delta.value_dim = 16;
    config.layers[0].mixer = delta;
    load::MambaConfig mamba;
    mamba.heads = 4;
    mamba.head_dim = 24;
    mamba.groups = 2;
    mamba.state_dim = 16;
    mamba.norm = config.output_norm;
    config.layers[1].mixer = mamba;
    load::KimiDeltaConfig kimi_delta;
    kimi_delta.heads = 3;
    kimi_delta.head_dim = 20;
    config.layers[2].mixer = kimi_delta;
  };
  return test::random_model(options);
}

class Hybrid {
 public:
  explicit Hybrid(const char* topology)
      : executor_(*cores::Topology::parse(topology), {}),
        model_(hybrid(), kernels::best_kernels(), executor_),
        cache_(*Cache::create(model_.cache_shape(kernels::CacheType::kF32), kCacheBlocks, kStates,
                              kSaved)) {
    for (std::uint32_t slot = 0; slot < kStates; ++slot) cache_.poison_state(slot);
  }
  const Cache& cache() const { return cache_; }
  const load::ModelConfig& config() const { return model_.config(); }
  void compute(std::span<const Segment> segments) { model_.forward(segments, cache_, {}); }
  std::vector<float> logits(const Segment& segment) {
    std::vector<float> logits(segment.logit_rows * config().vocab_size);
    model_.forward({&segment, 1}, cache_, logits);
    return logits;
  }
  bool is_state(std::uint32_t slot, const Hybrid& other, std::uint32_t saved) const {
    return std::memcmp(cache_.state(0, slot), other.cache_.saved_state(0, saved),
                       cache_.shape().state_floats() * sizeof(float)) == 0;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
};

std::vector<std::int32_t> random_tokens(std::mt19937& random, std::uint32_t vocab) {
  std::vector<std::int32_t> tokens(kTokens);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % vocab);
  return tokens;
}

TEST(SavedStates, AreThoseOfSequencesThatEndThere) {
  std::mt19937 random(5);
  for (const char* topology : {"1x(1L)", "1x(3L)"}) {
    for (int round = 0; round < 12; ++round) {
      Hybrid together(topology), alone("1x(1L)");
      std::vector<std::vector<std::int32_t>> tokens;
      std::vector<std::vector<std::uint32_t>> blocks(4);
      for (std::uint32_t s = 0; s < 4; ++s) {
        tokens.push_back(random_tokens(random, together.config().vocab_size));
        for (std::uint32_t i = 0; i < kTokens / 16; ++i) blocks[s].push_back(6 * s + i);
      }
      std::vector<std::uint32_t> done(4);
      std::uint32_t next = 0;
      while (next < 12) {
        std::vector<Segment> segments;
        std::vector<std::vector<StateSave>> saves(4);
        for (std::uint32_t s = 0; s < 4; ++s) {
          const std::uint32_t count = std::min<std::uint32_t>(1 + random() % 40, kTokens - done[s]);
          if (count == 0) continue;
          for (std::uint32_t p = done[s] + 1; p <= done[s] + count && next < kSaved; ++p) {
            if (random() % 7 == 0) saves[s].push_back({p, next++});
          }
          segments.push_back({std::span(tokens[s]).subspan(done[s], count),
                              done[s],
                              blocks[s],
                              0,
                              false,
                              s,
                              {},
                              saves[s]});
          done[s] += count;
        }
        if (segments.empty()) break;
        together.compute(segments);
        for (std::uint32_t s = 0; s < 4; ++s) {
          for (const StateSave& save : saves[s]) {
            const Segment whole{std::span(tokens[s]).first(save.positions), 0, blocks[s]};
            alone.compute({&whole, 1});
            EXPECT_TRUE(alone.is_state(0, together, save.saved))
                << "sequence " << s << " at " << save.positions << " of " << topology;
          }
        }
      }
      EXPECT_GT(next, 0U);
    }
  }
}

// Another sequence that begins with a saved state, and with the blocks before it, goes on as if it
// had computed them.
TEST(SavedStates, CarryAnotherSequenceOn) {
  std::mt19937 random(6);
  Hybrid machine("1x(2L)");
  const std::vector<std::int32_t> tokens = random_tokens(random, machine.config().vocab_size);
  const std::vector<std::uint32_t> table = {0, 1, 2, 3, 4, 5};
  const std::vector<StateSave> saves = {{32, 3}};
  const Segment whole{tokens, 0, table, 1, false, 0, {}, saves};
  const std::vector<float> expected = machine.logits(whole);
  machine.cache().load_state(5, 3);
  const Segment rest{std::span(tokens).subspan(32), 32, table, 1, false, 5};
  EXPECT_EQ(machine.logits(rest), expected);
}

}  // namespace
}  // namespace dovetail::model
