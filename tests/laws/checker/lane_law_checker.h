#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cores/dispatcher.h"
#include "laws/checker/lane_events.h"

namespace dovetail::laws {

// What a run over lanes has promised, and how well its clock tells.
struct LaneRules {
  // How parts start that belong together, those of a mixed block or all of a gang.
  enum class Together : std::uint8_t {
    kAtOnce,       // at the same time
    kOverlapping,  // none ends before all have started
    kAnyhow,
  };
  Together mixed = Together::kAtOnce;
  Together gangs = Together::kAtOnce;
  // Who becomes ready first, starts first: among gangs, among tasks of one lane for the same kind
  // of work, and of both kinds on a lane that does both,
  bool oldest_first = true;
  bool oldest_mixed_first = true;  // and among mixed tasks of one shape.
  // No lane is idle beside a task that could use it, and waiting is bounded both ways.
  bool bounded = true;
  // As in cores::DispatchOptions.
  std::uint32_t starvation_bound = 8;
  bool pending_slots = true;

  // What the dispatcher promises, on lanes of a clock that shows it.
  static LaneRules of(const cores::DispatchOptions& options);
  // What clocks of threads can tell. `together`: every lane has a thread of its own.
  static LaneRules on_threads(bool together);
};

// Judges a run over lanes by its events alone. It keeps books of its own of every lane and every
// task; it knows nothing of how decisions are made. A violation names the law, as LawChecker does:
//
// 1 (live frontier): nothing starts before it is ready; no lane is idle beside a task that could
// use it, but those that are reserved for the oldest gang and the oldest mixed task. Which ones
// these are is not in the events: there has to be a choice that explains it (reserved_lanes.h). 2
// (whole resource): every block runs on lanes of one group that fit its shape, a lane does one
// thing at a time, parts that belong together start together.
// 4 (oldest first, nothing lost): every part of every block runs once; equal tasks start in the
// order in which they became ready. Tasks of one lane compete for the lanes that do both kinds of
// work: where all lanes do, they are equal whatever their kind; elsewhere none starts on such a
// lane while an older one of the other kind waits, but one of known cost that may be sure to end in
// time where the older one is not. Waiting is bounded: a task of one lane is passed over by
// `starvation_bound` rounds of mixed tasks and gangs (a block or a gang that has begun to be
// counted counts whole; a round is as many parts, on lanes that it could have used, as the machine
// has such lanes; what is older and has one of them takes its turn), a mixed one by
// `starvation_bound` younger gangs that leave it no room. The oldest mixed task has lanes of one
// group reserved for it, the same ones until it starts, but while a gang waits that goes first:
// what that does not need, any task may use. (Where it could have other lanes, they may be others
// once a gang has started.) So there has to be a choice of lanes on which, from the moment at which
// they are reserved, it waits for no more others than can have been pending, one on each lane that
// still does what it did before, and those of one lane whose turn it is, one for each
// `starvation_bound` rounds of mixed tasks and gangs that have started since one for the same kind
// of work did (those of known cost, which may be sure to end in time, are not counted).
//
// Events come in the order of lane_events.h. What has the same time is judged together, when time
// goes on: the order of decisions of one moment is unknown.
class LaneLawChecker {
 public:
  LaneLawChecker(const cores::Topology& machine, const LaneRules& rules);

  // Takes the next event. What follows the first violation is not judged: the books are off then.
  void see(const LaneEvent& event);

  // No more events come, and everything should have ended.
  void finish();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Task;

  struct Block {
    cores::GroupId group = 0;
    cores::LaneMask lanes = 0;  // of the parts that have started
    cores::LaneMask ended = 0;  // ... and ended
  };

  // Tasks among which the oldest goes first, and what happened to them in this moment.
  struct Line {
    cores::TaskShape shape;
    std::map<std::uint64_t, Task*> waiting;  // those with blocks that have not started, by age
    Task* youngest = nullptr;                // of those that had a block start
    std::uint32_t started = 0;               // blocks

