// Compressed entries that lie in slices: what blocks have of them, and what sequences that are cut,
// share blocks or begin with saved states see of it.

#include "model/blocks/entry_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/random_model.h"
#include "support/sanitized.h"

namespace dovetail::model::slices {
namespace {

load::CompressedConfig config_of(std::uint32_t ratio, std::uint32_t dim) {
  load::CompressedConfig config;
  config.head_dim = dim;
  config.ratio = ratio;
  return config;
}

TEST(EntryLayout, BlocksHaveNoMoreOfAnEntryThanTheyNeed) {
  struct Case {
    std::uint32_t ratio, entries, rows, row_dim, slice;
  };
  for (const Case& one : {Case{2, 8, 2, 256, 0}, Case{4, 4, 4, 128, 0}, Case{16, 1, 16, 32, 0},
                          Case{32, 1, 16, 32, 8}, Case{48, 1, 16, 32, 6}, Case{128, 1, 16, 32, 2},
                          Case{256, 1, 16, 32, 1}, Case{1024, 1, 16, 32, 1}}) {
    const EntryLayout layout(config_of(one.ratio, 512));
    EXPECT_EQ(layout.entries, one.entries) << one.ratio;
    EXPECT_EQ(layout.rows, one.rows) << one.ratio;
    EXPECT_EQ(layout.row_dim, one.row_dim) << one.ratio;
    EXPECT_EQ(layout.slice, one.slice) << one.ratio;
  }
  // An indexer reads the keys of many entries.
  load::CompressedConfig picked = config_of(128, 512);
  picked.index_heads = 4, picked.index_dim = 32;
  EXPECT_EQ(EntryLayout(picked).slice, 0U);
}

// An entry's channels, by its number.
float value_of(std::uint32_t entry, std::uint32_t channel) {
  return static_cast<float>((entry + 1) * 1000) + static_cast<float>(channel * 7 % 64);
}

// What the cache's type makes of them.
std::vector<float> rounded(const kernels::Kernels& kernels, kernels::CacheType type,
                           const EntryLayout& layout, std::uint32_t entry, std::uint32_t dim) {
  std::vector<float> values(std::size_t{16} * layout.row_dim);
  for (std::uint32_t i = 0; i < dim; ++i) values[i] = value_of(entry, i);
  std::vector<std::byte> tile(layout.newest_bytes(type));
  for (std::size_t i = 0; i < 16; ++i)
    kernels.store_value(type, values.data() + i * layout.row_dim, layout.row_dim, i, tile.data());
  kernels.load_values(type, tile.data(), layout.row_dim, 0, kernels::kBlockSize, values.data());
  values.resize(dim);
  return values;
}

// A layer's entries without what makes them: a prompt in two passes, in all cache types.
class Alone {
 public:
  Alone(std::uint32_t ratio, std::uint32_t dim, kernels::CacheType type, std::uint32_t blocks)
      : config_(config_of(ratio, dim)),
        type_(type),
        work_(kernels::best_kernels(), 1, 16, 1, false),
        slices_(
            config_, 1, 0, [](std::uint32_t, float*) {}, work_),
        table_(blocks) {
    CacheShape shape(type);
    shape.add_latents(16, 0, false);
    const EntryLayout layout(config_);
    shape.add_slices(layout.slice, layout.row_dim);
    shape.add_state(config_.state_floats() + layout.newest_bytes(type) / sizeof(float));
    cache_ = std::make_unique<Cache>(*Cache::create(shape, blocks));
    std::iota(table_.rbegin(), table_.rend(), 0U);
    for (const std::uint32_t block : table_) cache_->poison(block);
    cache_->poison_state(0);
    work_.cache = cache_.get();
    work_.up.need(dim);
    slices_.add_steps(program_);
  }

