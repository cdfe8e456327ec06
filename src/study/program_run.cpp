#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "study/program.h"

namespace dovetail::study {
namespace {

using Clock = std::chrono::steady_clock;

cores::Ticks nanoseconds() {
  return static_cast<cores::Ticks>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

void be_busy(cores::Ticks duration) {
  for (const cores::Ticks end = nanoseconds() + duration; nanoseconds() < end;) {
  }
}

// Times from `begin` on, by end.
template <class AnySpan>
void count_from(cores::Ticks begin, std::vector<AnySpan>& spans) {
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
std::vector<Wait> waits_of(std::span<const ProgramTask> program, std::span<const cores::Span> spans,
                           std::span<const cores::Ticks> submitted) {
  const auto before = dependencies_of(program);
  std::vector<cores::Ticks> ends(program.size(), 0);
  std::map<std::pair<cores::TaskId, std::uint32_t>, cores::Ticks> starts;
  for (const cores::Span& span : spans) {
    ends[span.task] = std::max(ends[span.task], span.end);
    cores::Ticks& start = starts[{span.task, span.block}];
    start = std::max(start, span.start);
  }
  std::vector<Wait> waits;
  for (cores::TaskNumber number = 0; number < program.size(); ++number) {
    const ProgramTask& task = program[number];
    cores::Ticks ready = submitted[number];
    for (const cores::TaskNumber earlier : before[number]) ready = std::max(ready, ends[earlier]);
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

Result<PlayedProgram> run_program(const cores::Topology& topology,
                                  std::span<const ProgramTask> program, const RunOptions& options) {
  cores::ExecutorOptions how;
  how.graph = options.graph;
  how.dispatch = options.dispatch;
  how.threads = options.threads;
  how.trace = true;
  cores::Executor executor(topology, how);
  std::vector<cores::Ticks> submitted;
  submitted.reserve(program.size());
  PlayedProgram run;
  const cores::Ticks begin = nanoseconds();
  sample_rings(run.rings, 0, {});
  for (const ProgramTask& task : program) {
    const cores::TaskSpec spec = {task.shape, task.together, task.blocks,
                                  options.costs_known ? task.takes : 0};
    const auto work = [duration = task.takes](const cores::Part&) { be_busy(duration); };
    submitted.push_back(nanoseconds() - begin);
    if (const auto number = executor.submit(spec, work, task.accesses, task.after); !number) {
      static_cast<void>(executor.wait());
      return fail(number.error().kind, "'{}': {}", task.name, number.error().message);
    }
    // Only submitting takes places, so that no mark is missed.
    sample_rings(run.rings, nanoseconds() - begin, executor.high_water().graph);
  }
  if (const Status ended = executor.wait(); !ended) return fail(ended.error());
  cores::LaneSpans lanes = executor.take_spans();
  count_from(begin, lanes.running);
  count_from(begin, lanes.pending);
  count_from(begin, lanes.reserved);
  run.spans = std::move(lanes.running);
  run.pending = std::move(lanes.pending);
  run.reserved = std::move(lanes.reserved);
  if (!run.spans.empty()) run.makespan = run.spans.back().end;
  run.waits = waits_of(program, run.spans, submitted);
  return run;
}

}  // namespace dovetail::study
