// Tries every order of events between the submission of tasks and their end: each machine of a few
// lanes, each sequence of up to four tasks, each way in which they may wait for each other, each
// interleaving of what the submitter, the lanes' threads and combiners do. The graph, the
// dispatcher and the gates are those that executors use; what is done with them stands here as an
// executor does it. dovetail_ends_explorer N WHERE ends with 0 where the N-th fault breaks a rule
// somewhere, or, for 0, without a fault, none does. WHERE: gates or dispatcher.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cores/gates.h"
#include "cores/laws/exploring.h"
#include "cores/mutation.h"
#include "cores/task_graph.h"
#include "support/mutant_argument.h"

namespace dovetail::cores {
namespace {

constexpr std::size_t kMaxTasks = 4, kMaxBlocks = 2;

// Tasks, and for each of them those before it for which it waits, one bit each.
struct Program {
  std::vector<Kind> kinds;
  std::vector<unsigned> waits_for;
  bool gated = true;  // a thread for each lane: parts meet

  bool is_gated(TaskId task) const {
    const Kind& kind = kinds[task];
    return kind.shape.is_mixed() || (kind.together && kind.blocks > 1);
  }
  std::uint32_t parts(TaskId task) const { return kinds[task].blocks * kinds[task].shape.lanes(); }
  std::string text() const {
    std::string all = gated ? "" : "without meeting, ";
    for (std::size_t task = 0; task < kinds.size(); ++task) {
      all += fmt::format("{}{}", task == 0 ? "" : ", ", describe(kinds[task]));
      for (std::size_t earlier = 0; earlier < task; ++earlier) {
        if ((waits_for[task] >> earlier & 1) != 0) all += fmt::format(" after {}", earlier);
      }
    }
    return all;
  }
};

// A graph that can be copied: what was done to one is done to the other.
class Graph {
 public:
  explicit Graph(const Program& program)
      : program_(&program), graph_({kMaxTasks, 4 * kMaxTasks, kMaxTasks * kMaxTasks}) {}
  Graph(const Graph& other) : Graph(*other.program_) {
    for (const int finished : other.done_) {
      if (finished < 0) {
        submit();
      } else {
        finish(static_cast<TaskNumber>(finished));
      }
      while (take_ready()) {
      }
    }
  }
  Graph& operator=(const Graph&) = delete;

  // The next task: it waits for every other one by name, for the others by their memory, for the
  // first one both ways.
  bool submit() {
    const TaskNumber task = graph_.submitted();
    std::vector<Access> accesses = {{Region(task, 0, 8), AccessMode::kWrite}};
    std::vector<TaskNumber> after;
    for (TaskNumber earlier = 0; earlier < task; ++earlier) {
      if ((program_->waits_for[task] >> earlier & 1) == 0) continue;
      const bool by_name = (task - earlier) % 2 == 0;
      if (by_name || earlier == 0) after.push_back(earlier);
      if (!by_name || earlier == 0) accesses.push_back({Region(earlier, 0, 8), AccessMode::kRead});
    }
    done_.push_back(-1);
    return graph_.submit(accesses, after).has_value();
  }
  void finish(TaskNumber task) {
    done_.push_back(static_cast<int>(task));
    graph_.finish(task);
  }
  std::optional<TaskNumber> take_ready() { return graph_.take_ready(); }
  bool has_ended() const { return graph_.running() == 0; }

 private:
  const Program* program_;
  TaskGraph graph_;
  std::vector<int> done_;  // -1: a task was submitted
};

// What states have in common until one of them changes it.
template <class T>
class Shared {
 public:
  explicit Shared(T value) : value_(std::make_shared<T>(std::move(value))) {}
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  T& change() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }

