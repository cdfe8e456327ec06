// A pass that many lanes work on, in tiles, against every segment alone on a single lane: the same
// bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/pass.h"
#include "support/random_model.h"
#include "support/sanitized.h"

namespace dovetail::model {
namespace {

constexpr std::uint32_t kContext = 640;
constexpr std::uint32_t kBlocks = 160;
constexpr std::uint32_t kSlots = 64;

struct Sequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> blocks;
  std::uint32_t generated = Segment::kNoneGenerated;
};

// A sequence's part of a pass.
struct Part {
  std::size_t sequence = 0;
  std::uint32_t first = 0, count = 0, logit_rows = 0;
  bool decode = false;
};

class Machine {
 public:
  Machine(std::shared_ptr<const load::ModelSource> source, kernels::CacheType type,
          const char* topology)
      : executor_(*cores::Topology::parse(topology), {}),
        model_(std::move(source), kernels::best_kernels(), executor_),
        cache_(*Cache::create(model_.cache_shape(type), kBlocks, kSlots)) {
    for (std::uint32_t block = 0; block < kBlocks; ++block) cache_.poison(block);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) cache_.poison_state(slot);
  }

  std::vector<float> compute(std::span<const Sequence> sequences, std::span<const Part> parts) {
    std::vector<Segment> segments;
    std::size_t rows = 0;
    for (const Part& part : parts) {
      const Sequence& sequence = sequences[part.sequence];
      segments.push_back({std::span(sequence.tokens).subspan(part.first, part.count), part.first,
                          sequence.blocks, part.logit_rows, part.decode,
                          static_cast<std::uint32_t>(part.sequence)});
      segments.back().generated = sequence.generated;
      rows += part.logit_rows;
    }
    std::vector<float> logits(rows * model_.config().vocab_size);
    model_.forward(segments, cache_, logits);
    return logits;
  }

  bool has_cache_of(const Machine& other) const {
    const CacheShape& shape = cache_.shape();
    for (std::uint32_t layer = 0; layer < shape.layers().size(); ++layer) {
      const CacheShape::Layer& of = shape.layers()[layer];
      for (std::uint32_t head = 0; head < of.kv_heads; ++head) {
        for (std::uint32_t block = 0; block < kBlocks; ++block) {
          if (std::memcmp(cache_.keys(layer, head, block), other.cache_.keys(layer, head, block),
                          of.tile_bytes) != 0 ||
              std::memcmp(cache_.values(layer, head, block),
                          other.cache_.values(layer, head, block), of.tile_bytes) != 0)
            return false;
        }
      }
    }
    return true;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
};

// Some long prompts and some short ones, each computed in one to four passes, some in decode rows.
struct History {
  std::vector<Sequence> sequences;
  std::vector<std::vector<Part>> passes;
};

History random_history(std::mt19937& random, std::uint32_t vocab) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  History history;
  std::uint32_t next_block = 0;
  history.passes.resize(1 + below(4));
  for (std::uint32_t i = 1 + below(40); i > 0; --i) {
    const std::uint32_t length = below(4) == 0 ? 1 + below(kContext - 1) : 1 + below(40);
    const auto blocks =
        static_cast<std::uint32_t>((length + kernels::kBlockSize - 1) / kernels::kBlockSize);
    if (next_block + blocks > kBlocks) continue;
    Sequence& sequence = history.sequences.emplace_back();
    sequence.generated = 1 + below(2 * length);
    for (std::uint32_t k = 0; k < length; ++k)
      sequence.tokens.push_back(static_cast<std::int32_t>(below(vocab)));
    for (std::uint32_t k = 0; k < blocks; ++k) sequence.blocks.push_back(next_block++);
    std::uint32_t done = 0;
    for (std::vector<Part>& pass : history.passes) {
      const bool last = &pass == &history.passes.back();
      const std::uint32_t count = last ? length - done : below(length - done + 1);
      if (count == 0) continue;
      pass.push_back({history.sequences.size() - 1, done, count, below(std::min(count, 6U) + 1),
                      below(3) == 0});
      done += count;
    }
  }
  for (std::vector<Part>& pass : history.passes) {
    std::stable_partition(pass.begin(), pass.end(), [](const Part& part) { return !part.decode; });
  }
  std::erase_if(history.passes, [](const std::vector<Part>& pass) { return pass.empty(); });
  return history;
}

