// Tries every order of events: each machine of a few lanes, each sequence of up to four tasks, each
// interleaving of arrivals, ends of parts and planning. dovetail_dispatch_explore_N N ends with 0
// where mutant N of the dispatcher breaks a rule somewhere, or, for 0, none does.

#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cores/dispatcher.h"

namespace dovetail::cores {
namespace {

using Lane = std::pair<GroupId, unsigned>;
using Part = Dispatcher::Part;

// Everything that an executor knows at one moment.
struct State {
  Dispatcher dispatcher;
  std::size_t arrived = 0;
  std::set<TaskId> waiting;
  std::map<Lane, TaskId> running, parked;
  bool planned = true;  // since the last event

  // States with the same key go on in the same way.
  std::string key() const {
    std::string text = fmt::format("{}{}", arrived, planned ? "p" : "");
    for (const TaskId task : waiting) text += fmt::format(" {}", task);
    for (const auto& [lane, task] : running) {
      text += fmt::format(" {}.{}:{}", lane.first, lane.second, task);
    }
    for (const auto& [lane, task] : parked) {
      text += fmt::format(" {}.{}+{}", lane.first, lane.second, task);
    }
    for (GroupId group = 0; group < dispatcher.tracker().groups(); ++group) {
      text += fmt::format(" {:x}", dispatcher.tracker().kept(group));
    }
    return text;
  }
};

class Explorer {
 public:
  Explorer(const Topology& topology, std::vector<TaskShape> shapes)
      : topology_(topology), shapes_(std::move(shapes)) {}

  // What goes wrong in some order of events; nothing: nothing does.
  std::optional<std::string> run() {
    visit(State{Dispatcher(topology_, {}), 0, {}, {}, {}, true});
    return wrong_;
  }
  std::size_t states() const { return seen_.size(); }

 private:
  void visit(State state) {
    if (wrong_ || !seen_.insert(state.key()).second) return;
    if (!state.planned) {
      State next = state;
      plan(next);
      visit(std::move(next));
    }
    if (state.arrived < shapes_.size()) {
      State next = state;
      next.dispatcher.add({next.arrived, shapes_[next.arrived], 1, false, 0});
      next.waiting.insert(next.arrived);
      ++next.arrived;
      next.planned = false;
      visit(std::move(next));
    }
    for (const auto& [lane, task] : state.running) {
      State next = state;
      end(next, lane);
      next.planned = false;
      visit(std::move(next));
    }
    if (state.dispatcher.waiting() != state.waiting.size()) say("a task is lost, or there twice");
    if (state.running.empty() && state.planned && !state.waiting.empty()) {
      say("nothing runs, and a task waits");
    }
  }

  void plan(State& state) {
    Dispatcher::Plan plan;
    state.dispatcher.plan(0, plan);
    state.planned = true;
    for (const Move& move : plan.moves) {
      const Lane from{move.from_group, move.from_lane}, to{move.to_group, move.to_lane};
      if (state.parked.erase(from) == 0) say("what moves was not parked there");
      start(state, to, move.task);
    }
    for (const Placement& placed : plan.placements) place(state, placed);
  }

  void place(State& state, const Placement& placed) {
    if (state.waiting.erase(placed.task) == 0) say("a task is given lanes that does not wait");
    const TaskShape& shape = shapes_[placed.task];
    const LaneMask lanes = placed.running | placed.parked;
    if (choose_lanes(topology_.groups()[placed.group], shape, lanes) != lanes) {
      say("lanes that do not fit the shape");
    }
    if (shape.is_mixed() && placed.parked != 0) {
      say("a mixed task shares its lanes with foreign work");
    }
    for (LaneMask left = placed.running; left != 0; left &= left - 1) {
      start(state, {placed.group, static_cast<unsigned>(std::countr_zero(left))}, placed.task);
    }
    for (LaneMask left = placed.parked; left != 0; left &= left - 1) {
      const Lane lane{placed.group, static_cast<unsigned>(std::countr_zero(left))};
      if (!state.running.contains(lane)) say("something is parked behind an idle lane");
      if (!state.parked.emplace(lane, placed.task).second) say("a pending slot is taken twice");
    }
  }

  void start(State& state, const Lane& lane, TaskId task) {
    if (!state.running.emplace(lane, task).second) say("a lane runs two tasks");
  }

  void end(State& state, const Lane& lane) {
    state.running.erase(lane);
    const auto next = state.dispatcher.finish(lane.first, lane.second, 0);
    const auto parked = state.parked.find(lane);
    if (!next) {
      if (parked != state.parked.end()) say("what was parked is forgotten");
      return;
    }
    if (parked == state.parked.end()) return say("something runs that was not parked here");
    for (auto& [other, task] : state.parked) {
      if (task != next->task || other == lane) continue;
      std::swap(task, parked->second);  // it was older
      break;
    }
    if (parked->second != next->task) say("something runs that was parked nowhere");
    state.parked.erase(parked);
    start(state, lane, next->task);
  }

  void say(const char* what) {
    if (wrong_) return;
    wrong_ = fmt::format("{}:", what);
    for (const TaskShape& shape : shapes_) {
      *wrong_ += fmt::format(" {}C{}V", shape.matrix, shape.vector);
    }
  }

  const Topology& topology_;
  std::vector<TaskShape> shapes_;
  std::set<std::string> seen_;
  std::optional<std::string> wrong_;
};

int explore(bool has_fault) {
  static constexpr TaskShape kShapes[] = {
      kMatrixTask, kVectorTask, {1, 1, false}, {1, 2, false}, {0, 2, false}};
  std::size_t sequences = 0, states = 0;
  for (const char* text : {"1x(1C2V)", "2x(1C2V)", "1x(3L)"}) {
    const Topology topology = *Topology::parse(text);
    for (std::size_t count = 1; count <= 4; ++count) {
      std::size_t all = 1;
      for (std::size_t i = 0; i < count; ++i) all *= std::size(kShapes);
      for (std::size_t number = 0; number < all; ++number) {
        std::vector<TaskShape> shapes;
        for (std::size_t rest = number; shapes.size() < count; rest /= std::size(kShapes)) {
          shapes.push_back(kShapes[rest % std::size(kShapes)]);
        }
        Explorer explorer(topology, shapes);
        const auto wrong = explorer.run();
        ++sequences;
        states += explorer.states();
        if (!wrong) continue;
        fmt::print("{}: {}\n", text, *wrong);
        return has_fault ? 0 : 1;
      }
    }
  }
  fmt::print("{} sequences of tasks, {} states, nothing wrong\n", sequences, states);
  return has_fault ? 1 : 0;
}

}  // namespace
}  // namespace dovetail::cores

int main(int argc, char** argv) {
  return dovetail::cores::explore(argc > 1 && std::atoi(argv[1]) != 0);
}
