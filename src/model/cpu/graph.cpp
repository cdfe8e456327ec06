#include "model/cpu/graph.h"

#include <algorithm>
#include <cassert>
#include <initializer_list>
#include <span>
#include <utility>

#include "cores/trace.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

// What tasks of a pass share, a byte for each tile: the rows that the tile works on, and from
// kKeys on two for each layer: keys and values, or states.
constexpr cores::BufferId kRows = 0;
constexpr cores::BufferId kKeys = 1;

cores::TaskShape lanes_of(const Step& step) {
  return step.matrix ? cores::kMatrixTask : cores::kVectorTask;
}

}  // namespace

void Graphs::run() {
  share_out();
  Graph& graph = graph_of(shape());
  cut(graph);
  // Its tasks do not fail, and the executor has their lanes and room for them.
  [[maybe_unused]] const Status ran = executor_.run(graph.recording);
  assert(ran);
}

Graphs::Shape Graphs::shape() const {
  Shape shape;
  for (const RowTile& tile : work_.pass.tiles())
    shape.first_shared[shape.tiles++] = static_cast<std::uint8_t>(tile.first_shared);
  return shape;
}

// Steps are often of the shape of the one before, so that the first graph is it.
Graphs::Graph& Graphs::graph_of(const Shape& shape) {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& graph) {
    if (mutated(Mutant::kTilesAreTheShape)) return graph.shape.tiles == shape.tiles;
    return graph.shape == shape;
  });
  if (found != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, found);
  } else {
    if (graphs_.size() == kMost) graphs_.pop_back();
    graphs_.push_front(record(shape));
  }
  return graphs_.front();
}

const cores::Recording& Graphs::last() const {
  assert(!graphs_.empty());
  return graphs_.front().recording;
}

observe::LaneSlice Graphs::slice(const cores::Span& span) const {
  assert(!graphs_.empty());
  const Graph::Task& task = graphs_.front().tasks[span.task];
  const Step& step = program_.steps()[task.step];
  observe::LaneSlice slice = cores::lane_slice(span, executor_.topology(), step.name);
  slice.layer = step.layer;
  slice.tile = task.tile;
  return slice;
}

Graphs::Graph Graphs::record(const Shape& shape) {
  Graph graph;
  graph.shape = shape;
  const std::uint32_t most = max_tasks(program_.steps().size());
  cores::Recorder recorder(most, 4 * most);
  const auto add = [&](std::uint32_t index, std::uint32_t tile,
                       std::initializer_list<cores::Access> accesses) {
    const Step& step = program_.steps()[index];
    const auto function = [this, &step, tile](const cores::Part& part) {
      step.run(tile, blocks_of(step, tile), part);
    };
    [[maybe_unused]] const auto number =
        recorder.add({lanes_of(step)}, function, std::span(accesses.begin(), accesses.size()));
    assert(number && *number == graph.tasks.size());
    graph.tasks.push_back({index, tile});
  };
  using enum cores::AccessMode;
  // Layer by layer: of a layer all steps of the first tile, then those of the next.
  const std::vector<Step>& steps = program_.steps();
  for (std::uint32_t first = 0; first < steps.size();) {
    std::uint32_t end = first + 1;
    if (steps[first].once) {
      add(first, 0, {{cores::Region(kRows, 0, shape.tiles), kReadWrite}});
      first = end;
      continue;
    }
    while (end < steps.size() && steps[end].layer == steps[first].layer && !steps[end].once) ++end;
    const cores::BufferId keys = kKeys + 2 * static_cast<std::uint32_t>(steps[first].layer + 1);
    for (std::uint32_t t = 0; t < shape.tiles; ++t) {
      const cores::Access rows = {cores::Region(kRows, t, 1), kReadWrite};
      // A row sees nothing of the tiles behind its own, nor of those without its sequence.
      std::uint32_t seen = shape.first_shared[t];
      if (mutated(Mutant::kOneTileTooLate)) seen = std::min(seen + 1, t);
      for (std::uint32_t index = first; index < end; ++index) {
        switch (steps[index].keys) {
          case KeysAccess::kNone:
            add(index, t, {rows});
            break;
          case KeysAccess::kWrite:
            add(index, t, {rows, {cores::Region(keys, t, 1), kWrite}});
            break;
          case KeysAccess::kRead:
            add(index, t, {rows, {cores::Region(keys, seen, t + 1 - seen), kRead}});
            break;
          case KeysAccess::kChain:
          case KeysAccess::kSecondChain: {
            const bool second = steps[index].keys == KeysAccess::kSecondChain;
            const cores::BufferId states = second ? keys + 1 : keys;
            const cores::Access own = {cores::Region(states, t, 1), kWrite};
            if (seen == t || mutated(second ? Mutant::kNoSecondChain : Mutant::kNoChain))
              add(index, t, {rows, own});
            else
              add(index, t, {rows, own, {cores::Region(states, seen, t - seen), kRead}});
            break;
          }
        }
      }
    }
    first = end;
  }
  graph.recording = std::move(recorder).finish();
  return graph;
}

void Graphs::share_out() {
  blocks_.clear();
  for (std::uint32_t tile = 0; tile < work_.pass.tiles().size(); ++tile) {
    for (const Cut& cut : program_.cuts()) blocks_.push_back(cut(tile));
  }
}

// Says in how many blocks its tasks are cut, and which of them take whole groups.
void Graphs::cut(Graph& graph) const {
  // Passes of one token for each sequence are often like the one before. What takes whole groups
  // depends on more than the blocks.
  if (!work_.whole_tiles && graph.blocks == blocks_) return;
  graph.blocks = blocks_;
  for (std::size_t number = 0; number < graph.tasks.size(); ++number) {
    const Graph::Task& task = graph.tasks[number];
    const Step& step = program_.steps()[task.step];
    graph.recording.set_blocks(number, blocks_of(step, task.tile));
    if (step.shape) graph.recording.set_shape(number, step.shape(task.tile));
  }
}

}  // namespace dovetail::model