  // Positions [first, end), then what each of them sees.
  void compute(std::uint32_t first, std::uint32_t end) {
    const std::vector<std::int32_t> tokens(end - first);
    const Segment segment{tokens, first, table_};
    work_.pass.lay_out(std::span(&segment, 1), 1);
    work_.reserve();
    const RowTile& tile = work_.tile(0);
    const std::uint32_t dim = config_.entry_dim();
    for (std::uint32_t position = first; position < end; ++position) {
      float* up = work_.up.row(tile, position - first, dim);
      const bool ends = (position + 1) % config_.ratio == 0;
      for (std::uint32_t i = 0; i < dim; ++i)
        up[i] = ends ? value_of(position / config_.ratio, i) : -1.0F;
    }
    program_.steps().front().run(0, 1, cores::Part{});
    for (std::uint32_t position = first; position < end; ++position)
      expect(segment, position, position - first);
  }

 private:
  void expect(const Segment& segment, std::uint32_t position, std::uint32_t row) const {
    const EntryLayout layout(config_);
    const std::uint32_t dim = config_.entry_dim();
    const std::uint32_t seen = (position + 1) / config_.ratio;
    std::vector<float> values(std::size_t{16} * layout.row_dim);
    // Most have been looked at before: all of them at the end of a block.
    const std::uint32_t last = position % 16 == 15 ? 0 : std::max(seen, 2U) - 2;
    for (std::uint32_t entry = last; entry < seen; ++entry) {
      const std::vector<float> wanted = rounded(work_.kernels, type_, layout, entry, dim);
      if (entry + 1 < seen) {
        slices_.load(segment, entry, values.data());
      } else {
        std::copy_n(slices_.newest(work_.tile(0), row, seen), dim, values.data());
      }
      ASSERT_EQ(std::memcmp(values.data(), wanted.data(), dim * sizeof(float)), 0)
          << kernels::info(type_).name << ", entry " << entry << " at " << position;
    }
  }

  load::CompressedConfig config_;
  kernels::CacheType type_;
  Workspace work_;
  EntrySlices slices_;
  Program program_;
  std::unique_ptr<Cache> cache_;
  std::vector<std::uint32_t> table_;
};

TEST(EntrySlices, GiveEachEntryAsItWasStored) {
  constexpr std::uint32_t kLength = 38 * 16;
  for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
    for (const std::uint32_t ratio : {32U, 48U, 128U, 288U}) {
      for (const std::uint32_t dim : {36U, 1536U}) {
        for (const std::uint32_t cut : {1U, 127U, 128U, 289U, 600U}) {
          Alone alone(ratio, dim, type.type, kLength / 16);
          alone.compute(0, cut);
          alone.compute(cut, kLength);
          ASSERT_FALSE(HasFailure()) << "ratio " << ratio << ", " << dim << ", cut at " << cut;
        }
      }
    }
  }
}

constexpr std::uint32_t kPositions = 640;
constexpr std::uint32_t kBlocks = 200;
constexpr std::uint32_t kSaved = 12;
constexpr std::uint32_t kVocab = 97;

// Layers with slices of several sizes; `dense`: prompts go through them in several tiles.
std::shared_ptr<const load::ModelSource> sliced_model(std::vector<std::uint32_t> ratios,
                                                      bool dense) {
  test::RandomModelOptions options;
  options.max_context = kPositions;
  options.layers = static_cast<std::uint32_t>(ratios.size());
  options.change = [ratios, dense](load::ModelConfig& config) {
    test::make_compressed(config, 37, ratios);
    config.draft_layer.reset();
    for (load::LayerConfig& layer : config.layers)
      if (dense) layer.mlp = load::MlpConfig{.size = 96};
  };
  return test::random_model(options);
}

std::vector<std::int32_t> random_tokens(std::mt19937& random, std::uint32_t count) {
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % kVocab);
  return tokens;
}

class Machine {
 public:
  Machine(std::shared_ptr<const load::ModelSource> source, const char* topology,
          kernels::CacheType type)
      : executor_(*cores::Topology::parse(topology), {}),
        model_(std::move(source), kernels::best_kernels(), executor_),
        cache_(*Cache::create(grouped_cache_shape(model_.config(), type), kBlocks, 2, kSaved)) {
    forget();
  }

