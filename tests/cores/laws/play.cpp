#include "cores/laws/play.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "laws/checker/lane_law_checker.h"

namespace dovetail::cores {

Ticks Played::start_of(TaskId id) const {
  Ticks start = ~Ticks{0};
  for (const Span& span : spans) {
    if (span.task == id) start = std::min(start, span.start);
  }
  return start;
}

const Span& Played::only_part(TaskId id) const {
  const auto is_its = [&](const Span& span) { return span.task == id; };
  if (std::count_if(spans.begin(), spans.end(), is_its) != 1) {
    throw std::logic_error(fmt::format("task {} has not one part", id));
  }
  return *std::find_if(spans.begin(), spans.end(), is_its);
}

std::vector<TaskId> Played::order() const {
  std::vector<std::pair<Ticks, TaskId>> starts;
  for (const Span& span : spans) starts.emplace_back(start_of(span.task), span.task);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<TaskId> order;
  for (const auto& [start, task] : starts) order.push_back(task);
  return order;
}

Played play(const std::string& topology, const std::vector<Job>& jobs,
            const DispatchOptions& options) {
  const auto machine = Topology::parse(topology);
  if (!machine) throw std::logic_error(machine.error().message);
  study::VirtualMachine player(
      *machine, options,
      [&](TaskId task, std::uint32_t, GroupId, unsigned) { return jobs.at(task).takes; });
  for (const Job& job : jobs) {
    const Status ok =
        player.submit({job.id, job.shape, job.blocks, job.together, job.cost}, job.at);
    if (!ok) throw std::logic_error(ok.error().message);
  }
  Played played;
  played.left = player.run();
  played.spans = player.spans();
  played.moves = player.moves();
  played.waits = player.waits();
  played.end = player.now();
  return played;
}

namespace {

std::vector<std::string> judge(const Topology& machine, const laws::LaneRules& rules,
                               const std::vector<Job>& jobs, const std::vector<Span>& spans) {
  std::vector<laws::LaneEvent> ready;
  for (const Job& job : jobs) {
    ready.push_back(
        laws::LaneEvent::ready({job.id, job.shape, job.blocks, job.together, job.cost}, job.at));
  }
  laws::LaneLawChecker checker(machine, rules);
  for (const laws::LaneEvent& event : laws::in_order(ready, spans)) checker.see(event);
  checker.finish();
  return checker.violations();
}

}  // namespace

std::vector<std::string> violations_of_threads(const Topology& machine,
                                               const std::vector<Job>& jobs,
                                               const std::vector<Span>& spans, bool together) {
  return judge(machine, laws::LaneRules::on_threads(together), jobs, spans);
}

std::vector<std::string> violations(const std::string& topology, const std::vector<Job>& jobs,
                                    const Played& played, const DispatchOptions& options) {
  return judge(*Topology::parse(topology), laws::LaneRules::of(options), jobs, played.spans);
}

std::vector<std::string> violations_of_backfill(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)", "1x(4L)",
                                              "2x(3L)",   "1x(2C4V)", "1x(2C2V)+2x(1C1V)"};
  const std::string topology = kMachines[below(std::size(kMachines))];
  DispatchOptions options;
  options.pending_slots =
      false;  // the younger one may not push what is pending to other lanes, either
  std::vector<Job> jobs;
  const auto add = [&](const TaskShape& shape, Ticks at, std::uint32_t blocks = 1) {
    const Ticks takes = 1 + below(40);
    jobs.push_back({jobs.size(), shape, at, takes, blocks, blocks > 1, takes});
  };
  const std::uint64_t before = 1 + below(8);
  for (std::uint64_t i = 0; i < before; ++i)
    add(below(3) == 0 ? kMatrixTask : kVectorTask, below(10));
  const Dispatcher dispatcher(*Topology::parse(topology), options);
  static constexpr TaskShape kWide[] = {k1C1V, k1C2V, k2V, kWholeGroup};
  const TaskId wide = jobs.size();
  const bool gang = below(3) == 0;
  add(gang ? kVectorTask : kWide[below(4)], 10, gang ? 2 + below(4) : 1);
  if (!dispatcher.check({wide, jobs[wide].shape, jobs[wide].blocks, gang, 0})) return {};
  const Ticks without = play(topology, jobs, options).start_of(wide);
  add(below(2) == 0 ? kMatrixTask : kVectorTask, 11 + below(20));
  const Ticks with = play(topology, jobs, options).start_of(wide);
  if (with <= without) return {};
  return {fmt::format("{}: with task {} at {} task {} starts at {} and not at {}", topology,
                      wide + 1, jobs.back().at, wide, with, without)};
}

namespace {

History draw(std::mt19937_64& random, const Load& load) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  History history;
  history.topology = load.topology;
  history.options.starvation_bound = static_cast<std::uint32_t>(1 + below(8));
  history.options.pending_slots = below(4) != 0;
  const Dispatcher dispatcher(*Topology::parse(history.topology), history.options);
  static constexpr TaskShape kShapes[] = {kMatrixTask, kVectorTask, kVectorTask, k1C1V,
                                          k1C2V,       k2V,         kWholeGroup};
  const bool costs_known = below(3) == 0;
  const bool gangs = below(2) == 0, many_gangs = gangs && below(2) == 0;
  const std::uint64_t mixed_share = 1 + below(6);
  const Ticks spread = 1 + below(100);
  const std::uint64_t count = 1 + below(load.jobs);
  Ticks at = 0;
  while (history.jobs.size() < count) {
    Job job;
    job.id = history.jobs.size();
    job.shape = below(mixed_share) == 0 ? kShapes[3 + below(4)] : kShapes[below(3)];
    if (job.id % load.burst == 0) at += below(spread);
    job.at = at;
    job.takes = 1 + below(40);
    if (costs_known) job.cost = job.takes;
    if (below(many_gangs ? 2 : 5) == 0) {
      job.blocks = static_cast<std::uint32_t>(2 + below(load.blocks - 1));
    }
    job.together = gangs && below(many_gangs ? 2 : 3) == 0;
    if (dispatcher.check({job.id, job.shape, job.blocks, job.together, job.cost})) {
      history.jobs.push_back(job);
    }
  }
  return history;
}

}  // namespace

History random_history(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)", "5x(1C2V)",
                                              "1x(4L)",   "2x(3L)",   "1x(2C2V)+2x(1C1V)"};
  Load load;
  load.topology = kMachines[random() % std::size(kMachines)];
  return draw(random, load);
}

History random_history(std::uint64_t seed, const Load& load) {
  std::mt19937_64 random(seed);
  return draw(random, load);
}

}  // namespace dovetail::cores
