#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/virtual_machine.h"

namespace dovetail::cores {

// A task of a test: when it becomes ready and how long each of its parts takes.
struct Job {
  TaskId id = 0;
  TaskShape shape;
  Ticks at = 0;
  Ticks takes = 1;
  std::uint32_t blocks = 1;
  bool together = false;
  Ticks cost = 0;  // as the dispatcher is told it; 0: it is not
};

inline constexpr TaskShape k1C1V = {1, 1, false};
inline constexpr TaskShape k1C2V = {1, 2, false};
inline constexpr TaskShape k2V = {0, 2, false};

struct Played {
  std::vector<Span> spans;
  std::vector<Move> moves;
  std::vector<study::Wait> waits;
  std::size_t left = 0;  // tasks that never found lanes
  Ticks end = 0;

  // The first start of a task's parts.
  Ticks start_of(TaskId id) const;
  const Span& only_part(TaskId id) const;
  // Tasks by the order in which they started.
  std::vector<TaskId> order() const;
};

// Plays jobs, whose ids are 0, 1, ..., on a machine; throws where one can never run.
Played play(const std::string& topology, const std::vector<Job>& jobs,
            const DispatchOptions& options = {});

// What the spans break of the laws, as laws::LaneLawChecker sees it: nothing, or what is seen
// first.
std::vector<std::string> violations(const std::string& topology, const std::vector<Job>& jobs,
                                    const Played& played, const DispatchOptions& options = {});

// Plays a mixed task or a gang that has to wait, with and without a younger task of a single
// lane, on a machine and behind tasks that are drawn by a seed. All costs are known and nothing is
// pending: then the younger one may not make the other start later.
std::vector<std::string> violations_of_backfill(std::uint64_t seed);

// As violations(), for spans of threads, as far as their clocks can tell
// (laws::LaneRules::on_threads(): `together`: every lane has a thread of its own).
std::vector<std::string> violations_of_threads(const Topology& machine,
                                               const std::vector<Job>& jobs,
                                               const std::vector<Span>& spans, bool together);

// A machine and jobs, drawn by a seed.
struct History {
  std::string topology;
  std::vector<Job> jobs;
  DispatchOptions options;
};
History random_history(std::uint64_t seed);

// How much there is to do on a machine that is given.
struct Load {
  const char* topology = "";
  std::uint64_t jobs = 60;   // at most
  std::uint64_t burst = 1;   // so many become ready at a time
  std::uint64_t blocks = 7;  // at most, of a job
};
History random_history(std::uint64_t seed, const Load& load);

}  // namespace dovetail::cores