  void forget() {
    for (std::uint32_t block = 0; block < cache_.blocks(); ++block) cache_.poison(block);
    for (const std::uint32_t slot : {0U, 1U}) cache_.poison_state(slot);
  }

  // A table for so many blocks of each group, from block `first` of the cache on.
  std::vector<std::uint32_t> table(std::uint32_t blocks, std::uint32_t first) const {
    std::vector<std::uint32_t> table(std::size_t{blocks} * cache_.shape().groups());
    std::iota(table.begin(), table.end(), first * cache_.shape().groups());
    return table;
  }
  std::uint32_t groups() const { return cache_.shape().groups(); }

  // The logits of all tokens.
  std::vector<float> compute(std::span<const Segment> segments) {
    std::size_t rows = 0;
    for (const Segment& segment : segments) rows += segment.logit_rows;
    std::vector<float> logits(rows * kVocab);
    model_.forward(segments, cache_, logits);
    return logits;
  }
  std::vector<float> compute(std::span<const std::int32_t> tokens, std::uint32_t first,
                             std::uint32_t end, std::span<const std::uint32_t> table) {
    const Segment segment{tokens.subspan(first, end - first), first, table, end - first};
    return compute(std::span(&segment, 1));
  }

  // What the blocks of a table hold.
  std::vector<std::byte> bytes(std::span<const std::uint32_t> table) const {
    std::vector<std::byte> bytes;
    const CacheShape& shape = cache_.shape();
    for (std::size_t place = 0; place < table.size(); ++place) {
      for (std::uint32_t layer = 0; layer < shape.layers().size(); ++layer) {
        if (shape.layers()[layer].group != place % shape.groups()) continue;
        const std::byte* tile = cache_.values(layer, 0, table[place]);
        bytes.insert(bytes.end(), tile, tile + shape.layers()[layer].tile_bytes);
      }
    }
    return bytes;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
};

// The same bits, and numbers.
bool same(std::span<const float> a, std::span<const float> b) {
  const bool numbers = std::all_of(a.begin(), a.end(), [](float x) { return std::isfinite(x); });
  return numbers && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(EntrySlices, PromptsMayBeCutInTwoAnywhere) {
  constexpr std::uint32_t kLength = 300;
  const auto model = sliced_model({48, 128}, true);
  std::mt19937 random(1);
  const std::vector<std::int32_t> tokens = random_tokens(random, kLength);
  for (const kernels::CacheType type :
       {kernels::CacheType::kF32, kernels::CacheType::kQ8_0, kernels::CacheType::kFP8}) {
    Machine alone(model, "1x(1L)", type), cut(model, "1x(2L)", type);
    const std::vector<std::uint32_t> table = cut.table(kLength / 16 + 1, 3);
    const std::vector<float> wanted = alone.compute(tokens, 0, kLength, table);
    const std::uint32_t step = type == kernels::CacheType::kF32 && !test::kSanitized ? 1 : 13;
    for (std::uint32_t at = 1; at < kLength; at += step) {
      cut.forget();
      std::vector<float> logits = cut.compute(tokens, 0, at, table);
      const std::vector<float> rest = cut.compute(tokens, at, kLength, table);
      logits.insert(logits.end(), rest.begin(), rest.end());
      ASSERT_TRUE(same(logits, wanted)) << kernels::info(type).name << ", cut at " << at;
    }
  }
}

// A later tile ends entries before an earlier one attends.
TEST(EntrySlices, TilesSeeTheEntriesOfTheirRows) {
  const auto model = sliced_model({32, 128, 288}, true);
  std::mt19937 random(2);
  for (const char* topology : {"1x(3L)", "2x(2L)"}) {
    Machine alone(model, "1x(1L)", kernels::CacheType::kF16);
    Machine together(model, topology, kernels::CacheType::kF16);
    for (int round = 0; round < test::rounds(5); ++round) {
      const std::vector<std::int32_t> tokens = random_tokens(random, kPositions);
      const std::vector<std::uint32_t> table = alone.table(kPositions / 16, 0);
      const auto first = static_cast<std::uint32_t>(random() % 60);
      alone.forget();
      together.forget();
      for (const auto& [begin, end] : {std::pair{0U, first}, {first, kPositions}}) {
        if (begin == end) continue;
        EXPECT_TRUE(same(together.compute(tokens, begin, end, table),
                         alone.compute(tokens, begin, end, table)))
            << topology << ", round " << round << ", from " << begin;
      }
    }
    EXPECT_EQ(together.bytes(together.table(kPositions / 16, 0)),
              alone.bytes(alone.table(kPositions / 16, 0)));
  }
}

// Sequences that begin with another one's blocks and saved state, within the positions of an entry
// and at their end, and go on in another way, or in the same one, as after a preemption.
TEST(EntrySlices, SequencesPartWhereTheyMay) {
  constexpr std::uint32_t kLength = 420, kShared = kLength / 16;
  const auto model = sliced_model({48, 128, 4}, true);
  std::mt19937 random(3);
  for (const auto& [topology, type] :
       {std::pair{"1x(1L)", kernels::CacheType::kQ8_0}, {"1x(3L)", kernels::CacheType::kF16}}) {
    Machine machine(model, topology, type), alone(model, "1x(1L)", type);
    const std::vector<std::int32_t> tokens = random_tokens(random, kPositions);
    const std::vector<std::uint32_t> table = machine.table(kPositions / 16, 0);
    constexpr std::array<std::uint32_t, 10> kEdges = {32,  48,  64,  112, 128,
                                                      144, 240, 256, 272, 400};
    std::vector<StateSave> saves;
    for (std::uint32_t i = 0; i < kEdges.size(); ++i) saves.push_back({kEdges[i], i});
    Segment whole{std::span(tokens).first(kLength), 0, table, 1, false, 0};
    whole.saves = saves;
    machine.compute(std::span(&whole, 1));
    const std::vector<std::uint32_t> shared(
        table.begin(), table.begin() + std::ptrdiff_t{kShared} * machine.groups());
    const std::vector<std::byte> before = machine.bytes(shared);

    std::uint32_t done = kLength;  // of the first sequence, which goes on beside the others
    for (const StateSave& save : saves) {
      std::vector<std::int32_t> other = tokens;
      if (save.saved % 3 != 0) {
        const std::vector<std::int32_t> own = random_tokens(random, kPositions - save.positions);
        std::copy(own.begin(), own.end(), other.begin() + save.positions);
      }
      std::vector<std::uint32_t> mine = machine.table(kPositions / 16, 100);
      const std::size_t places = std::size_t{save.positions} / 16 * machine.groups();
      std::copy_n(table.begin(), places, mine.begin());
      Segment rest{std::span(other).subspan(save.positions, kLength - save.positions),
                   save.positions,
                   mine,
                   kLength - save.positions,
                   false,
                   1};
      rest.load = save.saved;
      const Segment more{std::span(tokens).subspan(done, 20), done, table, 20, true, 0};
      const std::array<Segment, 2> segments = {rest, more};
      const std::vector<float> logits = machine.compute(segments);

      alone.forget();
      const std::vector<float> lone = alone.compute(other, 0, kLength, table);
      EXPECT_TRUE(same(std::span(logits).first(std::size_t{rest.logit_rows} * kVocab),
                       std::span(lone).subspan(std::size_t{save.positions} * kVocab)))
          << topology << ", from " << save.positions;
      alone.forget();
      const std::vector<float> first = alone.compute(tokens, 0, done + 20, table);
      EXPECT_TRUE(same(std::span(logits).last(std::size_t{20} * kVocab),
                       std::span(first).last(std::size_t{20} * kVocab)))
          << topology << ", beside that from " << save.positions;
      done += 20;
    }
    EXPECT_EQ(machine.bytes(shared), before) << topology;
  }
}

}  // namespace
}  // namespace dovetail::model::slices