 private:
  std::shared_ptr<T> value_;
};

// A number that threads count down, for a state that is copied.
struct Count {
  std::atomic<std::uint32_t> left{0};
  Count() = default;
  Count(const Count& other) : left(other.left.load()) {}
  Count& operator=(const Count& other) {
    left = other.left.load();
    return *this;
  }
};

// How far the part on a lane has come.
enum class Step : std::uint8_t { kGiven, kArrived, kStarted, kEnded };

struct OnLane {
  TaskId task = 0;
  std::uint32_t block = 0;
  std::uint32_t gate = Gates::kNone, start = Gates::kNone;  // that of the block that starts it
  Step step = Step::kGiven;
};
using Lanes = Floor<OnLane>;

// That a block has ended, if it has a gate, or a task.
struct Report {
  TaskId task = 0;
  std::uint32_t block = 0;
  std::uint32_t gate = Gates::kNone;
};

struct State {
  Shared<Graph> graph;
  Shared<Dispatcher> dispatcher;
  Shared<Gates> gates;
  Lanes floor = {};
  std::array<Count, kMaxTasks> blocks_left = {};
  std::vector<Report> reports = {};  // of which no combiner has heard
  std::size_t submitted = 0;
  bool planned = true;              // since the last event
  std::vector<TaskId> queued = {};  // given to the dispatcher, in that order
  // Of each task: blocks that were given to lanes, parts that have ended, times that it was ready.
  std::array<std::uint32_t, kMaxTasks> given{}, ended{}, ready{};
  std::array<bool, kMaxTasks> finished{};  // a combiner has heard of its end
};

// States with the same key go on in the same way: what else a state has follows from it, up to
// names of gates, as long as nothing has gone wrong.
struct Key {
  std::uint64_t lanes = 0, rest = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = (key.lanes ^ std::rotl(key.rest, 29)) * 0x9e3779b97f4a7c15U;
    hash = (hash ^ hash >> 32 ^ key.rest) * 0xd6e8feb86659fd93U;
    return hash ^ hash >> 32;
  }
};

class Explorer {
 public:
  Explorer(const Topology& topology, const Program& program)
      : topology_(topology), program_(program) {}

  // What goes wrong in some order of events; nothing: nothing does.
  std::optional<std::string> run() {
    const Dispatcher dispatcher(topology_, {});
    for (TaskId task = 0; task < program_.kinds.size(); ++task) {
      const Kind& kind = program_.kinds[task];
      const bool joins = kind.shape.lanes() == 0;
      if (!joins && !dispatcher.check({task, kind.shape, kind.blocks, kind.together, 0})) return {};
    }
    const auto lanes = static_cast<std::uint32_t>(topology_.lanes());
    visit(State{Shared(Graph(program_)), Shared(dispatcher), Shared(Gates(4 * lanes + 4))});
    return wrong_;
  }
  std::size_t states() const { return seen_.size(); }

 private:
  Key key(const State& state) const {
    Key key;
    std::array<bool, kMaxTasks> pending{};
    for (std::size_t lane = 0; lane < Lanes::kLanes; ++lane) {
      const auto& runs = state.floor.running[lane];
      const auto& waits = state.floor.pending[lane];
      const std::uint64_t step = runs ? static_cast<std::uint64_t>(runs->step) : 0;
      key.lanes = key.lanes << 6 | (runs ? (runs->task + 1) << 3 | runs->block << 2 | step : 0);
      key.rest = key.rest << 4 | (waits ? (waits->task + 1) << 1 | waits->block : 0);
      if (waits) pending[waits->task] = true;
    }
    for (GroupId group = 0; group < topology_.groups().size(); ++group) {
      key.lanes = key.lanes << Lanes::kLanesOfGroup | state.dispatcher->tracker().reserved(group);
    }
    key.lanes = (key.lanes << 3 | state.submitted) << 1 | (state.planned ? 1 : 0);
    std::uint64_t reports = 0;
    for (const Report& report : state.reports) {
      const bool gate = report.gate != Gates::kNone;
      reports |= std::uint64_t{1} << (3 * report.task + (gate ? 1 + report.block : 0));
    }
    key.rest = key.rest << 3 * kMaxTasks | reports;
    std::uint64_t queue = 0;  // the order of those that wait or are pending
    for (const TaskId task : state.queued) {
      const bool waits = state.given[task] < program_.kinds[task].blocks;
      if (waits || pending[task]) queue = queue << 3 | (task + 1);
    }
    key.rest = key.rest << 3 * kMaxTasks | queue;
    for (const std::uint32_t given : state.given) key.rest = key.rest << 2 | given;
    return key;
  }

