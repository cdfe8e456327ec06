#pragma once

#include <span>
#include <string>
#include <vector>

#include "cores/task_graph.h"
#include "study/virtual_machine.h"

namespace dovetail::study {

// A task of a program that is known as a whole.
struct ProgramTask {
  std::string name;
  cores::TaskShape shape;  // without lanes: others wait for it, but it does nothing
  std::uint32_t blocks = 1;
  bool together = false;
  cores::Ticks takes = 1;  // each part of a block
  std::vector<cores::Access> accesses;
  std::vector<cores::TaskNumber> after;  // earlier ones
};

inline bool has_lanes(const cores::TaskShape& shape) {
  return shape.whole_group || shape.lanes() > 0;
}

// By task: its predecessors, in their order.
std::vector<std::vector<cores::TaskNumber>> dependencies_of(std::span<const ProgramTask> program);

// Times that no order of the tasks beats.
struct ProgramBounds {
  cores::Ticks critical_path =
      0;                  // the longest chain, with as many blocks at a time as there are places
  cores::Ticks work = 0;  // what all lanes, those of a kind, or places of a shape have to do
  std::string scarce;     // of which there is too little for the work: "matrix lanes"

  cores::Ticks most() const { return critical_path > work ? critical_path : work; }
};
// Requires that the machine has a place for every task.
ProgramBounds bounds_of(const cores::Topology& topology, std::span<const ProgramTask> program);

// Ring use while a program was played: high-water marks, each time one has risen.
struct RingSample {
  cores::Ticks time = 0;
  cores::TaskGraph::HighWater high;
};

// Adds a sample if it says anything new.
void sample_rings(std::vector<RingSample>& rings, cores::Ticks now,
                  const cores::TaskGraph::HighWater& high);

// What playing a program on a machine gave.
struct PlayedProgram {
  std::vector<cores::Span> spans, pending;
  std::vector<cores::ReservedSpan> reserved;
  std::vector<Wait> waits;
  std::vector<RingSample> rings;
  cores::Ticks makespan = 0;
};

struct PlayOptions {
  cores::DispatchOptions dispatch;
  cores::GraphOptions graph;
  bool costs_known = true;  // the dispatcher is told how long blocks take
};

// Submits the tasks in their order as fast as the rings of the graph take them, and runs them on
// the virtual machine; submitting and dispatching take no time. kInvalid names the task that the
// machine or the rings have no place for.
Result<PlayedProgram> play_program(const cores::Topology& topology,
                                   std::span<const ProgramTask> program,
                                   const PlayOptions& options);

struct RunOptions {
  cores::DispatchOptions dispatch;
  cores::GraphOptions graph;
  bool costs_known = true;
  unsigned threads = 0;  // 0: one for each lane; see ExecutorOptions::threads
};

// The same on threads in real time (Executor): each part of a block is busy until as many
// nanoseconds as it takes have passed.
// Throws std::system_error where the system does not start that many threads.
Result<PlayedProgram> run_program(const cores::Topology& topology,
                                  std::span<const ProgramTask> program, const RunOptions& options);

}  // namespace dovetail::study