// Whether a pass gives the logits that its parts give one by one on another machine, and numbers.
bool same_logits(Machine& together, Machine& alone, std::span<const Sequence> sequences,
                 std::span<const Part> pass) {
  const std::vector<float> logits = together.compute(sequences, pass);
  std::vector<float> wanted;
  for (const Part& part : pass) {
    const std::vector<float> some = alone.compute(sequences, std::span(&part, 1));
    wanted.insert(wanted.end(), some.begin(), some.end());
  }
  const bool numbers =
      std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); });
  return numbers && logits.size() == wanted.size() &&
         std::memcmp(logits.data(), wanted.data(), logits.size() * sizeof(float)) == 0;
}

// Histories out of `rounds` that a machine answers in other bits than one lane does.
int differences(const char* topology, test::RandomModelOptions options, int rounds,
                kernels::CacheType cache = kernels::CacheType::kF32) {
  options.layers = 3;
  options.max_context = kContext;
  const auto source = test::random_model(options);
  std::mt19937 random(7);
  int differ = 0;
  for (int round = 0; round < rounds; ++round) {
    const History history = random_history(random, options.vocab_size);
    Machine together(source, cache, topology), alone(source, cache, "1x(1L)");
    bool same = true;
    for (const std::vector<Part>& pass : history.passes)
      same = same_logits(together, alone, history.sequences, pass) && same;
    if (!same || !together.has_cache_of(alone)) ++differ;
  }
  return differ;
}

// Of the rows of a pass, by sequence: each has as many half tiles as it says.
using Cut = std::vector<std::uint32_t>;

constexpr std::uint32_t kHalfTile = 96;
constexpr std::uint32_t kPrefix = 2 * kernels::kBlockSize;  // that all sequences have in common

// Sequences that share the blocks of their prefix.
std::vector<Sequence> cut_sequences(const Cut& cut, const Sequence& prefix, std::mt19937& random,
                                    std::uint32_t vocab) {
  std::vector<Sequence> sequences;
  auto next_block = static_cast<std::uint32_t>(prefix.blocks.size());
  for (const std::uint32_t halves : cut) {
    Sequence& sequence = sequences.emplace_back(prefix);
    for (std::uint32_t i = 0; i < halves * kHalfTile; ++i)
      sequence.tokens.push_back(static_cast<std::int32_t>(random() % vocab));
    for (std::uint32_t i = 0; i < halves * kHalfTile / kernels::kBlockSize; ++i)
      sequence.blocks.push_back(next_block++);
  }
  return sequences;
}

// One for each graph that passes of two to four tiles may have; of as many tiles, those that wait
// for nobody first.
std::vector<Cut> cuts_with_graphs_of_their_own() {
  std::vector<Cut> cuts;
  std::set<std::vector<std::uint32_t>> seen;
  const std::vector<std::int32_t> tokens(8 * kHalfTile);
  const std::vector<std::uint32_t> blocks(8 * kHalfTile / kernels::kBlockSize);
  for (const std::uint32_t halves : {4U, 6U, 8U}) {
    for (std::uint32_t ends = 1U << (halves - 1); ends-- > 0;) {
      Cut cut = {1};
      for (std::uint32_t i = 0; i + 1 < halves; ++i) {
        if ((ends >> i & 1) != 0)
          cut.push_back(1);
        else
          ++cut.back();
      }
      std::vector<Segment> segments;
      for (const std::uint32_t of_one : cut)
        segments.push_back({std::span(tokens).first(of_one * kHalfTile), 0, blocks, 1});
      Pass pass;
      pass.lay_out(segments, 2);
      std::vector<std::uint32_t> first_shared;
      for (const RowTile& tile : pass.tiles()) first_shared.push_back(tile.first_shared);
      if (seen.insert(first_shared).second) cuts.push_back(cut);
    }
  }
  return cuts;
}

// Passes, each of which runs another graph than the one before, that a machine answers in other
// bits than one lane does: there and back again, so that graphs come again soon after they ran,
// and others after they had to make room.
int differences_between_graphs(const char* topology) {
  test::RandomModelOptions options;
  options.layers = 3;
  options.max_context = kPrefix + 8 * kHalfTile;
  const auto source = test::random_model(options);
  std::vector<Cut> cuts = cuts_with_graphs_of_their_own();
  EXPECT_GT(cuts.size(), Graphs::kMost);
  if (!test::kSanitized) {
    for (std::size_t i = cuts.size() - 1; i-- > 0;) cuts.push_back(cuts[i]);
  }

  constexpr auto kCache = kernels::CacheType::kF32;
  Machine together(source, kCache, topology), alone(source, kCache, "1x(1L)");
  const Sequence prefix = {std::vector<std::int32_t>(kPrefix, 7), {0, 1}};
  const Part of_prefix = {0, 0, kPrefix, 0};
  for (Machine* machine : {&together, &alone})
    machine->compute(std::span(&prefix, 1), std::span(&of_prefix, 1));

  std::mt19937 random(11);
  int differ = 0;
  for (const Cut& cut : cuts) {
    const std::vector<Sequence> sequences = cut_sequences(cut, prefix, random, options.vocab_size);
    std::vector<Part> pass;
    for (std::size_t i = 0; i < cut.size(); ++i)
      pass.push_back({i, kPrefix, cut[i] * kHalfTile, 6});
    if (!same_logits(together, alone, sequences, pass) || !together.has_cache_of(alone)) ++differ;
  }
  return differ;
}