  void visit(const State& state) {
    if (wrong_ || !seen_.insert(key(state)).second) return;
    bool goes_on = false;
    const auto go = [&](const auto& event) {
      goes_on = true;
      State next = state;
      event(next);
      visit(next);
    };
    if (!state.planned) go([&](State& next) { plan(next); });
    if (state.submitted < program_.kinds.size()) go([&](State& next) { submit(next); });
    for (std::size_t lane = 0; lane < Lanes::kLanes; ++lane) {
      const auto& part = state.floor.running[lane];
      if (!part) continue;
      if (part->step == Step::kEnded) {
        // A report that a lane is free follows the reports of all that had ended.
        if (state.reports.empty()) go([&](State& next) { free_lane(next, lane); });
        continue;
      }
      // Combiners plan before they let others go on. For what lanes do meanwhile it makes no
      // difference whether they do it before or after that.
      if (!state.planned) continue;
      if (part->gate != Gates::kNone && part->step == Step::kGiven) {
        go([&](State& next) { arrive(next, lane); });
      } else if (part->step != Step::kArrived) {
        go([&](State& next) { end(next, lane); });
      } else if (state.gates->may_start(part->gate)) {
        go([&](State& next) { start(next, lane); });
      }
    }
    for (std::size_t report = 0; report < state.reports.size(); ++report) {
      go([&](State& next) { hear(next, report); });
    }
    if (!goes_on) expect_all_ended(state);
  }

  // Of the submitter.
  void submit(State& state) {
    const TaskId task = state.submitted++;
    state.blocks_left[task].left = program_.kinds[task].blocks;
    if (!state.graph.change().submit()) say("the graph refuses a task");
    make_ready(state);
  }

  // Of a lane's thread.
  void arrive(State& state, std::size_t lane) {
    OnLane& part = *state.floor.running[lane];
    part.step = Step::kArrived;
    state.gates.change().arrive(part.gate);
  }

  void start(State& state, std::size_t lane) {
    OnLane& part = *state.floor.running[lane];
    part.step = Step::kStarted;
    if (state.gates->skips(part.gate)) say("a part does not run");
    if (!program_.gated) return;
    // All of them were given their lanes at once.
    for (const auto* lanes : {&state.floor.running, &state.floor.pending}) {
      for (const auto& other : *lanes) {
        const bool meets =
            other && other->task == part.task && (is_gang(part.task) || other->block == part.block);
        if (meets && other->step == Step::kGiven) say("a part starts before all have arrived");
      }
    }
  }

  void end(State& state, std::size_t lane) {
    OnLane& part = *state.floor.running[lane];
    part.step = Step::kEnded;
    ++state.ended[part.task];
    if (part.gate != Gates::kNone) {
      if (state.gates.change().end_part(part.gate)) {
        state.reports.push_back({part.task, part.block, part.gate});
      }
    } else if (are_last(state.blocks_left[part.task].left)) {
      state.reports.push_back({part.task, 0, Gates::kNone});
    }
  }

  // Of a combiner.
  void hear(State& state, std::size_t number) {
    const Report report = state.reports[number];
    state.reports.erase(state.reports.begin() + static_cast<std::ptrdiff_t>(number));
    if (report.gate != Gates::kNone) {
      if (state.gates->task(report.gate) != report.task) return say("a gate is another task's");
      Gates& gates = state.gates.change();
      if (!gates.close(report.gate, state.blocks_left[report.task].left)) return;
    }
    finish(state, report.task);
    make_ready(state);
  }

  void finish(State& state, TaskId task) {
    if (state.finished[task]) return say("a task ends twice");
    state.finished[task] = true;
    state.graph.change().finish(task);
  }

  void make_ready(State& state) {
    while (const auto task = state.graph.change().take_ready()) {
      if (++state.ready[*task] > 1) return say("a task is ready twice");
      for (TaskId earlier = 0; earlier < *task; ++earlier) {
        if ((program_.waits_for[*task] >> earlier & 1) != 0 && !has_ended(state, earlier)) {
          return say("a task is ready before one for which it waits has ended");
        }
      }
      const Kind& kind = program_.kinds[*task];
      if (kind.shape.lanes() == 0) {
        finish(state, *task);
        continue;
      }
      state.dispatcher.change().add({*task, kind.shape, kind.blocks, kind.together, 0});
      state.queued.push_back(*task);
      state.planned = false;
    }
  }

