#pragma once

#include <span>
#include <string>
#include <vector>

#include "cores/task_graph.h"
#include "cores/virtual_machine.h"

namespace dovetail::cores {

// A task of a program that is known as a whole.
struct ProgramTask {
  std::string name;
  TaskShape shape;  // without lanes: others wait for it, but it does nothing
  std::uint32_t blocks = 1;
  bool together = false;
  Ticks takes = 1;  // each part of a block
  std::vector<Access> accesses;
  std::vector<TaskNumber> after;  // earlier ones
};

inline bool has_lanes(const TaskShape& shape) { return shape.whole_group || shape.lanes() > 0; }

// By task: whom it waits for, in their order.
std::vector<std::vector<TaskNumber>> dependencies_of(std::span<const ProgramTask> program);

// Times that no order of the tasks beats.
struct ProgramBounds {
  Ticks critical_path = 0;  // the longest chain, with as many blocks at a time as there are places
  Ticks work = 0;           // what all lanes, those of a kind, or places of a shape have to do
  std::string scarce;       // of which there is too little for the work: "matrix lanes"

  Ticks most() const { return critical_path > work ? critical_path : work; }
};
// Requires that the machine has a place for every task.
ProgramBounds bounds_of(const Topology& topology, std::span<const ProgramTask> program);

// Ring use while a program was played: high-water marks, each time one has risen.
struct RingSample {
  Ticks time = 0;
  TaskGraph::HighWater high;
};

// Adds a sample if it says anything new.
void sample_rings(std::vector<RingSample>& rings, Ticks now, const TaskGraph::HighWater& high);

// What playing a program on a machine gave.
struct PlayedProgram {
  std::vector<Span> spans, parked;
  std::vector<KeptSpan> kept;
  std::vector<Wait> waits;
  std::vector<RingSample> rings;
  Ticks makespan = 0;
};

struct PlayOptions {
  DispatchOptions dispatch;
  GraphOptions graph;
  bool costs_known = true;  // the dispatcher is told how long blocks take
};

// Submits the tasks in their order as fast as the rings of the graph take them, and runs them on
// the virtual machine; submitting and dispatching take no time. kInvalid names the task that the
// machine or the rings have no place for.
Result<PlayedProgram> play_program(const Topology& topology, std::span<const ProgramTask> program,
                                   const PlayOptions& options);

struct RunOptions {
  DispatchOptions dispatch;
  GraphOptions graph;
  bool costs_known = true;
  unsigned threads = 0;  // 0: one for each lane; see ExecutorOptions::threads
};

// The same on threads in real time (Executor): each part of a block is busy until as many
// nanoseconds as it takes have passed.
// Throws std::system_error where the system does not start that many threads.
Result<PlayedProgram> run_program(const Topology& topology, std::span<const ProgramTask> program,
                                  const RunOptions& options);

}  // namespace dovetail::cores
