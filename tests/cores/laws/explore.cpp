// Tries every order of events: each machine of a few lanes, each sequence of up to four tasks (up
// to three where some have several blocks), each interleaving of arrivals, ends of parts and
// planning. dovetail_dispatch_explore_N N ends with 0
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

struct Kind {
  TaskShape shape;
  std::uint32_t blocks = 1;
  bool together = false;
};

// A block as a number, for what runs or is parked.
constexpr std::uint64_t kMostBlocks = 8;
std::uint64_t block_of(TaskId task, std::uint32_t block) { return task * kMostBlocks + block; }

// Everything that an executor knows at one moment.
struct State {
  Dispatcher dispatcher;
  std::size_t arrived = 0;
  std::map<TaskId, std::uint32_t> waiting;        // the next block of each
  std::map<Lane, std::uint64_t> running, parked;  // blocks
  bool planned = true;                            // since the last event

  // States with the same key go on in the same way.
  std::string key() const {
    std::string text = fmt::format("{}{}", arrived, planned ? "p" : "");
    for (const auto& [task, next] : waiting) text += fmt::format(" {}/{}", task, next);
    for (const auto& [lane, block] : running) {
      text += fmt::format(" {}.{}:{}", lane.first, lane.second, block);
    }
    for (const auto& [lane, block] : parked) {
      text += fmt::format(" {}.{}+{}", lane.first, lane.second, block);
    }
    for (GroupId group = 0; group < dispatcher.tracker().groups(); ++group) {
      text += fmt::format(" {:x}", dispatcher.tracker().kept(group));
    }
    return text;
  }
};

class Explorer {
 public:
  Explorer(const Topology& topology, std::vector<Kind> kinds)
      : topology_(topology), kinds_(std::move(kinds)) {}

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
    if (state.arrived < kinds_.size()) {
      State next = state;
      const Kind& kind = kinds_[next.arrived];
      next.dispatcher.add({next.arrived, kind.shape, kind.blocks, kind.together, 0});
      next.waiting.emplace(next.arrived, 0);
      ++next.arrived;
      next.planned = false;
      visit(std::move(next));
    }
    for (const auto& [lane, block] : state.running) {
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
      start(state, to, block_of(move.task, move.block));
    }
    for (const Placement& placed : plan.placements) place(state, placed);
    for (const auto& [task, next] : state.waiting) {
      if (kinds_[task].together && next > 0) say("a cohort starts in parts");
    }
  }

  void place(State& state, const Placement& placed) {
    const auto waiting = state.waiting.find(placed.task);
    if (waiting == state.waiting.end()) return say("a task is given lanes that does not wait");
    if (placed.block != waiting->second) say("not the next block of a task");
    const auto& [shape, blocks, together] = kinds_[placed.task];
    if (++waiting->second == blocks) state.waiting.erase(waiting);
    if (together && placed.parked != 0) say("a block of a cohort has to wait");
    const std::uint64_t block = block_of(placed.task, placed.block);
    const LaneMask lanes = placed.running | placed.parked;
    if (choose_lanes(topology_.groups()[placed.group], shape, lanes) != lanes) {
      say("lanes that do not fit the shape");
    }
    if (shape.is_mixed() && placed.parked != 0) {
      say("a mixed task shares its lanes with foreign work");
    }
    for (LaneMask left = placed.running; left != 0; left &= left - 1) {
      start(state, {placed.group, static_cast<unsigned>(std::countr_zero(left))}, block);
    }
    for (LaneMask left = placed.parked; left != 0; left &= left - 1) {
      const Lane lane{placed.group, static_cast<unsigned>(std::countr_zero(left))};
      if (!state.running.contains(lane)) say("something is parked behind an idle lane");
      if (!state.parked.emplace(lane, block).second) say("a pending slot is taken twice");
    }
  }

  void start(State& state, const Lane& lane, std::uint64_t block) {
    if (!state.running.emplace(lane, block).second) say("a lane runs two tasks");
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
    const std::uint64_t started = block_of(next->task, next->block);
    for (auto& [other, block] : state.parked) {
      if (block != started || other == lane) continue;
      std::swap(block, parked->second);  // it was older
      break;
    }
    if (parked->second != started) say("something runs that was parked nowhere");
    state.parked.erase(parked);
    start(state, lane, started);
  }

  void say(const char* what) {
    if (wrong_) return;
    wrong_ = fmt::format("{}:", what);
    for (const auto& [shape, blocks, together] : kinds_) {
      *wrong_ += fmt::format(" {}C{}V", shape.matrix, shape.vector);
      if (blocks > 1) *wrong_ += fmt::format("*{}{}", blocks, together ? "!" : "");
    }
  }

  const Topology& topology_;
  std::vector<Kind> kinds_;
  std::set<std::string> seen_;
  std::optional<std::string> wrong_;
};

int explore(bool has_fault) {
  // The last ones of several blocks.
  static constexpr Kind kKinds[] = {
      {kMatrixTask},   {kVectorTask},           {{1, 1, false}},        {{1, 2, false}},
      {{0, 2, false}}, {kVectorTask, 2, false}, {kVectorTask, 2, true}, {{1, 1, false}, 2, false}};
  constexpr std::size_t kSingle = 5;
  std::size_t sequences = 0, states = 0;
  for (const char* text : {"1x(1C2V)", "2x(1C2V)", "1x(3L)"}) {
    const Topology topology = *Topology::parse(text);
    for (std::size_t count = 1; count <= 4; ++count) {
      const std::size_t choice = count < 4 ? std::size(kKinds) : kSingle;
      std::size_t all = 1;
      for (std::size_t i = 0; i < count; ++i) all *= choice;
      for (std::size_t number = 0; number < all; ++number) {
        std::vector<Kind> kinds;
        for (std::size_t rest = number; kinds.size() < count; rest /= choice)
          kinds.push_back(kKinds[rest % choice]);
        Explorer explorer(topology, kinds);
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
