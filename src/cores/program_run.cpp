#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/program.h"

namespace dovetail::cores {
namespace {

using Clock = std::chrono::steady_clock;

Ticks nanoseconds() {
  return static_cast<Ticks>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

void be_busy(Ticks duration) {
  for (const Ticks end = nanoseconds() + duration; nanoseconds() < end;) {
  }
}

// Times from `begin` on, by end.
template <class AnySpan>
void count_from(Ticks begin, std::vector<AnySpan>& spans) {
  for (AnySpan& span : spans) {
    span.start -= begin;
    span.end -= begin;
  }
  std::sort(spans.begin(), spans.end(), [](const AnySpan& a, const AnySpan& b) {
    return std::pair(a.end, a.start) < std::pair(b.end, b.start);
  });
}

// From a block's being ready, when the last of those that its task waits for has ended, or the task
// was submitted, to the start of its last part.
std::vector<Wait> waits_of(std::span<const ProgramTask> program, std::span<const Span> spans,
                           std::span<const Ticks> submitted) {
  const auto before = dependencies_of(program);
  std::vector<Ticks> ends(program.size(), 0);
  std::map<std::pair<TaskId, std::uint32_t>, Ticks> starts;
  for (const Span& span : spans) {
    ends[span.task] = std::max(ends[span.task], span.end);
    Ticks& start = starts[{span.task, span.block}];
    start = std::max(start, span.start);
  }
  std::vector<Wait> waits;
  for (TaskNumber number = 0; number < program.size(); ++number) {
    const ProgramTask& task = program[number];
    Ticks ready = submitted[number];
    for (const TaskNumber earlier : before[number]) ready = std::max(ready, ends[earlier]);
    if (!has_lanes(task.shape)) {
      ends[number] = ready;
      continue;
    }
    for (std::uint32_t block = 0; block < task.blocks; ++block)
      waits.push_back({number, block, task.shape, ready, starts.at({number, block})});
  }
  return waits;
}

}  // namespace

Result<PlayedProgram> run_program(const Topology& topology, std::span<const ProgramTask> program,
                                  const RunOptions& options) {
  ExecutorOptions how;
  how.graph = options.graph;
  how.dispatch = options.dispatch;
  how.threads = options.threads;
  how.trace = true;
  Executor executor(topology, how);
  std::vector<Ticks> submitted;
  submitted.reserve(program.size());
  PlayedProgram run;
  const Ticks begin = nanoseconds();
  sample_rings(run.rings, 0, {});
  for (const ProgramTask& task : program) {
    const TaskSpec spec = {task.shape, task.together, task.blocks,
                           options.costs_known ? task.takes : 0};
    const auto work = [duration = task.takes](const Part&) { be_busy(duration); };
    submitted.push_back(nanoseconds() - begin);
    if (const auto number = executor.submit(spec, work, task.accesses, task.after); !number) {
      static_cast<void>(executor.wait());
      return fail(number.error().kind, "'{}': {}", task.name, number.error().message);
    }
    // Only submitting takes places, so that no mark is missed.
    sample_rings(run.rings, nanoseconds() - begin, executor.high_water().graph);
  }
  if (const Status ended = executor.wait(); !ended) return fail(ended.error());
  LaneSpans lanes = executor.take_spans();
  count_from(begin, lanes.running);
  count_from(begin, lanes.parked);
  count_from(begin, lanes.kept);
  run.spans = std::move(lanes.running);
  run.parked = std::move(lanes.parked);
  run.kept = std::move(lanes.kept);
  if (!run.spans.empty()) run.makespan = run.spans.back().end;
  run.waits = waits_of(program, run.spans, submitted);
  return run;
}

}  // namespace dovetail::cores
