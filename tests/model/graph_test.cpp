// Who waits for whom in the graph of a pass.

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "kernels/kernels.h"
#include "model/cache.h"
#include "model/decoder.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

constexpr std::uint32_t kTile = 192;  // rows
constexpr std::uint32_t kLayers = 3;
constexpr std::uint32_t kRows = 4 * kTile;

class Graph : public testing::Test {
 protected:
  // Of a pass in which a sequence begins at row 0 and at each of these.
  const cores::Recording& graph_of(std::vector<std::uint32_t> begins, std::uint32_t rows = kRows) {
    begins.insert(begins.begin(), 0);
    begins.push_back(rows);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const std::uint32_t count = begins[i + 1] - begins[i];
      segments.push_back({std::span(tokens_).first(count), 0,
                          std::span(blocks_).subspan(begins[i] / kernels::kBlockSize), 1});
    }
    std::vector<float> logits(segments.size() * model_.config().vocab_size);
    model_.forward(segments, cache_, logits);
    return model_.last_graph();
  }

  static test::RandomModelOptions options() {
    test::RandomModelOptions options;
    options.layers = kLayers;
    options.max_context = kRows;
    return options;
  }
  static cores::ExecutorOptions traced() {
    cores::ExecutorOptions options;
    options.trace = true;
    return options;
  }
  static std::vector<std::uint32_t> all_blocks() {
    std::vector<std::uint32_t> blocks(kRows / kernels::kBlockSize);
    std::iota(blocks.begin(), blocks.end(), 0U);
    return blocks;
  }

  const std::vector<std::int32_t> tokens_ = std::vector<std::int32_t>(kRows, 1);
  const std::vector<std::uint32_t> blocks_ = all_blocks();
  cores::Executor executor_{*cores::Topology::parse("1x(2L)"), traced()};
  Decoder model_{test::random_model(options()), kernels::best_kernels(), executor_};
  Cache cache_ =
      *Cache::create(model_.cache_shape(kernels::CacheType::kF32), kRows / kernels::kBlockSize);
};

// Each tile is a chain, and the logits wait for them all; what there is beyond that are waits for
// keys, one in each layer for each earlier tile that a tile shares a sequence with.
TEST_F(Graph, TilesWaitForThoseOfTheirSequencesAlone) {
  const auto waits = [&](const std::vector<std::uint32_t>& begins) {
    const cores::Recording& graph = graph_of(begins);
    return graph.edges() - (graph.size() - 1);
  };
  EXPECT_EQ(waits({kTile, 2 * kTile, 3 * kTile}), 0);
  EXPECT_EQ(waits({}), kLayers * (1 + 2 + 3));
  EXPECT_EQ(waits({2 * kTile}), kLayers * (1 + 1));
  EXPECT_EQ(waits({kTile}), kLayers * (1 + 2));
  EXPECT_EQ(waits({kTile / 2, 3 * kTile}), kLayers * (1 + 2));
  EXPECT_EQ(waits({3 * kTile / 2, 5 * kTile / 2}), kLayers * (1 + 1 + 1));
}

TEST_F(Graph, OfTheLastPassIsWhatSlicesAreOf) {
  const auto tiles = [&] {
    std::set<std::uint32_t> tiles;
    for (const cores::Span& span : executor_.take_spans().running)
      tiles.insert(model_.slice(span).tile);
    return tiles;
  };
  graph_of({kTile, 2 * kTile});
  EXPECT_EQ(tiles(), (std::set<std::uint32_t>{0, 1, 2, 3}));
  graph_of({}, 2 * kTile);
  EXPECT_EQ(tiles(), (std::set<std::uint32_t>{0, 1}));
  graph_of({kTile, 2 * kTile});
  EXPECT_EQ(tiles(), (std::set<std::uint32_t>{0, 1, 2, 3}));
}

TEST_F(Graph, IsRunAgainForAPassOfTheSameShape) {
  const cores::Recording* two = &graph_of({2 * kTile});
  const cores::Recording* one = &graph_of({});
  EXPECT_NE(one, two);
  EXPECT_EQ(&graph_of({2 * kTile}), two);
  EXPECT_EQ(&graph_of({kTile / 2, 2 * kTile}), two);  // other rows, the same shape
  EXPECT_EQ(&graph_of({}), one);
  EXPECT_NE(&graph_of({}, 3 * kTile), one);
}

}  // namespace
}  // namespace dovetail::model
