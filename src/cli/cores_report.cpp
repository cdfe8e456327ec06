#include "cli/cores_report.h"

#include <fmt/core.h>

#include <bit>
#include <nlohmann/json.hpp>

namespace dovetail::cli {
namespace {

double us(cores::Ticks time) { return static_cast<double>(time) / 1000.0; }

}  // namespace

CoresReport report_on(const cores::Topology& topology, std::span<const study::ProgramTask> program,
                      const study::PlayedProgram& played) {
  CoresReport report;
  report.groups = topology.groups().size();
  report.lanes = topology.lanes();
  report.tasks = program.size();
  report.blocks = played.waits.size();
  report.makespan = played.makespan;
  report.bounds = study::bounds_of(topology, program);
  const auto makespan = static_cast<double>(played.makespan);
  if (played.makespan > 0) report.ratio = static_cast<double>(report.bounds.most()) / makespan;
  double matrix_lanes = 0.0, vector_lanes = 0.0;
  for (const cores::GroupSpec& group : topology.groups()) {
    matrix_lanes += std::popcount(group.matrix);
    vector_lanes += std::popcount(group.vector);
  }
  const auto add_shares = [&](const auto& spans, double& matrix, double& vector) {
    const double all_matrix = matrix_lanes * makespan, all_vector = vector_lanes * makespan;
    for (const auto& span : spans) {
      const cores::GroupSpec& group = topology.groups()[span.group];
      const auto lasts = static_cast<double>(span.end - span.start);
      if ((group.matrix >> span.lane & 1) != 0) matrix += lasts / all_matrix;
      if ((group.vector >> span.lane & 1) != 0) vector += lasts / all_vector;
    }
  };
  add_shares(played.spans, report.matrix_busy, report.vector_busy);
  add_shares(played.reserved, report.matrix_kept, report.vector_kept);
  report.parked = played.pending.size();
  for (const cores::Span& span : played.pending) {
    report.mean_parked +=
        static_cast<double>(span.end - span.start) / static_cast<double>(report.parked);
  }
  report.lost = study::overhead_of(topology, played.spans, played.waits);
  double waited = 0.0;
  for (const study::Wait& wait : played.waits) {
    const cores::Ticks lasts = wait.start - wait.ready;
    waited += static_cast<double>(lasts);
    if (lasts <= report.longest_wait) continue;
    report.longest_wait = lasts;
    report.longest_waiter = fmt::format("'{}' block {}", program[wait.task].name, wait.block);
  }
  if (!played.waits.empty()) report.mean_wait = waited / static_cast<double>(played.waits.size());
  if (!played.rings.empty()) report.high = played.rings.back().high;
  return report;
}

std::string cores_report_text(const CoresReport& report) {
  std::string text = fmt::format("machine   {} groups, {} lanes\n", report.groups, report.lanes);
  text += fmt::format("graph     {} tasks, {} blocks\n", report.tasks, report.blocks);
  text += fmt::format("makespan  {:.3f} us\n", us(report.makespan));
  text += fmt::format(
      "bound     {:.3f} us: critical path {:.3f} us, work {:.3f} us{}\n", us(report.bounds.most()),
      us(report.bounds.critical_path), us(report.bounds.work),
      report.bounds.scarce.empty() ? std::string() : fmt::format(" ({})", report.bounds.scarce));
  text += fmt::format("reached   {:.1f} % of what the bound allows\n", 100.0 * report.ratio);
  text += fmt::format("busy      matrix {:.1f} %, vector {:.1f} %\n", 100.0 * report.matrix_busy,
                      100.0 * report.vector_busy);
  text +=
      fmt::format("kept      matrix {:.1f} %, vector {:.1f} % (idle, for tasks of several lanes)\n",
                  100.0 * report.matrix_kept, 100.0 * report.vector_kept);
  text += fmt::format("parked    {} parts, mean {:.3f} us\n", report.parked,
                      report.mean_parked / 1000.0);
  text += fmt::format(
      "lost      matrix {:.1f} %, vector {:.1f} %, either {:.1f} %, all {:.1f} % of the time (a "
      "lane is idle, and a task that needs one is ready)\n",
      100.0 * report.lost.matrix, 100.0 * report.lost.vector, 100.0 * report.lost.any,
      100.0 * report.lost.all);
  text += fmt::format("waits     mean {:.3f} us, longest {:.3f} us{}\n", report.mean_wait / 1000.0,
                      us(report.longest_wait),
                      report.longest_wait > 0 ? " (" + report.longest_waiter + ")" : "");
  text += fmt::format("rings     at most {} tasks, {} accesses, {} edges\n", report.high.tasks,
                      report.high.accesses, report.high.edges);
  return text;
}

std::string cores_report_json(const CoresReport& report) {
  const auto seconds = [](double nanoseconds) { return nanoseconds / 1e9; };
  const auto ticks = [&](cores::Ticks time) { return seconds(static_cast<double>(time)); };
  nlohmann::ordered_json json = {
      {"groups", report.groups},
      {"lanes", report.lanes},
      {"tasks", report.tasks},
      {"blocks", report.blocks},
      {"makespan", ticks(report.makespan)},
      {"critical_path", ticks(report.bounds.critical_path)},
      {"work", ticks(report.bounds.work)},
      {"scarce", report.bounds.scarce},
      {"reached", report.ratio},
      {"busy", {{"matrix", report.matrix_busy}, {"vector", report.vector_busy}}},
      {"kept", {{"matrix", report.matrix_kept}, {"vector", report.vector_kept}}},
      {"parked", {{"parts", report.parked}, {"mean", seconds(report.mean_parked)}}},
      {"lost",
       {{"matrix", report.lost.matrix},
        {"vector", report.lost.vector},
        {"either", report.lost.any},
        {"all", report.lost.all}}},
      {"wait", {{"mean", seconds(report.mean_wait)}, {"max", ticks(report.longest_wait)}}},
      {"high_water",
       {{"tasks", report.high.tasks},
        {"accesses", report.high.accesses},
        {"edges", report.high.edges}}},
  };
  return json.dump() + '\n';
}

}  // namespace dovetail::cli