    Task* oldest() const { return waiting.empty() ? nullptr : waiting.begin()->second; }
  };

  struct Task {
    cores::ReadyTask is;
    std::uint64_t order = 0;
    std::vector<Block> blocks;
    std::uint32_t begun = 0, ended = 0;  // blocks
    std::uint32_t started = 0;           // blocks, in this moment
    Line* line = nullptr;
  };

  struct Running {
    Task* task = nullptr;
    std::uint32_t block = 0;
    cores::Ticks since = 0;
  };

  // What a lane has done since lanes are reserved for the oldest mixed task.
  struct Since {
    std::uint32_t started = 0;  // parts of others
    bool may_have_pending = false;
  };

  enum Kind : std::size_t { kMatrix, kVector };

  // A part of a mixed task or a gang that has started in this moment.
  struct WidePart {
    const Task* task = nullptr;
    std::uint32_t block = 0;
    cores::GroupId group = 0;
    unsigned lane = 0;
  };

  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    if (!violations_.empty()) return;
    violations_.push_back(
        fmt::format("at {}: {}", now_, fmt::format(format, std::forward<Args>(args)...)));
  }

  void ready(const LaneEvent& event);
  void start(const LaneEvent& event);
  void end(const LaneEvent& event);

  void judge_moment();
  void judge_together();
  void judge_order();
  void judge_kinds();
  void judge_idle_lanes();
  void judge_starvation_bound(Kind kind);
  void judge_gangs();
  void count_turns();
  void judge_reserved();
  void begin_moment();

  static bool is_gang(const Task& task) { return task.is.together && task.is.blocks > 1; }
  Kind kind_of(const cores::TaskShape& shape) const;
  cores::LaneMask lanes_for(Kind kind, cores::GroupId group) const;
  std::size_t parts_for(Kind kind) const;
  bool has_lost_its_turn(Kind kind) const;
  bool is_whole(const Task& task, const Block& block) const;
  bool leaves_no_room(const Task& gang, const cores::TaskShape& shape) const;
  Line& line_of(const cores::ReadyTask& task);
  const Line* oldest_mixed() const;
  const Task* has_lanes_reserved() const;
  bool has_one_choice(const cores::TaskShape& shape) const;

  std::vector<cores::GroupSpec> groups_;
  LaneRules rules_;
  bool one_kind_ = true;                     // every lane does both kinds of work
  std::array<std::size_t, 2> lane_count_{};  // by kind
  std::vector<std::string> violations_;
  cores::Ticks now_ = 0;

  std::map<cores::TaskId, Task> tasks_;
  std::size_t unended_ = 0;
  std::vector<std::vector<Running>> running_;  // by group and lane
  std::vector<cores::LaneMask> idle_;          // by group
  Line gangs_;
  std::array<Line, 2> singles_;
  std::map<std::pair<bool, unsigned>, Line> mixed_;  // by shape

  // Of this moment.
  std::vector<std::pair<Task*, std::uint32_t>> starts_, ends_;  // blocks, one for each part
  std::vector<Task*> started_gangs_;
  std::vector<WidePart> wide_parts_;
  std::vector<const Task*> on_both_;     // of one lane, that have started on one of both kinds
  std::array<Task*, 2> single_waits_{};  // the oldest that waited when it began,
  Task* mixed_waits_ = nullptr;          // and the same of mixed tasks

  // How often the oldest waiting task has been passed over.
  std::array<std::size_t, 2> passed_by_parts_{};
  std::uint32_t passed_by_gangs_ = 0;

  // The task that lanes are reserved for, and what lanes have done since, by group and lane.
  const Task* has_reserved_ = nullptr;
  std::vector<std::vector<Since>> since_reserved_;
  std::array<std::size_t, 2> for_a_turn_{};  // parts, with those from before that began
  // Parts of mixed tasks and gangs since one of a single lane started, while one waited.
  std::array<std::size_t, 2> since_single_{};
};

}  // namespace dovetail::laws
