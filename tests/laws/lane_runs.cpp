#include "laws/lane_runs.h"

#include <map>
#include <sstream>

namespace dovetail::laws {
namespace {

const std::map<std::string, cores::TaskShape> kShapes = {
    {"C", cores::kMatrixTask}, {"V", cores::kVectorTask}, {"1C1V", {1, 1, false}},
    {"1C2V", {1, 2, false}},   {"2V", {0, 2, false}},     {"group", cores::kWholeGroup}};

}  // namespace

std::vector<LaneEvent> lane_events(const std::string& text) {
  std::vector<LaneEvent> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string kind, task, word;
    cores::Ticks at = 0;
    if (!(words >> at >> kind >> task)) continue;
    const std::size_t dot = task.find('.');
    LaneEvent event{LaneEvent::Kind::kReady, at, {}, 0, 0, 0};
    event.task.id = std::stoul(task);
    if (kind == "ready") {
      words >> word;
      event.task.shape = kShapes.at(word);
      if (words >> word) event.task.blocks = static_cast<std::uint32_t>(std::stoul(word));
      event.task.together = word.back() == '!';
      words >> event.task.cost;
      events.push_back(event);
      continue;
    }
    event.kind = kind == "start" ? LaneEvent::Kind::kStart : LaneEvent::Kind::kEnd;
    if (dot != std::string::npos) {
      event.block = static_cast<std::uint32_t>(std::stoul(task.substr(dot + 1)));
    }
    while (words >> word) {
      event.group = static_cast<cores::GroupId>(std::stoul(word));
      event.lane = static_cast<unsigned>(std::stoul(word.substr(word.find('.') + 1)));
      events.push_back(event);
    }
  }
  return events;
}

std::string judge_lanes(const char* topology, const LaneRules& rules, const std::string& events) {
  LaneLawChecker checker(*cores::Topology::parse(topology), rules);
  for (const LaneEvent& event : lane_events(events)) checker.see(event);
  checker.finish();
  return checker.violations().empty() ? "" : checker.violations().front();
}

LaneRules starvation_bound_of(std::uint32_t starvation_bound) {
  LaneRules rules;
  rules.starvation_bound = starvation_bound;
  return rules;
}

LaneRules under(cores::AdmissionPolicy policy) {
  cores::DispatchOptions options;
  options.policy = policy;
  return LaneRules::of(options);
}

}  // namespace dovetail::laws
