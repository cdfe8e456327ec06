// Who waits for whom in the graph of a pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "observe/event_log.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

constexpr std::uint32_t kTile = 192;  // rows
constexpr std::uint32_t kLayers = 3;
constexpr std::uint32_t kRows = 4 * kTile;
constexpr std::uint32_t kSequences = 4;  // at most, in a pass

test::RandomModelOptions options() {
  test::RandomModelOptions options;
  options.layers = kLayers;
  options.max_context = kRows;
  return options;
}

cores::ExecutorOptions traced() {
  cores::ExecutorOptions options;
  options.trace = true;
  return options;
}

std::vector<std::uint32_t> all_blocks() {
  std::vector<std::uint32_t> blocks(kRows / kernels::kBlockSize);
  std::iota(blocks.begin(), blocks.end(), 0U);
  return blocks;
}

// A model on two lanes, or others.
class TracedMachine {
 public:
  explicit TracedMachine(const test::RandomModelOptions& options, const char* lanes = "1x(2L)")
      : executor_(*cores::Topology::parse(lanes), traced()),
        model_(test::random_model(options), kernels::best_kernels(), executor_) {}

  // Of a pass in which a sequence begins at row 0 and at each of these; the last `decodes` of them
  // have decode rows.
  const cores::Recording& graph_of(std::vector<std::uint32_t> begins, std::uint32_t rows = kRows,
                                   std::size_t decodes = 0) {
    begins.insert(begins.begin(), 0);
    begins.push_back(rows);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const std::uint32_t count = begins[i + 1] - begins[i];
      segments.push_back({std::span(tokens_).first(count), 0,
                          std::span(blocks_).subspan(begins[i] / kernels::kBlockSize), 1,
                          i + 1 + decodes >= begins.size(), static_cast<std::uint32_t>(i)});
    }
    std::vector<float> logits(segments.size() * model_.config().vocab_size);
    model_.forward(segments, cache_, logits);
    return model_.last_graph();
  }

  // What the lanes did in the last pass.
  std::vector<observe::LaneSlice> slices() {
    std::vector<observe::LaneSlice> slices;
    for (const cores::Span& span : executor_.take_spans().running)
      slices.push_back(model_.slice(span));
    return slices;
  }
  std::set<std::uint32_t> tiles() {
    std::set<std::uint32_t> tiles;
    for (const observe::LaneSlice& slice : slices()) tiles.insert(slice.tile);
    return tiles;
  }

 private:
  const std::vector<std::int32_t> tokens_ = std::vector<std::int32_t>(kRows, 1);
  const std::vector<std::uint32_t> blocks_ = all_blocks();
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_ = *Cache::create(model_.cache_shape(kernels::CacheType::kF32),
                                kRows / kernels::kBlockSize, kSequences);
};

// Each tile is a chain, and the logits wait for them all; what there is beyond that are waits for
// keys, one in each layer for each earlier tile that a tile shares a sequence with.
TEST(Graph, TilesWaitForThoseOfTheirSequencesAlone) {
  TracedMachine machine(options());
  const auto waits = [&](const std::vector<std::uint32_t>& begins) {
    const cores::Recording& graph = machine.graph_of(begins);
    return graph.edges() - (graph.size() - 1);
  };
  EXPECT_EQ(waits({kTile, 2 * kTile, 3 * kTile}), 0);
  EXPECT_EQ(waits({}), kLayers * (1 + 2 + 3));
  EXPECT_EQ(waits({2 * kTile}), kLayers * (1 + 1));
  EXPECT_EQ(waits({kTile}), kLayers * (1 + 2));
  EXPECT_EQ(waits({kTile / 2, 3 * kTile}), kLayers * (1 + 2));
  EXPECT_EQ(waits({3 * kTile / 2, 5 * kTile / 2}), kLayers * (1 + 1 + 1));
}

// Of a layer whose entries lie in slices the steps that make these are a chain, too, beside that of
// what is summed for them.
TEST(Graph, EntriesInSlicesWaitForThoseOfEarlierTiles) {
  const auto waits = [](std::uint32_t ratio) {
    test::RandomModelOptions compressed = options();
    compressed.change = [ratio](load::ModelConfig& config) {
      test::make_compressed(config, 37, std::vector<std::uint32_t>(kLayers, ratio));
      config.draft_layer.reset();
      for (load::LayerConfig& layer : config.layers) layer.mlp = load::MlpConfig{.size = 96};
    };
    TracedMachine machine(compressed);
    const cores::Recording& graph = machine.graph_of({});
    EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1, 2, 3}));
    return graph.edges() - (graph.size() - 1);
  };
  // And in each tile the step that stores keys still waits for those sums, past the entries.
  EXPECT_EQ(waits(128) - waits(16), kLayers * ((1 + 2 + 3) + 4));
}

