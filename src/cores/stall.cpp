#include "cores/stall.h"

#include <fmt/core.h>

#include "cores/names.h"

namespace dovetail::cores {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string tasks(std::uint64_t count, std::string_view one, std::string_view many) {
  return count == 1 ? fmt::format("1 task {}", one) : fmt::format("{} tasks {}", count, many);
}

std::string runs_too_long(const StallFacts& facts) {
  std::string text = tasks(facts.running, "runs", "run");
  if (facts.longest_running) {
    const StallFacts::Running& task = *facts.longest_running;
    text += fmt::format(", longest task {}, block {}, on {}, for {:.1f} s", task.task, task.block,
                        task.lane, seconds(task.lasts));
  }
  return text + fmt::format(
                    "; look at what its function waits for, or raise {} if it may take as "
                    "long",
                    kStallOption);
}

std::string ready_but_idle(const StallFacts& facts) {
  std::string text = tasks(facts.ready, "is", "are") + " ready and none runs";
  if (facts.oldest_ready) {
    const StallFacts::Ready& task = *facts.oldest_ready;
    text += fmt::format(", oldest task {} ({})", task.task, shape_name(task.shape));
  }
  text += fmt::format(", {} of {} lanes are idle; look at ", facts.idle_lanes, facts.lanes);
  if (facts.caller_lanes > 0) {
    text += fmt::format("why the caller does not wait, whose lanes serve only while it does ({}), ",
                        facts.caller_lanes);
  }
  return text + "whether the threads of these lanes are awake, and which tasks lanes are kept for";
}

std::string waits_for_nothing(const StallFacts& facts) {
  std::string text =
      tasks(facts.waiting, "has", "have") + " not ended, of which none runs or is ready";
  if (!facts.oldest_waiting) return text + "; look at who should have told that it ended";
  const StallFacts::Waiting& task = *facts.oldest_waiting;
  text += fmt::format("; oldest task {}", task.task);
  if (task.left == 0) return text + "; look at the lane that took it and did not say that it ended";
  text += task.left == 1 ? std::string(", which another one holds up")
                         : fmt::format(", which {} others hold up", task.left);
  if (!task.waits_for) return text + "; look at who should have told it that they ended";
  return text + fmt::format("; look at task {}, whose end it was never told of", *task.waits_for);
}

std::string submitter_starves(const StallFacts& facts) {
  std::string text =
      "all tasks that were submitted have ended, and the submitter neither submits nor waits for "
      "them; look at what it does meanwhile";
  if (facts.scope) text += fmt::format(", in the scope that it began with task {}", *facts.scope);
  return text;
}

}  // namespace

Stall classify_stall(const StallFacts& facts) {
  const auto stall = [&](StallKind kind, const std::string& what) {
    return Stall{kind,
                 fmt::format("nothing has ended for {:.1f} s: {}", seconds(facts.since), what)};
  };
  if (facts.running > 0) return stall(StallKind::kRunsTooLong, runs_too_long(facts));
  if (facts.ready > 0) return stall(StallKind::kReadyButIdle, ready_but_idle(facts));
  if (facts.waiting > 0) return stall(StallKind::kWaitsForNothing, waits_for_nothing(facts));
  return stall(StallKind::kSubmitterStarves, submitter_starves(facts));
}

}  // namespace dovetail::cores
