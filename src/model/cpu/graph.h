#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "cores/executor.h"
#include "cores/recording.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "observe/event_log.h"

namespace dovetail::model {

// The steps of a program as graphs of tasks: the rows of a pass go through them in tiles, each a
// chain of tasks, which wait for each other only where a row attends to keys of another tile: one
// with rows of the same sequence. A graph is recorded when its shape first comes (how many tiles,
// and which of them share sequences), and run again when it comes again; a pass sets the numbers of
// blocks. One thread at a time.
class Graphs {
 public:
  // All three must outlive it; the executor has room for max_tasks() and a thread for each lane.
  Graphs(const Program& program, const Workspace& workspace, cores::Executor& executor)
      : program_(program), work_(workspace), executor_(executor) {}

  // Tasks of a program with so many steps.
  static std::uint32_t max_tasks(std::size_t steps) {
    return static_cast<std::uint32_t>(Pass::kMostTiles * steps);
  }

  // Runs the pass that is laid out in the workspace.
  void run();

  // Of the pass that ran last: its graph, valid until the next one, and what a lane did in it, by
  // what the executor says of it (Executor::take_spans()).
  const cores::Recording& last() const;
  observe::LaneSlice slice(const cores::Span& span) const;

  // Graphs that are kept; the one that was not run for the longest time makes room.
  static constexpr std::size_t kMost = 16;

 private:
  // What of a pass its graph depends on.
  struct Shape {
    std::uint32_t tiles = 0;
    std::array<std::uint8_t, Pass::kMostTiles> first_shared = {};  // by tile
    bool operator==(const Shape&) const = default;
  };

  // A recorded pass.
  struct Graph {
    struct Task {
      std::uint32_t step = 0, tile = 0;
    };
    Shape shape;
    std::vector<Task> tasks;  // by number
    cores::Recording recording;
    std::vector<std::uint32_t> blocks;  // blocks_ that the recording has
  };

  Shape shape() const;
  Graph& graph_of(const Shape& shape);
  Graph record(const Shape& shape);
  void share_out();
  void cut(Graph& graph) const;
  std::uint32_t blocks_of(const Step& step, std::uint32_t tile) const {
    return blocks_[tile * program_.cuts().size() + step.cut];
  }

  const Program& program_;
  const Workspace& work_;
  cores::Executor& executor_;
  std::list<Graph> graphs_;            // the one that ran last first
  std::vector<std::uint32_t> blocks_;  // of the pass under way, [tile][cut]
};

}  // namespace dovetail::model