class Tiles : public testing::TestWithParam<const char*> {};

TEST_P(Tiles, LeaveNoTrace) { EXPECT_EQ(differences(GetParam(), {}, test::rounds(10)), 0); }

TEST_P(Tiles, LeaveNoTraceWhicheverShareSequences) {
  EXPECT_EQ(differences_between_graphs(GetParam()), 0);
}

TEST_P(Tiles, LeaveNoTraceWithExperts) {
  test::RandomModelOptions options;
  options.experts = 8;
  options.experts_used = 3;
  options.intermediate_size = 256;
  EXPECT_EQ(differences(GetParam(), options, test::rounds(10)), 0);
}

// Rows that products and the cache hold in another form; biases; a window that ends within tiles.
TEST_P(Tiles, LeaveNoTraceInWhatRowsBecome) {
  test::RandomModelOptions options = test::options_of("qwen2");
  options.type = kernels::DataType::kQ8_0;
  options.sliding_window = 210;
  EXPECT_EQ(differences(GetParam(), options, test::rounds(5), kernels::CacheType::kF16), 0);
  EXPECT_EQ(differences(GetParam(), options, test::rounds(5), kernels::CacheType::kQ8_0), 0);
  options = test::options_of("qwen3");
  options.type = kernels::DataType::kBF16;
  options.sliding_window = 37;
  EXPECT_EQ(differences(GetParam(), options, test::rounds(5), kernels::CacheType::kBF16), 0);
}

// States go from tile to tile and from pass to pass, and a sequence begins without any.
TEST_P(Tiles, LeaveNoTraceInStates) {
  test::RandomModelOptions options;
  options.type = kernels::DataType::kF16;
  options.change = [](load::ModelConfig& config) {
    load::DeltaConfig delta;
    delta.key_heads = 2;
    delta.value_heads = 4;
    delta.key_dim = 16;
    delta.value_dim = 24;
    config.layers[0].mixer = config.layers[2].mixer = delta;
  };
  EXPECT_EQ(differences(GetParam(), options, test::rounds(10)), 0);
  options.change = [](load::ModelConfig& config) {
    load::MambaConfig mamba;
    mamba.heads = 6;
    mamba.head_dim = 24;
    mamba.groups = 2;
    mamba.state_dim = 16;
    mamba.norm = config.output_norm;
    config.layers[0].mixer = config.layers[2].mixer = mamba;
  };
  EXPECT_EQ(differences(GetParam(), options, test::rounds(10)), 0);
  options.change = [](load::ModelConfig& config) {
    load::KimiDeltaConfig delta;
    delta.heads = 5;
    delta.head_dim = 24;
    config.layers[0].mixer = config.layers[2].mixer = delta;
  };
  EXPECT_EQ(differences(GetParam(), options, test::rounds(10)), 0);
  options.change = [](load::ModelConfig& config) {
    const load::ShortConvConfig convolution = {config.hidden_size, 3};
    config.layers[0].mixer = config.layers[2].mixer = convolution;
  };
  EXPECT_EQ(differences(GetParam(), options, test::rounds(10)), 0);
}

// Latents, some of prompts and some of generated tokens.
TEST_P(Tiles, LeaveNoTraceInLatents) {
  for (const bool low_rank : {false, true}) {
    test::RandomModelOptions options;
    options.type = low_rank ? kernels::DataType::kBF16 : kernels::DataType::kQ8_0;
    options.change = [low_rank](load::ModelConfig& config) {
      for (load::LayerConfig& layer : config.layers) {
        load::LatentConfig latent;
        latent.heads = low_rank ? 5 : 4;  // rows of values fill blocks of Q8_0
        latent.latent_dim = 32;
        latent.rope_dim = 8;
        latent.key_dim = 32;
        latent.value_dim = 24;
        latent.query_rank = low_rank ? 48 : 0;
        latent.scale = 0.2F;
        latent.norm = {.kind = load::NormKind::kRms};
        latent.split = low_rank;
        layer.mixer = latent;
      }
    };
    const auto cache = low_rank ? kernels::CacheType::kF16 : kernels::CacheType::kF32;
    EXPECT_EQ(differences(GetParam(), options, test::rounds(5), cache), 0);
  }
}

