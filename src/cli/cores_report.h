#pragma once

#include <span>
#include <string>

#include "study/overhead.h"
#include "study/program.h"

namespace dovetail::cli {

// What `dovetail cores` says of a graph that was played. Times are in nanoseconds, shares of 1.
struct CoresReport {
  std::size_t groups = 0, lanes = 0, tasks = 0, blocks = 0;
  cores::Ticks makespan = 0;
  study::ProgramBounds bounds;
  double ratio = 1.0;                       // of the larger bound to the makespan
  double matrix_busy = 0, vector_busy = 0;  // of the lanes that can do such work
  double matrix_kept = 0, vector_kept = 0;  // ... while they were idle
  std::size_t parked = 0;                   // parts
  double mean_parked = 0;                   // for how long
  study::Overhead lost;
  double mean_wait = 0;  // of a block, from being ready to its start
  cores::Ticks longest_wait = 0;
  std::string longest_waiter;  // "'expert 3 up' block 2"
  cores::TaskGraph::HighWater high;
};

CoresReport report_on(const cores::Topology& topology, std::span<const study::ProgramTask> program,
                      const study::PlayedProgram& played);

std::string cores_report_text(const CoresReport& report);
std::string cores_report_json(const CoresReport& report);

}  // namespace dovetail::cli