// Whatever a prompt's tiles wait for, decode rows beside it go on.
TEST(Graph, DecodeRowsWaitForNoPrompt) {
  TracedMachine machine(options());
  const cores::Recording& graph = machine.graph_of({2 * kTile}, 2 * kTile + kernels::kBlockSize, 1);
  EXPECT_EQ(graph.edges() - (graph.size() - 1), kLayers);  // of the prompt's second tile
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1, 2}));
}

test::RandomModelOptions with_experts() {
  test::RandomModelOptions sparse = options();
  sparse.experts = 8;
  sparse.experts_used = 3;
  sparse.intermediate_size = 256;
  return sparse;
}

// Of prompts there is one tile, and of decode rows another one where each expert gets rows enough:
// of 171 rows, 64 each.
TEST(Graph, DecodeRowsWaitForNoPromptBesideExperts) {
  TracedMachine machine(with_experts());
  const cores::Recording& graph = machine.graph_of({4 * kTile - 64}, 4 * kTile, 1);
  EXPECT_EQ(graph.edges(), graph.size() - 1);
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1}));
  machine.graph_of({160}, 171, 1);
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1}));
  machine.graph_of({160}, 170, 1);
  EXPECT_EQ(machine.tiles(), std::set<std::uint32_t>{0});
}

// On how many lanes tasks of experts of one tile began, in the last pass.
std::ptrdiff_t parts_of_experts(TracedMachine& machine, std::uint32_t tile) {
  const std::vector<observe::LaneSlice> slices = machine.slices();
  return std::count_if(slices.begin(), slices.end(), [&](const observe::LaneSlice& slice) {
    return slice.task == std::string_view("experts") && slice.tile == tile;
  });
}

TEST(Graph, ExpertsAreMixedTasks) {
  TracedMachine machine(with_experts());
  machine.graph_of({}, 1, 1);
  EXPECT_EQ(parts_of_experts(machine, 0), 2 * kLayers);
  machine.graph_of({kTile}, 2 * kTile, 1);
  EXPECT_EQ(parts_of_experts(machine, 0), 2 * kLayers);
  machine.graph_of({kTile}, 2 * kTile, 1);
  EXPECT_EQ(parts_of_experts(machine, 1), 2 * kLayers);
}

TEST(Graph, GroupsShareExpertsAmongThem) {
  TracedMachine machine(with_experts(), "2x(2L)");
  machine.graph_of({}, 1, 1);
  EXPECT_EQ(parts_of_experts(machine, 0), 2 * 3 * kLayers);  // of a row
  machine.graph_of({}, kTile);
  // Four for each group; the last layer has one row.
  EXPECT_EQ(parts_of_experts(machine, 0), 2 * (8 * (kLayers - 1) + 3));
}

TEST(Graph, ExpertsOfNextToNothingAreForOneLane) {
  test::RandomModelOptions small = with_experts();
  small.intermediate_size = 32;
  TracedMachine machine(small);
  machine.graph_of({}, 1, 1);
  EXPECT_EQ(parts_of_experts(machine, 0), kLayers);
}

TEST(Graph, OfTheLastPassIsWhatSlicesAreOf) {
  TracedMachine machine(options());
  machine.graph_of({kTile, 2 * kTile});
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1, 2, 3}));
  machine.graph_of({}, 2 * kTile);
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1}));
  machine.graph_of({kTile, 2 * kTile});
  EXPECT_EQ(machine.tiles(), (std::set<std::uint32_t>{0, 1, 2, 3}));
}

TEST(Graph, IsRunAgainForAPassOfTheSameShape) {
  TracedMachine machine(options());
  const cores::Recording* two = &machine.graph_of({2 * kTile});
  const cores::Recording* one = &machine.graph_of({});
  EXPECT_NE(one, two);
  EXPECT_EQ(&machine.graph_of({2 * kTile}), two);
  EXPECT_EQ(&machine.graph_of({kTile / 2, 2 * kTile}), two);  // other rows, the same shape
  EXPECT_EQ(&machine.graph_of({}), one);
  EXPECT_NE(&machine.graph_of({}, 3 * kTile), one);
}

}  // namespace
}  // namespace dovetail::model