  bool has_ended(const State& state, TaskId task) const {
    const bool joins = program_.kinds[task].shape.lanes() == 0;
    return joins ? state.ready[task] > 0 : state.ended[task] == program_.parts(task);
  }

  void free_lane(State& state, std::size_t lane) {
    const auto next =
        state.dispatcher.change().finish(Lanes::group_of(lane), Lanes::index_of(lane), 0);
    check(state.floor.finish(lane, next));
    state.planned = false;
  }

  void plan(State& state) {
    Dispatcher::Plan plan;
    state.dispatcher.change().plan(0, plan);
    state.planned = true;
    for (const Move& move : plan.moves) check(state.floor.move(move));
    for (std::size_t i = 0; i < plan.placements.size() && !wrong_;) {
      const TaskId task = plan.placements[i].task;
      std::size_t end = i + 1;
      while (is_gang(task) && end < plan.placements.size() && plan.placements[end].task == task) {
        ++end;
      }
      give(state, std::span(plan.placements).subspan(i, end - i));
      i = end;
    }
    const auto waits = [&](TaskId task) { return state.given[task] < program_.kinds[task].blocks; };
    const auto waiting = std::count_if(state.queued.begin(), state.queued.end(), waits);
    if (state.dispatcher->waiting() != static_cast<std::size_t>(waiting)) {
      say("a task is lost, or there twice");
    }
  }

  // A block, or all blocks of a gang.
  void give(State& state, std::span<const Placement> blocks) {
    const TaskId task = blocks.front().task;
    const Kind& kind = program_.kinds[task];
    if (is_gang(task) && blocks.size() < kind.blocks) say("a gang starts in parts");
    std::uint32_t first = Gates::kNone;
    for (const Placement& placed : blocks) {
      if (state.ready[task] == 0) say("a task is given lanes that is not ready");
      if (placed.block != state.given[task]++ || placed.block >= kind.blocks) {
        say("not the next block of a task");
      }
      OnLane part{task, placed.block};
      if (program_.is_gated(task)) {
        const std::uint32_t parts = kind.shape.lanes();
        const auto together = static_cast<std::uint32_t>(blocks.size()) * parts;
        Gates& gates = state.gates.change();
        part.gate = first != Gates::kNone ? gates.join(first, parts)
                                          : gates.open(task, parts, program_.gated ? together : 0,
                                                       false, is_gang(task));
        if (is_gang(task) && first == Gates::kNone) first = part.gate;
        part.start = first == Gates::kNone ? part.gate : first;
        expect_unused(state, part.gate);
      }
      check(state.floor.place(topology_.groups()[placed.group], kind, placed, part));
    }
  }

  // No part reads a gate that is opened, and no report names it. A part that has started no longer
  // reads the gate that started it.
  void expect_unused(const State& state, std::uint32_t gate) {
    for (const auto* lanes : {&state.floor.running, &state.floor.pending}) {
      for (const auto& part : *lanes) {
        if (!part || part->step == Step::kEnded) continue;
        const bool looks =
            part->gate == gate || (part->start == gate && part->step < Step::kStarted);
        if (looks) say("a gate is used again while a part looks at it");
      }
    }
    for (const Report& report : state.reports) {
      if (report.gate == gate) say("a gate is used again before a combiner has heard of its end");
    }
  }

  // Where nothing can happen any more.
  void expect_all_ended(const State& state) {
    for (TaskId task = 0; task < program_.kinds.size(); ++task) {
      if (!has_ended(state, task) || !state.finished[task]) return say("nothing goes on");
    }
    if (!state.floor.idle()) say("a lane is left busy");
    if (state.gates->in_use() != 0) say("a gate is left open");
    if (!state.graph->has_ended()) say("the graph has not ended");
    if (state.dispatcher->waiting() != 0) say("a task is left with the dispatcher");
    for (GroupId group = 0; group < topology_.groups().size(); ++group) {
      const GroupTracker& tracker = state.dispatcher->tracker();
      if (tracker.idle(group) != tracker.spec(group).all()) say("a lane is left busy");
      if (tracker.reserved(group) != 0) say("a lane is left reserved");
    }
  }

