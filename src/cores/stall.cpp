#include "cores/stall.h"

#include <fmt/format.h>

#include "cores/names.h"

namespace dovetail::cores {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string tasks(std::uint64_t count, std::string_view one, std::string_view many) {
  return count == 1 ? fmt::format("1 task {}", one) : fmt::format("{} tasks {}", count, many);
}

std::string task_name(TaskNumber task, const std::string& name) {
  return name.empty() ? fmt::format("task {}", task) : fmt::format("task {} '{}'", task, name);
}

std::string runs_too_long(const StallFacts& facts) {
  std::string text = tasks(facts.running, "runs", "run");
  if (facts.longest_running) {
    const StallFacts::Running& task = *facts.longest_running;
    text +=
        fmt::format(", longest {}, block {}, on {}, for {:.1f} s", task_name(task.task, task.name),
                    task.block, task.lane, seconds(task.lasts));
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
    text +=
        fmt::format(", oldest {} ({})", task_name(task.task, task.name), shape_name(task.shape));
  }
  return text + fmt::format(
                    ", {} of {} lanes are idle; look at whether the threads of these lanes "
                    "are awake, and for whom lanes are kept",
                    facts.idle_lanes, facts.lanes);
}

std::string waits_for_nobody(const StallFacts& facts) {
  std::string text = tasks(facts.waiting, "waits", "wait") + ", and nothing that runs is to end";
  if (!facts.oldest_waiting) return text + "; look at who should have told that it ended";
  const StallFacts::Waiting& task = *facts.oldest_waiting;
  text += fmt::format("; oldest {}, which {} others hold up", task_name(task.task, task.name),
                      task.left);
  if (!task.waits_for) return text + "; look at who should have told it that they ended";
  return text + fmt::format("; look at task {}, whose end it was never told of", *task.waits_for);
}

std::string submitter_starves(const StallFacts& facts) {
  if (facts.refusal.empty()) {
    return "all tasks that were submitted have ended, and the submitter neither submits nor ends; "
           "look at what it waits for";
  }
  return fmt::format(
      "all tasks that were submitted have ended, and the submitter waits for a place "
      "that none of them gives up: {}; look at scopes that are still open",
      facts.refusal);
}

}  // namespace

Stall classify_stall(const StallFacts& facts) {
  const auto stall = [&](StallKind kind, const std::string& what) {
    return Stall{kind,
                 fmt::format("nothing has ended for {:.1f} s: {}", seconds(facts.since), what)};
  };
  if (facts.running > 0) return stall(StallKind::kRunsTooLong, runs_too_long(facts));
  if (facts.ready > 0) return stall(StallKind::kReadyButIdle, ready_but_idle(facts));
  if (facts.waiting > 0) return stall(StallKind::kWaitsForNobody, waits_for_nobody(facts));
  if (!facts.submitted_all) return stall(StallKind::kSubmitterStarves, submitter_starves(facts));
  return stall(StallKind::kUnknown,
               "no task is left and none is to come; look at who waits for the end of the run");
}

}  // namespace dovetail::cores
