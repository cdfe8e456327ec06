// Tries every order of events: each machine of a few lanes, each sequence of up to four tasks (up
// to three where some have several blocks), each interleaving of arrivals, ends of parts and
// planning. dovetail_dispatch_explorer N ends with 0
// where the N-th fault of the dispatcher breaks a rule somewhere, or, for 0, none does.

#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cores/laws/exploring.h"
#include "cores/mutation.h"
#include "support/mutant_argument.h"

namespace dovetail::cores {
namespace {

struct Block {
  TaskId task = 0;
  std::uint32_t block = 0;
};

// Everything that an executor knows at one moment.
struct State {
  Dispatcher dispatcher;
  std::size_t arrived = 0;
  std::map<TaskId, std::uint32_t> waiting;  // the next block of each
  Floor<Block> floor;
  bool planned = true;  // since the last event

  // States with the same key go on in the same way.
  std::string key() const {
    std::string text = fmt::format("{}{}", arrived, planned ? "p" : "");
    for (const auto& [task, next] : waiting) text += fmt::format(" {}/{}", task, next);
    for (std::size_t lane = 0; lane < Floor<Block>::kLanes; ++lane) {
      if (const auto& on = floor.running[lane]) {
        text += fmt::format(" {}:{}/{}", lane, on->task, on->block);
      }
      if (const auto& on = floor.pending[lane]) {
        text += fmt::format(" {}+{}/{}", lane, on->task, on->block);
      }
    }
    for (GroupId group = 0; group < dispatcher.tracker().groups(); ++group) {
      text += fmt::format(" {:x}", dispatcher.tracker().reserved(group));
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
    visit(State{Dispatcher(topology_, {}), 0, {}, {}, true});
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
    for (std::size_t lane = 0; lane < Floor<Block>::kLanes; ++lane) {
      if (!state.floor.running[lane]) continue;
      State next = state;
      check(next.floor.finish(lane, next.dispatcher.finish(Floor<Block>::group_of(lane),
                                                           Floor<Block>::index_of(lane), 0)));
      next.planned = false;
      visit(std::move(next));
    }
    if (state.dispatcher.waiting() != state.waiting.size()) say("a task is lost, or there twice");
    if (state.floor.idle() && state.planned && !state.waiting.empty()) {
      say("nothing runs, and a task waits");
    }
  }

  void plan(State& state) {
    Dispatcher::Plan plan;
    state.dispatcher.plan(0, plan);
    state.planned = true;
    for (const Move& move : plan.moves) check(state.floor.move(move));
    for (const Placement& placed : plan.placements) place(state, placed);
    for (const auto& [task, next] : state.waiting) {
      if (kinds_[task].together && next > 0) say("a gang starts in parts");
    }
  }

  void place(State& state, const Placement& placed) {
    const auto waiting = state.waiting.find(placed.task);
    if (waiting == state.waiting.end()) return say("a task is given lanes that does not wait");
    if (placed.block != waiting->second) say("not the next block of a task");
    if (++waiting->second == kinds_[placed.task].blocks) state.waiting.erase(waiting);
    check(state.floor.place(topology_.groups()[placed.group], kinds_[placed.task], placed,
                            {placed.task, placed.block}));
  }

  void check(const char* wrong) {
    if (wrong != nullptr) say(wrong);
  }

  void say(const char* what) {
    if (wrong_) return;
    wrong_ = fmt::format("{}:", what);
    for (const Kind& kind : kinds_) *wrong_ += fmt::format(" {}", describe(kind));
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
      const bool found =
          for_each_sequence(std::span(kKinds).first(choice), count, [&](auto& kinds) {
            Explorer explorer(topology, kinds);
            const auto wrong = explorer.run();
            ++sequences;
            states += explorer.states();
            if (wrong) fmt::print("{}: {}\n", text, *wrong);
            return wrong.has_value();
          });
      if (found) return has_fault ? 0 : 1;
    }
  }
  fmt::print("{} sequences of tasks, {} states, nothing wrong\n", sequences, states);
  return has_fault ? 1 : 0;
}

}  // namespace
}  // namespace dovetail::cores

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  return explore(dovetail::activate_mutant_argument<DispatchMutant>(argc, argv) != 0);
}