  bool is_gang(TaskId task) const {
    return program_.kinds[task].together && program_.kinds[task].blocks > 1;
  }
  void check(const char* wrong) {
    if (wrong != nullptr) say(wrong);
  }
  void say(const char* what) {
    if (!wrong_) wrong_ = fmt::format("{}: {}", what, program_.text());
  }

  const Topology& topology_;
  const Program& program_;
  std::unordered_set<Key, KeyHash> seen_;
  std::optional<std::string> wrong_;
};

// All ways in which so many tasks may wait for each other, as one number each: a bit for each pair.
std::vector<unsigned> edges_of(std::size_t tasks, unsigned number) {
  std::vector<unsigned> waits_for(tasks, 0);
  for (std::size_t task = 1; task < tasks; ++task) {
    waits_for[task] = number & ((1U << task) - 1);
    number >>= task;
  }
  return waits_for;
}

// A machine, and of how many kinds of tasks each of so many tasks is.
struct Machine {
  const char* topology;
  std::array<std::size_t, kMaxTasks> choice;
};

// What goes wrong, with each way in which the tasks may wait for each other, or nothing.
std::optional<std::string> explore(const Topology& topology, const std::vector<Kind>& kinds,
                                   std::size_t& programs, std::size_t& states) {
  const std::size_t pairs = kinds.size() * (kinds.size() - 1) / 2;
  for (const bool gated : {true, false}) {
    if (!gated && kinds.size() > 2) break;
    for (unsigned number = 0; number < 1U << pairs; ++number) {
      const Program program{kinds, edges_of(kinds.size(), number), gated};
      Explorer explorer(topology, program);
      const auto wrong = explorer.run();
      programs += explorer.states() > 0 ? 1 : 0;
      states += explorer.states();
      if (wrong) return wrong;
    }
  }
  return std::nullopt;
}

int explore_all(bool has_fault) {
  // Of one task or two all of them, of more the first ones, so that it takes some seconds; all of
  // three take a minute (DOVETAIL_LONG).
  static constexpr Kind kKinds[] = {
      {{1, 1, false}},           {{0, 0, false}}, {kVectorTask},
      {kVectorTask, 2, false},   {{1, 2, false}}, {kVectorTask, 2, true},
      {{1, 1, false}, 2, false}, {kMatrixTask},   {{0, 2, false}},
      {{1, 1, false}, 2, true}};
  constexpr std::size_t kAll = std::size(kKinds);
  const bool is_long = std::getenv("DOVETAIL_LONG") != nullptr;
  const std::size_t three = is_long ? kAll : 5, four = is_long ? 3 : 2;
  std::size_t programs = 0, states = 0;
  for (const Machine& machine : {Machine{"1x(1C2V)", {kAll, kAll, three, four}},
                                 Machine{"2x(1C2V)", {kAll, kAll, is_long ? 6U : 4U, 2}},
                                 Machine{"1x(3L)", {kAll, kAll, three, four}}}) {
    const Topology topology = *Topology::parse(machine.topology);
    for (std::size_t count = 1; count <= kMaxTasks; ++count) {
      const auto kinds = std::span(kKinds).first(machine.choice[count - 1]);
      const bool found = for_each_sequence(kinds, count, [&](const auto& sequence) {
        const auto wrong = explore(topology, sequence, programs, states);
        if (wrong) fmt::print("{}: {}\n", machine.topology, *wrong);
        return wrong.has_value();
      });
      if (found) return has_fault ? 0 : 1;
    }
  }
  fmt::print("{} programs, {} states, nothing wrong\n", programs, states);
  return has_fault ? 1 : 0;
}

}  // namespace
}  // namespace dovetail::cores

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  if (argc != 3) return 2;
  const int number = std::string_view(argv[2]) == "dispatcher"
                         ? dovetail::activate_mutant_argument<DispatchMutant>(argc, argv)
                         : dovetail::activate_mutant_argument<GateMutant>(argc, argv);
  return explore_all(number != 0);
}