// Positions that an indexer picks, for rows of prompts and for generated ones.
TEST_P(Tiles, LeaveNoTraceInPicks) {
  for (const std::uint32_t top : {20U, 150U}) {
    test::RandomModelOptions options;
    options.type = top == 20 ? kernels::DataType::kF32 : kernels::DataType::kBF16;
    options.change = [top](load::ModelConfig& config) {
      for (load::LayerConfig& layer : config.layers) {
        load::LatentConfig latent;
        latent.heads = 5;
        latent.latent_dim = 32;
        latent.rope_dim = 8;
        latent.key_dim = latent.value_dim = 24;
        latent.query_rank = 48;
        latent.scale = 0.2F;
        latent.norm = {.kind = load::NormKind::kRms};
        latent.index_heads = 3;
        latent.index_dim = 12;
        latent.index_top = top;
        latent.index_norm = {.kind = load::NormKind::kLayer, .bias = true};
        layer.mixer = latent;
      }
    };
    const auto cache = top == 20 ? kernels::CacheType::kQ8_0 : kernels::CacheType::kF32;
    EXPECT_EQ(differences(GetParam(), options, test::rounds(5), cache), 0);
  }
}

// Windows, compressed entries, the rows that they are made of, streams; with experts, whose passes
// have a tile or two, and without.
TEST_P(Tiles, LeaveNoTraceInEntries) {
  for (const bool bytes : {false, true}) {
    test::RandomModelOptions options;
    options.type = bytes ? kernels::DataType::kQ8_0 : kernels::DataType::kBF16;
    options.change = [bytes](load::ModelConfig& config) {
      constexpr std::uint32_t kRatios[] = {4, 32, 0}, kOthers[] = {48, 4, 32};
      test::make_compressed(config, 37, bytes ? kOthers : kRatios);
      config.draft_layer.reset();
      for (load::LayerConfig& layer : config.layers)
        if (bytes) layer.mlp = load::MlpConfig{.size = 96};
    };
    const auto cache = bytes ? kernels::CacheType::kQ8_0 : kernels::CacheType::kF32;
    EXPECT_EQ(differences(GetParam(), options, test::rounds(5), cache), 0);
  }
}

// Feed-forwards that take what attention takes.
TEST_P(Tiles, LeaveNoTraceInParallelSublayers) {
  test::RandomModelOptions options;
  options.type = kernels::DataType::kQ8_0;
  options.change = [](load::ModelConfig& config) {
    for (load::LayerConfig& layer : config.layers) {
      layer.parallel = true;
      layer.mlp_norms.before = {};
    }
  };
  EXPECT_EQ(differences(GetParam(), options, test::rounds(5)), 0);
}

// Few rows of contexts that are longer than a segment of attention, which lanes share.
TEST_P(Tiles, LeaveNoTraceInLongContexts) {
  constexpr std::uint32_t kPrompt = 1016, kLength = 1064, kRows = 3;
  for (const std::uint32_t window : {0U, 40U, 1030U}) {
    test::RandomModelOptions options;
    options.kv_heads = 1;
    options.max_context = kLength;
    options.sliding_window = window;
    const auto source = test::random_model(options);
    Machine together(source, kernels::CacheType::kF16, GetParam());
    Machine alone(source, kernels::CacheType::kF16, "1x(1L)");
    std::vector<Sequence> sequences(2);
    for (std::uint32_t i = 0; i < kLength; ++i) {
      for (Sequence& sequence : sequences)
        sequence.tokens.push_back(static_cast<std::int32_t>((i * 31 + i * i) % 97));
    }
    for (std::uint32_t i = 0; i < (kLength + 15) / 16; ++i) {
      for (std::uint32_t k = 0; k < 2; ++k) sequences[k].blocks.push_back(2 * i + k);
    }
    // The second sequence is ahead of the first.
    const Part prompts[] = {{0, 0, kPrompt, 1}, {1, 0, kPrompt + 10, 1}};
    EXPECT_TRUE(same_logits(together, alone, sequences, prompts));
    for (std::uint32_t at = kPrompt; at + kRows + 10 <= kLength; at += kRows) {
      const Part rows[] = {{0, at, kRows, kRows, true}, {1, at + 10, kRows, 1, true}};
      ASSERT_TRUE(same_logits(together, alone, sequences, rows))
          << "window " << window << ", position " << at;
    }
    EXPECT_TRUE(together.has_cache_of(alone));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, Tiles,
                         testing::Values("1x(1L)", "1x(2L)", "1x(3L)", "1x(8L)", "3x(1L)", "2x(2L)",
                                         "1x(3L)+1x(1L)"));

}  // namespace
}  // namespace dovetail::model
